"""CUDA's driver: loaded programs, and launches of their functions in streams of any library."""

from __future__ import annotations

import contextlib
import ctypes
import math
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, cached_property
from struct import Struct
from typing import Any, Final

import numpy as np

from kgen.errors import InvocationError
from kgen.ir.types import NumpyType
from kgen.runtime.system import cuda_library
from kgen.targets.cuda import LIMITS
from kgen.targets.module import Launch

__all__ = [
    "RELAXED",
    "LoadedFunction",
    "LoadedProgram",
    "PackedCall",
    "Zeroing",
    "check",
    "current_context",
    "enqueue_all",
    "in_context",
    "in_stream",
    "is_capturing",
    "load_driver",
    "reject",
    "unaffected_by_captures",
]

#: ``CUlaunchConfig``: grid, block, shared memory, stream, attributes and their number.
_CONFIG: Final = "7I4xPPI4x"
_CONFIG_SIZE: Final = Struct(_CONFIG).size
_SIZES: Final = Struct("7I")
_STREAM: Final = Struct("P")
_STREAM_OFFSET: Final = Struct("7I4x").size
_POINTER_SIZE: Final = 8
#: ``CUfunction_attribute`` and ``CUlaunchAttributeID``
_MAX_WORK_ITEMS: Final = 0
_DYNAMIC_LOCAL_MEMORY: Final = 8
_LOCAL_MEMORY_SHARE: Final = 9
_COOPERATIVE: Final = 2
#: ``CUdevice_attribute``
_MULTIPROCESSORS: Final = 16
#: ``CUstreamCaptureMode``: a capture and calls of other threads do not affect each other.
RELAXED: Final = 2
#: Errors of calls that are not allowed while a stream is captured.
_OF_CAPTURE: Final = range(900, 909)
_HINT_OF_STREAMS: Final = "the stream must be one of the current context, and still exist"
_HINT_OF_CAPTURE: Final = (
    "a stream is being captured: launch in that stream, stream=..., call executor.prepare or the "
    "kernel once before, and pass arrays for all outputs"
)
_HINT_OF_LOST_CONTEXTS: Final = (
    "code on the device failed, and its context is lost: find accesses out of bounds in a new "
    "process, with set_options(knl, guard_accesses=True)"
)
#: What to do about errors, by ``CUresult``.
_HINTS: Final = {
    2: "free arrays of the device that are no longer needed",
    **dict.fromkeys((201, 400, 709), _HINT_OF_STREAMS),  # invalid context or handle
    **dict.fromkeys((700, *range(714, 720)), _HINT_OF_LOST_CONTEXTS),  # addresses, instructions
    701: "make the work-groups smaller, or let work-items have fewer private values",
    **dict.fromkeys(_OF_CAPTURE, _HINT_OF_CAPTURE),
}
_OTHER_HINT: Final = "please report this as a bug in kgen, with the kernel and its arguments"


#: A function of the driver, its four arguments, and the owner of the memory that they point to.
PackedCall = tuple[Any, int, int, int, int | None, Any]


@cache
def load_driver() -> Any:
    """Return the functions of CUDA's driver."""
    driver = ctypes.CDLL(cuda_library())
    # numbers are passed without conversion: a launch creates no object for each argument
    driver.cuLaunchKernelEx.argtypes = [ctypes.c_void_p] * 4
    driver.cuGraphLaunch.argtypes = [ctypes.c_void_p] * 2
    driver.cuCtxGetCurrent.argtypes = [ctypes.c_void_p]
    driver.cuMemsetD8Async.argtypes = [
        ctypes.c_void_p,
        ctypes.c_ubyte,
        ctypes.c_size_t,
        ctypes.c_void_p,
    ]
    return driver


