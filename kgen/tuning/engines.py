"""Where kernels are compiled and measured: processes of this machine, or any executor's."""

from __future__ import annotations

import atexit
import contextlib
import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import (
    BrokenExecutor,
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
    wait,
)
from multiprocessing import get_context
from typing import Any, Protocol, TypeVar

from kgen.errors import KgenError
from kgen.ir.optional import load
from kgen.performance.device import Device
from kgen.performance.model import Work
from kgen.runtime.system import n_processors
from kgen.tuning.compiling import Compiled, ConfigurationError, compile_configuration
from kgen.tuning.devices import DeviceInfo, device_lock
from kgen.tuning.measure import (
    Measurement,
    compare_kernels,
    describe_device,
    find_limits,
    load_kernel,
    measure_kernel,
    prepare_task,
)
from kgen.tuning.worker import Deadline, Worker, WorkerDied

__all__ = ["Bench", "Engine", "ExecutorEngine", "LocalEngine", "awaited", "make_engine", "run_step"]

Result = TypeVar("Result")
#: The number of kernels that are built ahead of measurements.
_AHEAD = 2
#: The maximum number of processes that build kernels for one device.
_MAKERS = 12
#: The time limits of a reference, and of building code, in multiples of the deadline.
_REFERENCE, _COMPILATION = 10, 4
#: After these a process may be damaged.
_DAMAGING = frozenset({"launch", "bounds"})


class Bench:
    """One device, and the process that compiles or measures for it."""

    def __init__(self, device: str | None, timeout: float) -> None:
        self.device = device
        self.timeout = timeout
        self.worker = Worker()
        self._infos: dict[bytes, DeviceInfo] = {}

    def prepare(
        self, content: bytes, configurations: Sequence[Mapping[str, Any]]
    ) -> tuple[bytes, DeviceInfo]:
        """Complete a task by the first configuration that works; describe the device.

        Raises the error of the last one, if none works.
        """
        for number, configuration in enumerate(configurations, 1):
            try:
                task = self._call(prepare_task, content, configuration, times=_REFERENCE)
            except ConfigurationError as error:
                if error.cause == "timeout" or number == len(configurations):
                    raise
                continue
            content = task.dumps()
            return content, self.describe(content)
        raise KgenError("there is no configuration")

    def describe(self, content: bytes) -> DeviceInfo:
        """Describe the device that kernels of a task run on."""
        if content not in self._infos:
            self._infos[content] = self._call(
                describe_device, content, self.device, times=_COMPILATION
            )
        return self._infos[content]

    def compile(self, content: bytes, configuration: Mapping[str, Any]) -> Compiled:
        """Build the kernel of a configuration, while nothing is measured on the same processors."""
        info = self.describe(content)
        is_near = info.kind == "cpu"
        with device_lock(info.unit, shared=True) if is_near else contextlib.nullcontext():
            return self._call(
                compile_configuration, content, self.device, configuration, times=_COMPILATION
            )

    def measure(
        self,
        content: bytes,
        compiled: Compiled,
        best: float | None,
        begin: Callable[[], None] | None = None,
    ) -> tuple[Measurement, DeviceInfo]:
        """Verify and time a kernel, alone on the device; call *begin* right before it runs."""
        info = self._load(content, [compiled])
        with device_lock(info.unit):
            if begin is not None:
                begin()
            return self._call(measure_kernel, content, self.device, compiled, best), info

    def compare(
        self, content: bytes, kernels: Sequence[Compiled], rounds: int
    ) -> tuple[list[tuple[float, ...]], DeviceInfo]:
        """Time kernels in turn, alone on the device."""
        info = self._load(content, kernels)
        with device_lock(info.unit):
            samples = self._call(
                compare_kernels, content, self.device, kernels, rounds, times=len(kernels)
            )
        return samples, info

    def limits(self, content: bytes, wanted: Device | bool) -> tuple[Device | None, Work | None]:
        """Return the limits of the device, and the work of the kernel as written."""
        if wanted is False:
            return None, None
        with device_lock(self.describe(content).unit):
            return self._call(find_limits, content, self.device, wanted, times=_REFERENCE)

    def _load(self, content: bytes, kernels: Sequence[Compiled]) -> DeviceInfo:
        """Do slow work whose time is not measured: load kernels, run the reference."""
        for compiled in kernels:
            self._call(load_kernel, content, self.device, compiled, times=_REFERENCE)
        return self.describe(content)

    def _call(self, function: Callable[..., Result], *args: Any, times: int = 1) -> Result:
        """Call a function in the process; its death is a failure of the configuration."""
        try:
            return self.worker.call(function, *args, timeout=times * self.timeout)
        except WorkerDied as error:
            raise ConfigurationError("crash", str(error)) from None
        except Deadline as error:
            raise ConfigurationError("timeout", str(error)) from None
        except ConfigurationError as error:
            if error.cause in _DAMAGING:
                self.worker.close()
            raise

    def close(self) -> None:
        """End the process."""
        self.worker.close()


class Engine(Protocol):
    """Runs the steps of a tune, several at once; each may raise a ConfigurationError."""

    #: the numbers of kernels that are built, and measured, concurrently
    makers: int
    measurers: int
    #: the maximum number of configurations in progress
    most: int
    #: whether functions of this process can be called in a step
    is_local: bool

    def submit(self, step: str, *args: Any) -> Future[Any]:
        """Start a step: the name of a method of :class:`Bench`, and its arguments."""

    def close(self) -> None:
        """End all processes, even busy ones."""


