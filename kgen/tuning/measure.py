"""Measuring kernels in a worker: verified before they are timed, probed before they are sampled."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from kgen.errors import KgenError
from kgen.performance.device import Device
from kgen.performance.model import Work, find_work
from kgen.performance.peaks import measure_device
from kgen.performance.timing import settle
from kgen.runtime.autotest import fitted_data, in_shapes_of
from kgen.runtime.guarded import Guarded
from kgen.tuning.compiling import Compiled, ConfigurationError, failing_as, module_of, opened
from kgen.tuning.devices import DeviceInfo, device_info
from kgen.tuning.expected import difference, expected_of
from kgen.tuning.sampling import PROBES, SLOWER, calls_in_batch, full_samples
from kgen.tuning.sensors import Sensors, sensors_of
from kgen.tuning.task import Task, load_task

__all__ = [
    "Measurement",
    "compare_kernels",
    "describe_device",
    "find_limits",
    "load_kernel",
    "measure_kernel",
    "prepare_task",
]

#: The number of bytes written to evict the contents of caches.
_FLUSH_BYTES = 1 << 28
#: The seconds of calls over which energy is measured.
_ENERGY_S = 0.2


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """The seconds of calls of one kernel; ``is_probe``: too slow to be measured further."""

    samples: tuple[float, ...]
    is_probe: bool
    metrics: Mapping[str, float] = field(default_factory=dict)
    #: clocks and temperatures, if the device reports them
    sensors: Mapping[str, float] = field(default_factory=dict)


def prepare_task(content: bytes, configuration: Mapping[str, Any]) -> Task:
    """Return a task with the reference of all kernels, and the target whose devices run them.

    This runs the reference, whose results may be cached on disk.
    """
    task = load_task(content)
    with failing_as("transformation"):
        kernel = task.kernel(configuration)
        written = task.kernel_as_written(configuration)
    task = replace(task, opening=kernel.target, written=written)
    with failing_as("reference"):
        task.check_problem(written)
        expected_of(task.dumps())
    return task


def describe_device(content: bytes, device: str | None) -> DeviceInfo:
    """Describe the device that kernels of a task run on."""
    target = load_task(content).opening
    assert target is not None
    return device_info(target, opened(target, device))


def find_limits(
    content: bytes, device: str | None, wanted: Device | bool
) -> tuple[Device, Work | None]:
    """Return the limits of a device, measured or as given; and the work of the kernel as written.

    The work is ``None`` where it depends on more than sizes.
    """
    task = load_task(content)
    assert task.opening is not None
    assert task.written is not None
    limits = wanted
    if not isinstance(limits, Device):
        limits = measure_device(task.opening, *opened(task.opening, device))
    try:
        return limits, find_work(task.written, task.problem.sizes, limits)
    except KgenError:
        return limits, None


def load_kernel(content: bytes, device: str | None, compiled: Compiled) -> None:
    """Load a kernel that was compiled, or compile it here; run the reference."""
    with failing_as("reference"):
        expected_of(content)
    with failing_as("compilation"):
        compiled.kernel.executor(*opened(compiled.kernel.target, device)).prepare()


def measure_kernel(
    content: bytes, device: str | None, compiled: Compiled, best: float | None
) -> Measurement:
    """Verify and time a kernel; only probe one that is clearly slower than *best* seconds.

    Raises :class:`ConfigurationError` with the step that failed: ``launch``, ``result``,
    ``bounds``.
    """
    task = load_task(content)
    run = _Run(content, compiled, device)
    run.check()
    run.find_batch()
    samples = [run.sample() for _ in range(PROBES)]
    if best is not None and min(samples) > SLOWER * best:
        return Measurement(samples=tuple(samples), is_probe=True)
    samples = full_samples(run.sample, samples[1:])
    sensors = run.sensors.read()
    energy = run.energy() if "energy" in task.metrics else None
    run.check()
    return Measurement(
        samples=tuple(samples),
        is_probe=False,
        metrics={} if energy is None else {"energy": energy},
        sensors=sensors,
    )


def compare_kernels(
    content: bytes, device: str | None, kernels: Sequence[Compiled], rounds: int
) -> list[tuple[float, ...]]:
    """Time kernels in turn, in each of some rounds; verify each before and after.

    Returns the samples of each kernel: none of one that fails.
    """
    runs = [_run_of(content, compiled, device) for compiled in kernels]
    samples = [[0.0 if run is None else run.sample() for run in runs] for _ in range(rounds)]
    is_good = [run is not None and run.is_right() for run in runs]
    taken = zip(*samples, strict=True)
    return [times if good else () for good, times in zip(is_good, taken, strict=True)]


def _run_of(content: bytes, compiled: Compiled, device: str | None) -> _Run | None:
    run = _Run(content, compiled, device)
    if not run.is_right():
        return None
    run.find_batch()
    return run


class _Run:
    """Calls of one kernel on the arguments of a problem."""

    def __init__(self, content: bytes, compiled: Compiled, device: str | None) -> None:
        kernel = compiled.kernel
        self.task: Task = load_task(content)
        with failing_as("reference"):
            self.expected = expected_of(content)
        opening = opened(kernel.target, device)
        with failing_as("launch"):
            self.module = module_of(kernel)
            self.executor = kernel.executor(*opening)
        self.leading = self.executor.leading_arguments()
        self.runtime = kernel.target.load_runtime()
        self.options = {"out_host": False} if kernel.target.has_work_items else {}
        self.sensors: Sensors = sensors_of(self.runtime.unit_of(*opening))
        self.is_single = self.module.steps == self.module.launches[:1]
        self.placed: dict[str, Any] = {}
        self.guarded: dict[str, Guarded] = {}
        self.batch = 1

    def place(self) -> None:
        """Copy arguments to the device in their initial state; read-only ones only once."""
        expected = self.expected
        data = fitted_data(expected.module, self.module, expected.data, expected.parameters)
        for info in self.module.arguments:
            is_kept = info.name in self.placed and not info.is_output
            if info.name in data and not info.is_temporary and not is_kept:
                self.placed[info.name] = self._placed(info.name, data[info.name])

    def _placed(self, name: str, value: Any) -> Any:
        if not isinstance(value, np.ndarray):
            return value
        self.guarded[name] = self.runtime.to_guarded(value, *self.leading)
        return self.guarded[name].array

    def launch(self) -> Any:
        """Call the kernel once; return its event."""
        event, _ = self.executor(*self.leading, **self.placed, **self.options)
        return event

    def check(self) -> None:
        """Call the kernel on restored arguments; reject a wrong result."""
        with failing_as("launch"):
            self.place()
            settle(self.launch())
            outputs = [a.name for a in self.module.arguments if a.is_array and a.is_output]
            found = {
                name: self.runtime.to_host(self.placed[name], *self.leading)
                for name in outputs
                if name in self.placed
            }
        for name, one in self.guarded.items():
            if not one.is_intact():
                raise ConfigurationError("bounds", f"the kernel writes outside array '{name}'")
        with failing_as("result"):
            self._compare(found)

    def is_right(self) -> bool:
        """Tell whether the kernel runs, and its result is right."""
        try:
            self.check()
        except ConfigurationError:
            return False
        return True

    def _compare(self, found: Mapping[str, Any]) -> None:
        if not self.task.is_checked:
            return
        expected = self.expected
        shaped = in_shapes_of(expected.module, self.module, found, expected.parameters)
        for name, value in expected.outputs.items():
            if name not in shaped:
                raise KgenError(f"output '{name}' of the reference is not an output")
            text = difference(shaped[name], value, self.task.tolerance)
            if text is not None:
                raise KgenError(f"output '{name}' is wrong: {text}")

    def find_batch(self) -> None:
        """Find the number of calls per measurement: one if caches are flushed before each."""
        if not self.task.flushes_caches:
            self.batch = calls_in_batch(min(self.sample() for _ in range(2)))

    def sample(self) -> float:
        """Return the seconds of one call: the mean of a batch, on the device."""
        if self.task.flushes_caches:
            self._flush()
        with failing_as("launch"):
            mark = self.executor.mark(*self.leading)
            events = [self.launch() for _ in range(self.batch)]
            since: float = self.executor.seconds_since(mark, events[-1])
            each = [self.executor.seconds_of(event) for event in events] if self.is_single else []
        known = [seconds for seconds in each if seconds is not None]
        return (math.fsum(known) if len(known) == self.batch else since) / self.batch

    def _flush(self) -> None:
        """Write memory other than the kernel's, more than the caches hold."""
        settle(self.runtime.to_device(np.ones(_FLUSH_BYTES // 8), *self.leading))

    def energy(self) -> float | None:
        """Return the energy of one call in joules, if the device measures it."""
        before = self.sensors.joules()
        if before is None:
            return None
        count = max(1, math.ceil(_ENERGY_S / max(self.sample(), 1e-6)))
        events = [self.launch() for _ in range(count)]
        settle(events[-1])
        after = self.sensors.joules()
        assert after is not None
        return (after - before) / count