def check(driver: Any, function: str, error: int, **labels: Any) -> None:
    """Raise :class:`InvocationError` for an *error* that a function of the driver returned."""
    if not error:
        return
    text = ctypes.c_char_p()
    driver.cuGetErrorString(error, ctypes.byref(text))
    reason = f", {text.value.decode()}" if text.value else ""
    hint = _HINTS.get(error, _OTHER_HINT)
    raise InvocationError(
        f"{function} failed with error {error} of CUDA{reason}", **{"hint": hint, **labels}
    )


def is_capturing(driver: Any, stream: int) -> bool:
    """Tell whether a stream is being captured, so that new work joins or breaks a graph."""
    status = ctypes.c_int(0)
    error = driver.cuStreamIsCapturing(ctypes.c_void_p(stream), ctypes.byref(status))
    return bool(error in _OF_CAPTURE or status.value)


@contextlib.contextmanager
def unaffected_by_captures(driver: Any) -> Iterator[None]:
    """Allow calls in a block that CUDA otherwise rejects while a stream is captured."""
    mode = ctypes.c_int(RELAXED)
    driver.cuThreadExchangeStreamCaptureMode(ctypes.byref(mode))
    try:
        yield
    finally:
        driver.cuThreadExchangeStreamCaptureMode(ctypes.byref(mode))


def current_context(driver: Any) -> int:
    """Return the handle of the context that is current, or 0."""
    context = ctypes.c_void_p()
    check(driver, "cuCtxGetCurrent", driver.cuCtxGetCurrent(ctypes.byref(context)))
    return context.value or 0


def in_context(driver: Any, context: int, release: Callable[[Any], int], handle: Any) -> None:
    """Release what belongs to a context, unless the context no longer exists."""
    with unaffected_by_captures(driver):
        if driver.cuCtxPushCurrent_v2(ctypes.c_void_p(context)) == 0:
            release(handle)
            driver.cuCtxPopCurrent_v2(ctypes.byref(ctypes.c_void_p()))


def in_stream(packed: PackedCall, stream: int) -> PackedCall:
    """Return a packed launch for another stream; its memory is used again, and changed."""
    enqueue, one, two, three, _, memory = packed
    if not isinstance(memory, ctypes.Array):
        return enqueue, one, two, three, stream, memory
    _STREAM.pack_into(memory, _STREAM_OFFSET, stream)
    return packed


def enqueue_all(driver: Any, calls: Iterable[PackedCall], kernel: str) -> None:
    """Make launches that are packed."""
    for packed in calls:
        enqueue, one, two, three, four, _ = packed
        error = enqueue(one, two, three, four)
        if error:
            reject(driver, packed, error, kernel)


def reject(driver: Any, call: PackedCall, error: int, kernel: str) -> None:
    """Raise the error of a packed launch, which includes its sizes."""
    enqueue, *_, memory = call
    labels = {"kernel": kernel}
    if isinstance(memory, ctypes.Array):
        *sizes, n_bytes = _SIZES.unpack_from(memory)
        groups, items = ("x".join(map(str, sizes[at : at + 3])) for at in (0, 3))
        labels["because"] = (
            f"the launch has {groups} work-groups of {items} work-items, and requests {n_bytes} "
            "bytes of local memory"
        )
    check(driver, enqueue.__name__, error, **labels)