class LocalEngine:
    """Processes of this machine: some that compile, and one for each device that measures."""

    def __init__(self, devices: Sequence[str | None], makers: int, timeout: float) -> None:
        self.makers, self.measurers, self.is_local = makers, len(devices), True
        self.most = makers + len(devices) + _AHEAD
        self._making = [Bench(devices[0], timeout) for _ in range(makers)]
        self._measuring = [Bench(device, timeout) for device in devices]
        self._free = {
            "compile": _queue_of(self._making),
            "measure": _queue_of(self._measuring),
        }
        self._threads = ThreadPoolExecutor(makers + len(devices))

    def submit(self, step: str, *args: Any) -> Future[Any]:
        """Start a step in a free process."""
        return self._threads.submit(self._run, step, *args)

    def _run(self, step: str, *args: Any) -> Any:
        free = self._free["compile" if step == "compile" else "measure"]
        bench = free.get()
        try:
            found = getattr(bench, step)(*args)
        finally:
            free.put(bench)
        if step == "prepare" and self.makers == 1 and found[1].kind == "cpu":
            # measurements on the processors never run beside a compiler: one process does both
            self._free["compile"] = self._free["measure"]
        return found

    def close(self) -> None:
        """End all processes, even busy ones."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        for bench in (*self._making, *self._measuring):
            bench.worker.end()
        self._threads.shutdown(wait=True)


def _queue_of(benches: Sequence[Bench]) -> queue.SimpleQueue[Bench]:
    free: queue.SimpleQueue[Bench] = queue.SimpleQueue()
    for bench in benches:
        free.put(bench)
    return free


class ExecutorEngine:
    """Any :class:`concurrent.futures.Executor`: each of its workers starts a process.

    A kernel that crashes then does not kill a worker. If a worker dies nevertheless, only the
    steps that it ran are lost.
    """

    def __init__(
        self, executor: Executor, devices: Sequence[str | None], workers: int, timeout: float
    ) -> None:
        self.executor = executor
        self.timeout = timeout
        self.makers = self.measurers = self.most = workers
        self._own: list[Executor] = []
        self.is_local = False
        self._load = dict.fromkeys(devices, 0)

    def submit(self, step: str, *args: Any) -> Future[Any]:
        """Start a step in some worker of the executor, for the device with the least work."""
        device = min(self._load, key=lambda name: self._load[name])
        call = (run_step, device, self.timeout, step, *args)
        try:
            future: Future[Any] = self.executor.submit(*call)
        except BrokenExecutor:  # as executors are after a process died
            self.executor = _successor(self.executor)
            self._own.append(self.executor)
            future = self.executor.submit(*call)
        if step != "compile":
            self._load[device] += 1
            future.add_done_callback(lambda _: self._release(device))
        return future

    def _release(self, device: str | None) -> None:
        self._load[device] -= 1

    def close(self) -> None:
        """Leave the executor to its owner."""
        for executor in self._own:
            executor.shutdown(wait=False)


def _successor(executor: Executor) -> Executor:
    """Return a replacement for a broken executor; raise its error if none can be made."""
    kind = type(executor)
    workers = _workers_of(executor)
    if kind.__module__.startswith("loky."):
        found: Executor = load("loky", "tune").get_reusable_executor(workers)
        return found
    if kind is ProcessPoolExecutor:
        return ProcessPoolExecutor(workers, mp_context=get_context("spawn"))
    raise BrokenExecutor(f"{kind.__name__} accepts no more tasks")


class _Benches(threading.local):
    """The benches of a thread of an executor's worker."""

    def __init__(self) -> None:
        self.of_device: dict[tuple[str | None, float], Bench] = {}


_benches = _Benches()


def run_step(device: str | None, timeout: float, step: str, *args: Any) -> Any:
    """Run a step in a worker of an executor: in a process that the worker starts once."""
    key = device, timeout
    bench = _benches.of_device.get(key)
    if bench is None:
        bench = _benches.of_device[key] = Bench(device, timeout)
        atexit.register(bench.close)
    return getattr(bench, step)(*args)


def make_engine(
    executor: Executor | None, devices: Sequence[str | None], workers: int | None, timeout: float
) -> Engine:
    """Return an engine for an executor; without one, for processes of this machine."""
    if executor is None:
        makers = max(1, min(n_processors() - 1, _MAKERS * len(devices)))
        return LocalEngine(devices, workers or makers, timeout)
    return ExecutorEngine(executor, devices, workers or _workers_of(executor), timeout)


def _workers_of(executor: Executor) -> int:
    """Return how many workers an executor has, if it tells."""
    client = getattr(executor, "_client", None)
    if client is not None:  # of dask
        return max(1, len(client.scheduler_info()["workers"]))
    for name in ("num_workers", "_max_workers"):  # mpi4py's; the standard library's and loky's
        found = getattr(executor, name, None)
        if isinstance(found, int):
            return max(1, found)
    return 2


def awaited(future: Future[Any]) -> Any:
    """Return the result of a step; a Ctrl-C is not delayed by it."""
    while not wait([future], timeout=0.2).done:
        pass
    return future.result()
