"""The CUDA runtime, which uses pycuda: cached kernels, calls with device and numpy arrays."""

from __future__ import annotations

import ast
import atexit
import contextlib
import ctypes
import threading
from collections.abc import Callable, Mapping
from functools import cached_property, lru_cache, partial
from typing import Any, ClassVar, Final, Self

import numpy as np
import pycuda.driver as drv
from pycuda.gpuarray import GPUArray

from kgen.errors import CodegenError, InvocationError
from kgen.host.program import n_bytes_of
from kgen.ir.expr import Expr
from kgen.ir.types import NumpyType
from kgen.ir.unit import TranslationUnit
from kgen.runtime.bound import Calls, RecordingBuilder
from kgen.runtime.cuda_driver import (
    LoadedFunction,
    LoadedProgram,
    PackedCall,
    Zeroing,
    check,
    enqueue_all,
    is_capturing,
    load_driver,
)
from kgen.runtime.cuda_graphs import CudaGraph, GraphMaker
from kgen.runtime.cuda_replay import Replay
from kgen.runtime.cuda_streams import handle_of, identity_of, put_in_order
from kgen.runtime.devices import RunningOn, position_of
from kgen.runtime.executor import ExecutorBase, reject_group_size, remember
from kgen.runtime.foreign import CudaMemory, cuda_memory
from kgen.runtime.guarded import MARK, ZONE, Guarded, is_marked
from kgen.runtime.pyast import (
    PREFIX,
    all_of,
    any_of,
    assign,
    attribute,
    builtin,
    call,
    const,
    do,
    from_expr,
    if_,
    name,
    negate,
    tuple_,
)
from kgen.runtime.refusals import address_of
from kgen.runtime.strided import copy_layout, extent_in_bytes, memory_of
from kgen.runtime.toolchain import compile_cubin, compiler_version, find_nvcc
from kgen.runtime.transfer import DeviceWrapperBuilder, Transfers
from kgen.runtime.wrapper import WrapperBuilder
from kgen.targets.limits import DeviceLimits
from kgen.targets.module import ArgumentInfo, Launch, Module

__all__ = [
    "CudaExecutor",
    "as_array",
    "capability_of",
    "device_of",
    "driver_of",
    "executor_for",
    "find_devices",
    "limits_of",
    "live_stream",
    "maker_like",
    "new_array",
    "number_of",
    "open_device",
    "to_device",
    "to_guarded",
    "to_host",
    "unit_of",
]

EVENT: Final = PREFIX + "event"
STREAM: Final = PREFIX + "stream"
#: The maximum registers of a work-item: CUDA C++ Programming Guide, "Technical Specifications".
_REGISTERS_OF_ITEM: Final = 255
#: A stream that does not wait for the default one, nor that for it.
_NON_BLOCKING: Final = 1
#: The number of streams for which a bound call caches its launches.
_STREAMS_OF_LAUNCHER: Final = 16
#: The numbers of CUDA's default stream in other libraries.
_LEGACY_STREAM: Final = 1


def executor_for(
    memo: dict[Any, Any], unit: TranslationUnit, entrypoint: str, *args: Any
) -> CudaExecutor:
    """Return the executor of *entrypoint* in the current CUDA context.

    If there is none, the primary context of the current device, which PyTorch, CuPy, JAX and numba
    use, becomes current.
    """
    context = _current_context()
    return remember(memo, (entrypoint, context), lambda: CudaExecutor(unit, entrypoint, context))


def device_of(*args: Any) -> RunningOn:
    """Return the device of the CUDA context that is current."""
    _current_context()
    return _described(drv.Context.get_device())


def _described(device: Any) -> RunningOn:
    return RunningOn(
        api="cuda",
        kind="gpu",
        vendor="NVIDIA",
        name=str(device.name()),
        platform="CUDA",
        version=f"compute capability {'.'.join(map(str, device.compute_capability()))}",
    )