class LoadedProgram:
    """Code of a kernel, loaded into the context that is current, whose handle is *context*."""

    def __init__(self, driver: Any, context: int, code: bytes, kernel: str) -> None:
        self.driver = driver
        module = ctypes.c_void_p()
        error = driver.cuModuleLoadData(ctypes.byref(module), code)
        check(driver, "cuModuleLoadData", error, kernel=kernel)
        self._module = module
        release = driver.cuModuleUnload
        weakref.finalize(self, in_context, driver, context, release, module).atexit = False

    def function(self, name: str) -> int:
        """Return the handle of a function."""
        found = ctypes.c_void_p()
        error = self.driver.cuModuleGetFunction(ctypes.byref(found), self._module, name.encode())
        check(self.driver, "cuModuleGetFunction", error, kernel=name)
        return found.value or 0

    def work_items(self, name: str) -> int:
        """Return the maximum number of work-items of a function in a group."""
        number = ctypes.c_int()
        function = ctypes.c_void_p(self.function(name))
        error = self.driver.cuFuncGetAttribute(ctypes.byref(number), _MAX_WORK_ITEMS, function)
        check(self.driver, "cuFuncGetAttribute", error, kernel=name)
        return number.value

    def reserve(self, name: str, n_bytes: int) -> None:
        """Allow launches of a function to request local memory."""
        function = ctypes.c_void_p(self.function(name))
        error = self.driver.cuFuncSetAttribute(function, _DYNAMIC_LOCAL_MEMORY, n_bytes)
        check(self.driver, "cuFuncSetAttribute", error, kernel=name)

    def share(self, name: str, percent: int) -> None:
        """Set how much of a multiprocessor's memory should be local memory for a function."""
        function = ctypes.c_void_p(self.function(name))
        error = self.driver.cuFuncSetAttribute(function, _LOCAL_MEMORY_SHARE, percent)
        check(self.driver, "cuFuncSetAttribute", error, kernel=name)

    def fitting_groups(self, name: str, n_items: int, local_memory: int) -> int:
        """Return how many groups of *n_items* work-items run at once on the current device."""
        driver, device, here, count = (self.driver, *(ctypes.c_int() for _ in range(3)))
        check(driver, "cuCtxGetDevice", driver.cuCtxGetDevice(ctypes.byref(device)))
        error = driver.cuDeviceGetAttribute(ctypes.byref(count), _MULTIPROCESSORS, device)
        check(driver, "cuDeviceGetAttribute", error)
        error = driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(
            ctypes.byref(here),
            ctypes.c_void_p(self.function(name)),
            n_items,
            ctypes.c_size_t(local_memory),
        )
        check(driver, "cuOccupancyMaxActiveBlocksPerMultiprocessor", error, kernel=name)
        return here.value * count.value


class _Attribute(ctypes.Structure):
    """``CUlaunchAttribute`` with a number in its value, a union of 64 bytes."""

    _fields_ = (("id", ctypes.c_int), ("_gap", ctypes.c_int), ("value", ctypes.c_int * 16))


_IS_COOPERATIVE: Final = _Attribute(_COOPERATIVE, 0, (1,))


