"""The place where a call runs, found from its arrays: host, OpenCL queue or CUDA device."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from kgen.errors import InvocationError, counted
from kgen.frontend import make_kernel
from kgen.ir.data import GlobalArg
from kgen.ir.target import TargetBase
from kgen.ir.unit import TranslationUnit
from kgen.ready.indices import MAX_NARROW
from kgen.runtime.overlap import Extent, share
from kgen.targets.c import ExecutableCTarget
from kgen.targets.cuda import PyCudaTarget
from kgen.targets.limits import DeviceLimits
from kgen.targets.opencl import PyOpenCLTarget
from kgen.transforms.loops.split import split_iname

__all__ = [
    "MAX_NARROW",
    "Place",
    "as_axes",
    "axes_around",
    "capability_of",
    "check_output",
    "copy_to",
    "dense",
    "find_place",
    "flat",
    "live_stream",
    "maker_like",
    "may_overlap",
    "new_array",
    "output_axes",
]


@dataclass(frozen=True, eq=False)
class Place:
    """Where a call runs: its target, its leading arguments, and whether it is a GPU.

    ``options`` are the keyword arguments of all calls.
    """

    target: TargetBase
    leading: tuple[Any, ...]
    is_gpu: bool
    options: Mapping[str, Any] = field(default_factory=dict)

    def index_dtype(self, size: int) -> type[np.signedinteger[Any]]:
        """Return the type of indices for arrays of some size.

        >>> HOST.index_dtype(2**20).__name__, HOST.index_dtype(2**32).__name__
        ('int32', 'int64')
        """
        return np.int32 if size <= MAX_NARROW else np.int64

    @property
    def few(self) -> int:
        """The maximum number of elements that one work-group processes alone."""
        return _FEW_ON_GPU if self.is_gpu else _FEW_ON_HOST

    @functools.cached_property
    def limits(self) -> DeviceLimits:
        """The limits of a GPU."""
        limits: DeviceLimits = self.target.load_runtime().limits_of(*self.leading)
        return limits

    @property
    def largest_group(self) -> int:
        """The maximum number of work-items in a group of a GPU."""
        most = 1024 if isinstance(self.target, PyCudaTarget) else _MOST_ITEMS_ON_OPENCL
        return min(most, self.limits.work_items, self.limits.sizes[0])

    def sizes_like(self, size: int, few: int) -> tuple[int, int]:
        """Return the minimum and maximum size that runs the same code as *size* elements.

        One work-group processes *few* elements alone.
        """
        if size <= few:
            return (0, few)
        fewest, most = self.sizes_of(self.index_dtype(size))
        return (max(fewest, few + 1), most)

    def sizes_of(self, index_dtype: Any) -> tuple[int, int]:
        """Return the minimum and maximum number of elements for an index type."""
        is_narrow = np.dtype(index_dtype).itemsize < np.dtype(np.int64).itemsize
        return (0, MAX_NARROW) if is_narrow else (MAX_NARROW + 1, 2**63)


#: The maximum number of elements that one work-group processes alone.
_FEW_ON_HOST: Final = 2**15
_FEW_ON_GPU: Final = 2**13
#: NVIDIA's OpenCL limits some kernels to these work-items in a group, below the device's limit.
_MOST_ITEMS_ON_OPENCL: Final = 256

HOST: Final = Place(ExecutableCTarget(), (), is_gpu=False)
_OPENCL: Final = PyOpenCLTarget()
_CUDA: Final = Place(PyCudaTarget(), (), is_gpu=True, options={"no_event": True})


@functools.lru_cache(maxsize=64)
def _of_queue(queue: Any) -> Place:
    device = _OPENCL.load_runtime().device_of(queue)
    return Place(_OPENCL, (queue,), is_gpu=device.kind == "gpu")


def find_place(kernel: str, arrays: Iterable[Any], queue: Any = None) -> Place:
    """Return the place where a call with some arrays runs.

    A queue that is passed is used; otherwise the queue of the arrays. Without a queue, arrays of
    numpy belong to the host.
    """
    if queue is not None and hasattr(queue, "device"):
        return _of_queue(queue)
    for array in arrays:
        if hasattr(array, "base_data"):
            if array.queue is None:
                raise InvocationError(
                    "no array of the call has a queue",
                    kernel=kernel,
                    hint="pass queue=..., or array.with_queue(queue)",
                )
            return _of_queue(array.queue)
        if hasattr(array, "gpudata"):
            return _CUDA
    return HOST


def flat(array: Any) -> Any:
    """Return a view of an array with one axis, of its elements in the order of memory.

    ``None`` for an array with gaps.

    >>> flat(np.zeros((2, 3), order="F")).shape, flat(np.zeros((4, 4))[:, :2])
    ((6,), None)
    """
    if len(array.shape) == 1:
        return array
    if array.flags.c_contiguous:
        return array.reshape(-1)
    if array.flags.f_contiguous:
        return array.reshape(-1, order="F")
    return None


def may_overlap(array: Any, other: Any) -> bool:
    """Tell whether two arrays of one place may have memory in common.

    >>> row = np.arange(6)
    >>> may_overlap(row[:4], row[2:]), may_overlap(row[:3], row[3:])
    (True, False)
    """
    if isinstance(array, np.ndarray) and isinstance(other, np.ndarray):
        return np.may_share_memory(array, other)
    if hasattr(array, "base_data") and hasattr(other, "base_data"):
        return bool(array.base_data == other.base_data)
    if hasattr(array, "gpudata") and hasattr(other, "gpudata"):
        return share(_extent_of(array), _extent_of(other))
    return array is other


def _extent_of(array: Any) -> Extent:
    """Return the address and the layout of an array on CUDA; an empty one has no memory."""
    address = array.ptr if array.gpudata else 0
    return None, address, array.shape, array.strides, array.dtype.itemsize


def as_axes(place: Place, array: Any, shape: tuple[int, ...]) -> Any:
    """Return a view of an array with other axes; a copy of an array that has no such view."""
    if tuple(array.shape) == shape:
        return array
    if not isinstance(array, np.ndarray) and not array.flags.c_contiguous:
        array = dense(place, array)
    return array.reshape(shape)


def output_axes(
    place: Place, array: Any, shape: tuple[int, ...]
) -> tuple[Any, Callable[[Any], Any]]:
    """Return an array for a result as :func:`as_axes` does, and a function that ends the call.

    It stores the elements of a copy in the array itself, and maps the event of the call to that of
    the last operation.
    """
    axes = as_axes(place, array, shape)
    if isinstance(array, np.ndarray):
        is_view = array.size == 0 or np.may_share_memory(axes, array)
    else:
        is_view = axes is array or array.flags.c_contiguous
    if is_view:
        return axes, lambda event: event
    return axes, lambda _: copy_to(place, axes.reshape(array.shape), array)


def check_output(kernel: str, out: Any, shape: tuple[int, ...]) -> None:
    """Raise :class:`InvocationError` if a result does not have the shape of *out*."""
    if tuple(out.shape) != shape:
        raise InvocationError(
            f"the shape of out is {tuple(out.shape)}, and that of the result {shape}", kernel=kernel
        )


def axes_around(shape: tuple[int, ...], axis: int, kernel: str) -> tuple[int, int, int]:
    """Return how many elements arrays have before an axis, along it, and behind it.

    >>> axes_around((2, 3, 4), -1, "scan")
    (6, 4, 1)

    Raises :class:`InvocationError` for an axis that the arrays do not have.
    """
    if not isinstance(axis, int | np.integer):
        raise InvocationError(f"axis={axis!r} is not one axis", kernel=kernel, hint="axis=0")
    if not -len(shape) <= axis < len(shape):
        raise InvocationError(
            f"there is no axis {axis} in arrays of {counted(len(shape), 'axis', 'axes')}",
            kernel=kernel,
        )
    axis %= len(shape)
    return math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])


def dense(place: Place, array: Any) -> Any:
    """Return a copy of an array, with contiguous rows."""
    _, (copy,) = _copy_kernel(len(array.shape), place.target)(*place.leading, x=array)
    return copy


@functools.cache
def _copy_kernel(rank: int, target: TargetBase) -> TranslationUnit:
    axes = [f"i_{axis}" for axis in range(rank)]
    bounds = " and ".join(f"0 <= {axis} < n_{axis}" for axis in axes)
    sizes = ", ".join(f"n_{axis}" for axis in axes)
    knl = make_kernel(
        f"{{ [{', '.join(axes)}]: {bounds} }}",
        f"out[{', '.join(axes)}] = x[{', '.join(axes)}]",
        [GlobalArg("x, out", None, shape=sizes), ...],
        index_dtype=np.int64,
        name="copy",
        target=target,
    )
    return split_iname(knl, axes[-1], 256, outer_tag="g.0", inner_tag="l.0")


def new_array(place: Place, like: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """Return a new uninitialized array of 0 or 1 axes in the same memory space as another."""
    dtype = np.dtype(dtype)
    if isinstance(like, np.ndarray):
        return np.empty(shape, dtype)
    if hasattr(like, "gpudata"):
        make = _runtime(place.target).new_array
        return make(like.allocator, shape, (dtype.itemsize,) * len(shape), dtype, None)
    return type(like)(*place.leading, shape, dtype, allocator=like.allocator)


def maker_like(place: Place, array: Any) -> Callable[[Any], Any]:
    """Return a function that makes arrays like one on CUDA, with the memory of an allocator."""
    make: Callable[[Any], Any] = _runtime(place.target).maker_like(array)
    return make


def capability_of(place: Place) -> tuple[int, int]:
    """Return the compute capability of the current CUDA device."""
    found: tuple[int, int] = _runtime(place.target).capability_of()
    return found


def live_stream(stream: Any) -> tuple[int, int] | None:
    """Return what identifies a stream of CUDA, its address first; ``None`` while it is captured."""
    found: tuple[int, int] | None = _runtime(_CUDA.target).live_stream(stream)
    return found


@functools.cache
def _runtime(target: TargetBase) -> Any:
    return target.load_runtime()


def copy_to(place: Place, source: Any, target: Any) -> Any:
    """Copy the elements of an array to another one of the same shape; return the event."""
    if not source.shape:
        source, target = source.reshape(1), target.reshape(1)
    knl = _copy_kernel(len(source.shape), place.target)
    event, _ = knl(*place.leading, **place.options, x=source, out=target)
    return event