def find_devices() -> tuple[RunningOn, ...]:
    """Return all devices, in the driver's order; none without a driver."""
    try:
        drv.init()
        return tuple(_described(drv.Device(k)) for k in range(drv.Device.count()))
    except drv.Error:
        return ()


def open_device(wanted: str | None = None) -> tuple[Any, ...]:
    """Make the context of a device current, to the end of the process; return no arguments."""
    _enter(position_of(wanted, find_devices(), "CUDA"))
    return ()


def _current_context() -> Any:
    context = drv.Context.get_current()
    if context is not None:
        return context
    if not find_devices():
        raise InvocationError(
            "there is no CUDA device",
            hint="knl.copy(target=kgen.ExecutableCTarget()) runs on the host",
        )
    return _enter(_position_in_use())


def _enter(position: int) -> Any:
    """Make the primary context of a device current in this thread, to its end."""
    context = drv.Device(position).retain_primary_context()
    context.push()
    if threading.current_thread() is threading.main_thread():
        atexit.register(context.pop)
    return context


def _position_in_use() -> int:
    """Return the index of the device whose context is current; by default the first device."""
    device = ctypes.c_int(0)
    with contextlib.suppress(OSError):
        load_driver().cuCtxGetDevice(ctypes.byref(device))
    return device.value


def number_of(*args: Any) -> str:
    """Return the number of the device of the current context."""
    found = drv.Context.get_device().pci_bus_id()
    numbers = range(drv.Device.count())
    return str(next(k for k in numbers if drv.Device(k).pci_bus_id() == found))


def unit_of(*args: Any) -> str:
    """Return an identifier of the hardware: its address on the bus."""
    return str(drv.Context.get_device().pci_bus_id())


def limits_of(*args: Any) -> DeviceLimits:
    """Return the limits of the current context's device."""
    device = drv.Context.get_device()
    get, names = device.get_attribute, drv.device_attribute
    return DeviceLimits(
        name=f"device '{device.name()}'",
        work_items=get(names.MAX_THREADS_PER_BLOCK),
        sizes=(get(names.MAX_BLOCK_DIM_X), get(names.MAX_BLOCK_DIM_Y), get(names.MAX_BLOCK_DIM_Z)),
        local_memory=get(names.MAX_SHARED_MEMORY_PER_BLOCK_OPTIN),
        groups=(get(names.MAX_GRID_DIM_X), get(names.MAX_GRID_DIM_Y), get(names.MAX_GRID_DIM_Z)),
        registers=_REGISTERS_OF_ITEM,
        registers_of_group=get(names.MAX_REGISTERS_PER_BLOCK),
        capability=capability_of(),
    )


def capability_of() -> tuple[int, int]:
    """Return the compute capability of the device of the current context."""
    major, minor = drv.Context.get_device().compute_capability()
    return major, minor


def driver_of(*args: Any) -> str:
    """Return the versions of the compiler and driver that make and run the device's code."""
    compiler = compiler_version(find_nvcc()).strip().split("\n")[-1]
    return f"{compiler}, driver {drv.get_driver_version()}"


def to_device(array: np.ndarray[Any, Any]) -> Any:
    """Copy an array to the device of the current context."""
    return upload(None, "", array)


def to_guarded(array: np.ndarray[Any, Any]) -> Guarded:
    """Copy an array to the device, with guard zones that detect writes out of bounds."""
    made: list[tuple[Any, int]] = []

    def allocate(size: int) -> int:
        memory = drv.mem_alloc(size + 2 * ZONE)
        made.append((memory, size))
        for start in (0, ZONE + size):
            drv.memset_d8(int(memory) + start, MARK, ZONE)
        return int(memory) + ZONE

    def is_intact() -> bool:
        return all(
            is_marked(_bytes_at(int(memory)), _bytes_at(int(memory) + ZONE + size))
            for memory, size in made
        )

    return Guarded(upload(allocate, "", array), is_intact)