class LoadedFunction:
    """Launches a function of a program: ``function((4, 1, 1), stream, address, 1.5)``.

    The streams are addresses, and *types* those of the parameters: ``None`` is a pointer, and a
    complex number is passed as two real ones. The data of a launch are one piece of memory: its
    ``CUlaunchConfig``, the addresses of parameters, and these.
    """

    def __init__(
        self, program: LoadedProgram, launch: Launch, types: Sequence[np.dtype[Any] | None]
    ) -> None:
        self.program = program
        self.launch = launch
        self._handle = program.function(launch.function)
        layout, offsets = parameter_layout(types)
        start = _CONFIG_SIZE + len(offsets) * _POINTER_SIZE
        self._offsets = tuple(start + offset for offset in offsets)
        self._struct = Struct(f"{_CONFIG}{len(offsets)}P{layout}")
        self._memory = ctypes.c_char * self._struct.size
        self._block = (*launch.locals, 1, 1, 1)[:3]
        self._sizes = (*self._block, launch.local_memory)
        attributes = ctypes.addressof(_IS_COOPERATIVE) if launch.is_cooperative else 0
        self._attributes = (attributes, int(launch.is_cooperative))
        self._enqueue = program.driver.cuLaunchKernelEx
        self._most = 0 if launch.is_cooperative else min(LIMITS.groups)

    def pack(self, grid: Sequence[int], stream: int, *parameters: Any) -> PackedCall:
        """Return a launch in a stream, to be repeated."""
        memory = self._memory()
        start = ctypes.addressof(memory)
        self._struct.pack_into(
            memory,
            0,
            *grid,
            *self._sizes,
            stream,
            *self._attributes,
            *map(start.__add__, self._offsets),
            *parameters,
        )
        return self._enqueue, start, self._handle, start + _CONFIG_SIZE, None, memory

    def __call__(self, grid: Sequence[int], stream: int, *parameters: Any) -> None:
        """Launch the function."""
        if max(grid) > self._most:
            self.check_grid(grid)
        packed = self.pack(grid, stream, *parameters)
        enqueue, one, two, three, four, _memory = packed
        error = enqueue(one, two, three, four)
        if error:
            reject(self.program.driver, packed, error, self.launch.function)

    def check_grid(self, grid: Sequence[int]) -> None:
        """Reject grids beyond the limit of an axis, or of concurrent groups if groups wait."""
        if max(grid) > min(LIMITS.groups):
            self._check_axes(grid)
        if not self.launch.is_cooperative:
            return
        wanted, fitting = math.prod(grid), self.n_fitting
        if wanted > fitting:
            raise InvocationError(
                f"a cooperative launch has {wanted} work-groups, but only {fitting} of them run "
                "at once",
                kernel=self.launch.function,
                because="a group that waits for the others occupies its multiprocessor",
                hint="let each group do more: split the loop over groups by a number that fits, "
                f"split_iname(knl, group, {fitting}, inner_tag='g.0'), make groups smaller, or "
                "set_options(knl, cooperative=False)",
            )

    def _check_axes(self, grid: Sequence[int]) -> None:
        for axis, (size, most) in enumerate(zip(grid, LIMITS.groups, strict=True)):
            if size > most:
                raise InvocationError(
                    f"a launch has {size} work-groups along axis g.{axis}",
                    kernel=self.launch.function,
                    because=f"{LIMITS.name} has at most {most} along that axis",
                    hint="put the longest loop on g.0, or split it",
                )

    @cached_property
    def n_fitting(self) -> int:
        """The number of work-groups that run concurrently."""
        n_items = math.prod(self._block)
        return self.program.fitting_groups(self.launch.function, n_items, self.launch.local_memory)


class Zeroing:
    """Sets memory to zero, like a launch: ``zeroing((n_bytes,), stream, address)``."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver
        self._enqueue = driver.cuMemsetD8Async

    def check_grid(self, grid: Sequence[int]) -> None:
        """Accept any size."""

    def pack(self, grid: Sequence[int], stream: int, memory: Any) -> PackedCall:
        """Return a function that repeats the launch in a stream."""
        (n_bytes,) = grid
        return self._enqueue, int(memory), 0, n_bytes, stream, memory

    def __call__(self, grid: Sequence[int], stream: int, memory: Any) -> None:
        """Set the memory in a stream."""
        error = self._enqueue(int(memory), 0, grid[0], stream)
        if error:
            check(self.driver, "cuMemsetD8Async", error)


def parameter_layout(types: Sequence[np.dtype[Any] | None]) -> tuple[str, tuple[int, ...]]:
    """Return the layout of parameters for :mod:`struct`, and their offsets.

    >>> parameter_layout([None, np.dtype("int32"), np.dtype("complex128")])
    ('Pi4xdd', (0, 8, 16))
    """
    layout, offsets, position = "", list[int](), 0
    for dtype in types:
        size = _POINTER_SIZE if dtype is None else dtype.itemsize
        gap = -position % size
        layout += (f"{gap}x" if gap else "") + _format_of(dtype)
        offsets.append(position + gap)
        position += gap + size
    return layout, tuple(offsets)


def _format_of(dtype: np.dtype[Any] | None) -> str:
    if dtype is None:
        return "P"
    is_half = NumpyType(dtype).is_half  # whose bits are passed
    return "H" if is_half else {"F": "ff", "D": "dd"}.get(dtype.char, dtype.char)