def _bytes_at(address: int) -> np.ndarray[Any, Any]:
    """Return the bytes of a zone on the device."""
    found = np.empty(ZONE, np.uint8)
    drv.memcpy_dtoh(found, address)
    return found


def to_host(array: Any) -> np.ndarray[Any, Any]:
    """Copy an array from its device."""
    return download(array, None)


class CudaExecutor(ExecutorBase):
    """Runs a kernel in a CUDA context: ``evt, (out,) = knl(a=x)``.

    * ``stream``: a stream of pycuda, PyTorch, CuPy or numba, an object with ``__cuda_stream__``, or
      the address of a stream; ``None`` is the default one. The launches of a stream that is being
      captured become a part of its graph
    * ``allocator``: called with a number of bytes; makes the memory of outputs that are not
      passed, and of temporaries: pycuda's, or an array of another library
    * ``out_host``: return outputs as numpy arrays; ``None``: if numpy arrays and no device
      arrays were passed. A numpy array that is passed for an output is filled and returned,
      unless ``out_host=False`` asks for the device's array instead
    * ``no_event=True``: return ``None`` for the event, which takes longer to make than a launch
    """

    optional: ClassVar[tuple[str, ...]] = ("allocator", "stream", "out_host", "no_event")
    own_arrays: ClassVar[tuple[type, ...]] = (np.ndarray, GPUArray)

    def mark(self, *leading: Any) -> Any:
        made = drv.Event()
        made.record()
        made.synchronize()
        return made

    def seconds_since(self, mark: Any, event: Any) -> float:
        event.synchronize()
        return 1e-3 * float(mark.time_till(event))

    def seconds_of(self, event: Any) -> None:
        return None

    def _view(self, value: Any, given: Mapping[str, Any]) -> Any:
        found = as_array(value, given.get("stream"))
        return super()._view(value, given) if found is None else found

    def compile(self, module: Module, source: str) -> Any:
        flags = (f"-arch={_architecture()}", *module.build_options)
        flags += self.kernel.options.build_options
        cubin = compile_cubin(self.caches.disk, source, flags, self.entrypoint)
        context = drv.Context.get_current().handle
        program = LoadedProgram(load_driver(), context, cubin, self.entrypoint)
        for launch in module.launches:
            reject_group_size(launch, program.work_items(launch.function))
            if launch.local_memory:
                _reserve(program, launch)
            if launch.local_memory_share is not None:
                program.share(launch.function, launch.local_memory_share)
        return program

    @property
    def builders(self) -> tuple[type[WrapperBuilder], type[RecordingBuilder]]:
        return CudaWrapperBuilder, _RecordingBuilder

    def capture(self, /, *args: Any, **kwargs: Any) -> CudaGraph:
        calls: Calls = []
        executor = self.recording(calls)

        def bind(arguments: Mapping[str, Any]) -> tuple[Calls, Mapping[str, Any], Any]:
            calls.clear()
            outputs, kept = executor.recorded(*args, **arguments)
            return calls, outputs, kept

        made = GraphMaker(
            driver=load_driver(),
            bind=bind,
            stream=drv.Stream(_NON_BLOCKING),
            address_of=address_of_stream,
            event_in=event_in,
        )
        return CudaGraph(made, kwargs)

    def fitting_groups(self, /, *args: Any, **kwargs: Any) -> dict[str, int]:
        """Return how many work-groups of each function run at once on the device.

        The functions are those that a call with these arguments launches.
        """
        calls: Calls = []
        self.recording(calls).recorded(*args, **kwargs)
        functions = (call for call, _ in calls if isinstance(call, LoadedFunction))
        return {each.launch.function: each.n_fitting for each in functions}

    @cached_property
    def _packing(self) -> tuple[Calls, CudaExecutor]:
        calls: Calls = []
        return calls, self.recording(calls)

    def packed(self, /, *, stream: int = 0, **arguments: Any) -> tuple[Replay, Mapping[str, Any]]:
        """Return a replay of the launches of a call in the stream with an address, and outputs.

        It is like :meth:`bind`, for calls repeated many times: it stores the addresses of arrays,
        and keeps only arrays alive that the call allocated.
        """
        with self._lock:
            recorded, executor = self._packing
            try:
                outputs, kept = executor.recorded(**arguments)
                calls = [*recorded]
            finally:
                recorded.clear()  # whose parameters keep arrays of the caller alive
        made = [value for name, value in kept.items() if name not in arguments]
        packed = [function.pack(grid, stream, *values) for function, (grid, values) in calls]
        used = (made, [function for function, _ in calls])
        for function, (grid, _) in calls:
            function.check_grid(grid)
        return Replay(load_driver(), packed, used, self.entrypoint, stream), outputs

    def launcher(self, calls: Calls, *args: Any) -> Callable[..., Any]:
        driver = load_driver()
        packed: dict[int, list[PackedCall]] = {}
        for function, (grid, _) in calls:
            function.check_grid(grid)

        def pack(address: int) -> list[PackedCall]:
            if len(packed) >= _STREAMS_OF_LAUNCHER:
                packed.clear()
            made = [function.pack(grid, address, *values) for function, (grid, values) in calls]
            return packed.setdefault(address, made)

        def launch(stream: Any = None, *, event: bool = False) -> Any:
            address = address_of_stream(stream)
            enqueue_all(driver, packed.get(address) or pack(address), self.entrypoint)
            return event_in(stream) if event else None

        return launch

    def _check_call(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        super()._check_call(args, kwargs)
        if drv.Context.get_current() != self.context:
            self._reject(
                "the current context is not that of the executor",
                hint="make the context current in which executor() was called",
            )


def _architecture() -> str:
    """Return the compiler's name of the device, including architecture-specific features."""
    major, minor = capability_of()
    return f"sm_{major}{minor}{'a' if (major, minor) == (9, 0) else ''}"


def _reserve(program: LoadedProgram, launch: Launch) -> None:
    """Allow launches to request more local memory than can be declared, or reject that."""
    most = limits_of().local_memory
    if launch.local_memory > most:
        raise CodegenError(
            f"a work-group uses {launch.local_memory} bytes of local memory, more than the "
            "device has",
            kernel=launch.function,
            because=f"it has at most {most} bytes for a work-group",
            hint="make the tiles smaller, or prefetch fewer arrays",
        )
    program.reserve(launch.function, launch.local_memory)


# -- streams ----------------------------------------------------------------------------------


def address_of_stream(stream: Any) -> int:
    """Return the address of a stream of any library; ``None`` is the default one."""
    if stream is None:
        return 0
    if isinstance(stream, drv.Stream):
        address: int = stream.handle
        return address
    return handle_of(stream)


def live_stream(stream: Any) -> tuple[int, int] | None:
    """Return the address and the number of a stream; ``None`` while it is being captured.

    No other stream of the process has its number, also after its end.
    """
    return identity_of(load_driver(), address_of_stream(stream))


def event_in(stream: Any) -> Any:
    """Return an event after the current work of a stream; ``None`` if the stream is captured."""
    if stream is None or isinstance(stream, drv.Stream):
        return drv.Event().record(stream)
    address, driver = handle_of(stream), load_driver()
    if address in (0, _LEGACY_STREAM):
        return drv.Event().record()
    if is_capturing(driver, address):
        return None
    own = _stream_beside(address, drv.Context.get_current())
    put_in_order(driver, first=address, then=int(own.handle))
    return drv.Event().record(own)


@lru_cache(maxsize=16)
def _stream_beside(address: int, context: Any) -> Any:
    """Return a stream of pycuda for events of another one."""
    return drv.Stream(_NON_BLOCKING)


# -- device memory ----------------------------------------------------------------------------


def as_array(value: Any, stream: Any = None, allocator: Any = None) -> GPUArray | None:
    """Return a view of another library's array on the device; ``None`` for other objects.

    :arg stream: the stream in which it is read; ``None`` is the default stream
    :arg allocator: of the view, for arrays that are made like it
    """
    own = handle_of(stream) or _LEGACY_STREAM
    memory = cuda_memory(value, own)
    if memory is None:
        return None
    _current_context()
    driver = load_driver()
    if memory.stream not in (None, own) and not is_capturing(driver, own):
        put_in_order(driver, first=memory.stream, then=own)  # it may be filled there now
    common = _attributes(memory.shape, memory.dtype, memory.strides)
    return _array(common, allocator, memory.owner, memory.address)


@lru_cache(maxsize=1024)
def _attributes(
    shape: tuple[int, ...], dtype: np.dtype[Any], strides: tuple[int, ...]
) -> dict[str, Any]:
    """Return the attributes of an array, which the class would find again for each one."""
    return {**vars(GPUArray(shape, dtype, gpudata=0, strides=strides))}


def _array(common: Mapping[str, Any], allocator: Any, base: Any, gpudata: Any) -> GPUArray:
    """Return an array with the attributes of another one, in other memory."""
    made = object.__new__(GPUArray)
    made.__dict__.update(common)
    made.allocator, made.base, made.gpudata = allocator or drv.mem_alloc, base, gpudata
    return made


#: The result of pycuda's allocators.
_OWN_MEMORY: Final = (drv.DeviceAllocation, drv.PooledDeviceAllocation)


def new_memory(allocator: Any, n_bytes: int) -> Any:
    """Return memory of some size, or ``None`` if that is 0."""
    if not n_bytes:
        return None
    memory = (allocator or drv.mem_alloc)(n_bytes)
    if isinstance(memory, _OWN_MEMORY):
        return memory
    borrowed = cuda_memory(memory, _LEGACY_STREAM)
    return memory if borrowed is None else _Borrowed(borrowed)


class _Borrowed(int):
    """The address of another library's memory, which it keeps alive."""

    def __new__(cls, memory: CudaMemory) -> Self:
        made = super().__new__(cls, memory.address)
        made.owner = memory.owner
        return made

    owner: Any


def new_array(
    allocator: Any,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    dtype: np.dtype[Any],
    fill: np.ndarray[Any, Any] | None,
) -> Any:
    """Return a device array of the given layout: of elements *fill*, or undefined."""
    memory = new_memory(allocator, extent_in_bytes(shape, strides, dtype.itemsize))
    if fill is not None and memory is not None:
        n_items = extent_in_bytes(shape, strides, dtype.itemsize) // dtype.itemsize
        _copy_to_device(memory, np.full(n_items, fill, dtype))
    return _in_memory(_attributes(shape, dtype, strides), allocator, memory)


def maker_like(array: GPUArray) -> Callable[[Any], GPUArray]:
    """Return a function that makes new arrays like a dense one, given an allocator.

    It takes a quarter of the time of the class, which finds shape, strides and type again.
    """
    common, n_bytes = _attributes(array.shape, array.dtype, array.strides), int(array.nbytes)

    def make(allocator: Any) -> GPUArray:
        return _in_memory(common, allocator, new_memory(allocator, n_bytes))

    return make


def _in_memory(common: Mapping[str, Any], allocator: Any, memory: Any) -> GPUArray:
    if type(memory) is _Borrowed:
        return _array(common, allocator, memory.owner, int(memory))
    return _array(common, allocator, None, memory)


def upload(allocator: Any, argument: str, array: np.ndarray[Any, Any]) -> Any:
    """Copy a numpy array to the device, with its strides."""
    flat, first = memory_of(argument, array)
    memory = new_memory(allocator, flat.size)
    if memory is not None:
        _copy_to_device(memory, flat)
    start = memory if first == 0 else int(memory) + first
    return GPUArray(
        array.shape,
        array.dtype,
        allocator or drv.mem_alloc,
        base=memory,
        gpudata=start,
        strides=array.strides,
    )


def _copy_to_device(memory: Any, array: np.ndarray[Any, Any]) -> None:
    """Copy an array to memory of the device, and wait: other streams may read it next."""
    drv.memcpy_htod(memory, array)
    driver = load_driver()
    done = driver.cuStreamSynchronize(ctypes.c_void_p(_LEGACY_STREAM))
    check(driver, "cuStreamSynchronize", done)


def download(array: Any, target: np.ndarray[Any, Any] | None) -> np.ndarray[Any, Any]:
    """Copy a device array to *target*, by default a new numpy array."""
    flat, view, first = copy_layout(array.shape, array.strides, array.dtype)
    if flat.size:
        drv.memcpy_dtoh(flat, int(array.gpudata) - first)
    if target is None:
        return view
    target[...] = view
    return target


# -- calls -----------------------------------------------------------------------------------


class CudaWrapperBuilder(DeviceWrapperBuilder):
    """Builds wrappers that launch kernels on device arrays."""

    positional = CudaExecutor.positional
    optional = CudaExecutor.optional
    new_array = staticmethod(new_array)
    new_memory = staticmethod(new_memory)

    def __init__(self, program: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.program = program

    @staticmethod
    def transfers(allocator: Any, *positional: Any) -> Transfers:
        return Transfers(
            array_class=GPUArray,
            upload=partial(upload, allocator),
            download=download,
            wait=drv.Event.synchronize,
        )

    def run(self) -> list[ast.stmt]:
        if self.host.faults is not None:
            raise InvocationError(
                "the subscripts that guard_accesses finds are not reported here",
                kernel=self.host.kernel,
                because="guard_accesses is for the host and for OpenCL",
                hint="set_options(knl, guard_accesses=False), or test the kernel on those",
            )
        body = [
            *self.go_through_host(),
            assign(
                STREAM, call(self.known("address_of_stream", address_of_stream), name("stream"))
            ),
            *self.refuse_allocation(),
            *self.make_outputs(),
            *self.allocate_temporaries(),
        ]
        body += self.take_steps(self.host.steps)
        made = call(self.known("event_in", event_in), name("stream"))
        event = ast.IfExp(name("no_event"), const(None), made)
        return [*body, assign(EVENT, event), self.make_result(name(EVENT))]

    def refuse_allocation(self) -> list[ast.stmt]:
        """Reject calls that need new memory while their stream is being captured.

        An allocator of the caller may support that, but elements of outputs are set by a copy.
        """
        optional = self.host.optional_arrays
        missing = any_of(self.is_none(arg.name) for arg in optional)
        filled = [self.is_none(arg.name) for arg in optional if arg.is_filled]
        own = self.is_none("allocator")
        needs = [all_of([own, missing])] if optional else []
        needs = [own] if self.host.buffers else needs
        if not (needs or filled):
            return []
        refused = self.own("refuse_allocation", lambda builder: builder.refuse_if_capturing)
        return [if_(any_of([*needs, *filled]), [do(call(refused, name(STREAM)))])]

    def refuse_if_capturing(self, address: int) -> None:
        """Reject operations that are not allowed while a stream is captured."""
        if is_capturing(load_driver(), address):
            names = ", ".join(f"{arg.name}=..." for arg in self.host.outputs)
            has_buffers = " and executor.bind or capture, which keep temporaries,"
            raise InvocationError(
                "memory would be allocated or copied while the stream is being captured",
                kernel=self.host.kernel,
                because="CUDA would do that at once, not when the graph is launched",
                hint=f"pass arrays of the device for all arguments ({names})"
                + (has_buffers if self.host.buffers else ""),
            )

    def through_host(self, /, *positional: Any, out_host: bool | None, **arguments: Any) -> Any:
        self.refuse_if_capturing(address_of_stream(arguments["stream"]))
        arguments["no_event"] = None  # whose copies wait for it
        return super().through_host(*positional, out_host=out_host, **arguments)

    def go_through_host(self) -> list[ast.stmt]:
        """Leave calls with numpy arrays, or for numpy arrays, to the slow way."""
        device_array = self.known("GPUArray", GPUArray)
        tests: list[ast.expr] = [self.names_out_host]
        for arg in self.host.arrays:
            is_other = negate(call(builtin("isinstance"), name(arg.name), device_array))
            if not self.host.is_required_array(arg):
                is_other = all_of([self.is_given(arg.name), is_other])
            tests.append(is_other)
        return [if_(any_of(tests), self.leave_for_host())]

    def misfit(self, arg: ArgumentInfo) -> ast.expr | None:
        """Return the condition that an array has a wrong shape, layout or alignment."""
        found = super().misfit(arg)
        if found is None or arg.alignment == 1:
            return found
        address = call(self.known("address_of", address_of), name(arg.name))
        return any_of([found, ast.BinOp(address, ast.Mod(), const(arg.alignment))])

    def launch(self, number: int, launch: Launch) -> list[ast.stmt]:
        """Launch a function; an empty grid, which CUDA rejects, is not launched."""
        groups: tuple[Expr, ...] = (*launch.groups, 1, 1, 1)[:3]
        launched = call(
            self.own(f"launch{number}", lambda builder: builder.function(launch)),
            tuple_(map(from_expr, groups)),
            name(STREAM),
            *(e for text in launch.parameters for e in self.parts_of(text)),
        )
        body: list[ast.stmt] = [*map(self.zero, launch.zeroed), do(launched)]
        is_launched = self.is_launched(launch)
        return body if is_launched is None else [if_(is_launched, body)]

    def zero(self, text: str) -> ast.stmt:
        """Set all bytes of a temporary to zero, in the stream of the call."""
        arg = self.host.by_name[text]
        zeroing = self.own("zeroing", lambda builder: builder.zeroing())
        n_bytes = tuple_([from_expr(n_bytes_of(arg))])
        return do(call(zeroing, n_bytes, name(STREAM), self.pass_array(arg)))

    def zeroing(self) -> Callable[..., Any]:
        """Return a function that zeroes memory, given size, stream address and the memory."""
        return Zeroing(load_driver())

    def function(self, launch: Launch) -> Callable[..., Any]:
        """Return a function that launches, given the grid, a stream's address and parameters."""
        types = [self.host.parameter_dtype(text) for text in launch.parameters]
        return LoadedFunction(self.program, launch, types)

    def parts_of(self, text: str) -> list[ast.expr]:
        """Return the values passed for one parameter: two numbers for a complex one."""
        dtype = self.host.parameter_dtype(text)
        parameter = self.pass_parameter(text)
        if dtype is not None and dtype.kind == "c":
            return [attribute(parameter, "real"), attribute(parameter, "imag")]
        if dtype is not None and NumpyType(dtype).is_half:
            return [call(self.known(f"bits_{dtype.name}", partial(bits_of, dtype)), parameter)]
        return [parameter]

    def pass_array(self, arg: ArgumentInfo) -> ast.expr:
        array = name(arg.name)
        memory = array if arg.is_temporary else attribute(array, "gpudata")
        return ast.BoolOp(ast.Or(), [memory, const(0)])  # an empty array has no memory


class _RecordingBuilder(RecordingBuilder, CudaWrapperBuilder):
    """Records launches with their parameters in the driver's format."""

    def function(self, launch: Launch) -> Callable[..., Any]:
        return self._noting(super().function(launch))

    def zeroing(self) -> Callable[..., Any]:
        return self._noting(super().zeroing())

    def _noting(self, function: Any) -> Callable[..., Any]:
        def note(grid: Any, stream: int, *parameters: Any) -> None:
            function.pack(grid, stream, *parameters)  # fails where a call with them does
            self.calls.append((function, (grid, parameters)))

        return note


def bits_of(dtype: np.dtype[Any], number: Any) -> int:
    """Return the bits of a number in a type of 16 bits."""
    return int(np.asarray(number, dtype).view(np.uint16))
