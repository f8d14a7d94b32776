"""OpenCL memory: device arrays of any layout, and copies of numpy arrays."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Iterable
from typing import Any, Final

import numpy as np
import pyopencl as cl
import pyopencl.array as cla
from pyopencl.tools import dtype_to_ctype, parse_c_arg

from kgen.errors import InvocationError
from kgen.runtime.faults import no_faults
from kgen.runtime.overlap import Extent
from kgen.runtime.strided import copy_layout, extent_in_bytes, memory_of

__all__ = [
    "download",
    "download_faults",
    "events_in",
    "extent_of",
    "name_of_structure",
    "new_array",
    "new_memory",
    "structure_of_name",
    "upload",
    "upload_faults",
]


#: OpenCL fills memory with patterns whose bytes are a power of two up to this.
_LARGEST_PATTERN: Final = 128


def extent_of(array: cla.Array) -> Extent:
    """Return the buffer of a device array, and its position there."""
    memory: Any = array.base_data
    offset: int = array.offset
    if isinstance(memory, cl.MemoryObjectHolder):
        parent: Any = memory.get_info(cl.mem_info.ASSOCIATED_MEMOBJECT)
        if parent is not None:
            start: Any = memory.get_info(cl.mem_info.OFFSET)
            offset += start
            memory = parent
        memory = memory.int_ptr
    return memory, offset, array.shape, array.strides, array.dtype.itemsize


def upload_faults(count: int, queue: cl.CommandQueue, allocator: Any) -> Any:
    """Return new memory in which guards record faults."""
    memory = new_memory(queue, allocator, 8 * count)
    cl.enqueue_copy(queue, memory, no_faults(count))
    return memory


def download_faults(
    count: int, queue: cl.CommandQueue, memory: Any, event: cl.Event
) -> np.ndarray[Any, Any]:
    """Wait for a launch, and return the faults that guards recorded."""
    faults = np.empty(count, np.int64)
    cl.enqueue_copy(queue, faults, memory, wait_for=[event])
    return faults


def new_memory(queue: cl.CommandQueue, allocator: Any, n_bytes: int) -> Any:
    """Return memory of some size, or ``None`` if that is 0."""
    if n_bytes == 0:
        return None
    if allocator is None:
        return cl.Buffer(queue.context, cl.mem_flags.READ_WRITE, n_bytes)
    if not callable(allocator):
        raise InvocationError(
            f"the allocator is {reprlib.repr(allocator)}, which cannot be called",
            hint="pass a function of a number of bytes, such as pyopencl.tools.MemoryPool(...)",
        )
    return allocator(n_bytes)


def events_in(given: Any, kernel: str) -> list[cl.Event]:
    """Return the events that a call waits for."""
    events = list(given) if isinstance(given, Iterable) else [given]
    if not isinstance(given, Iterable) or not all(isinstance(one, cl.Event) for one in events):
        raise InvocationError(
            f"wait_for is {reprlib.repr(given)}, which is not a list of events",
            kernel=kernel,
            hint="pass wait_for=[event, ...] with events of pyopencl",
        )
    return events


def new_array(
    queue: cl.CommandQueue,
    allocator: Any,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    dtype: np.dtype[Any],
    fill: np.ndarray[Any, Any] | None,
) -> cla.Array:
    """Return a device array of the given layout: of elements *fill*, or undefined."""
    n_bytes = extent_in_bytes(shape, strides, dtype.itemsize)
    memory = new_memory(queue, allocator, n_bytes)
    array = _array_on(queue, memory, allocator, shape, strides, dtype)
    if fill is not None and memory is not None:
        if fill.itemsize.bit_count() == 1 and fill.itemsize <= _LARGEST_PATTERN:
            filled = cl.enqueue_fill(queue, memory, fill, n_bytes)
        else:
            elements = np.full(-(-n_bytes // fill.itemsize), fill)
            filled = cl.enqueue_copy(queue, memory, elements.view(np.uint8)[:n_bytes])
        if queue.properties & cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE:
            filled.wait()
    return array


def _array_on(
    queue: cl.CommandQueue,
    memory: Any,
    allocator: Any,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    dtype: np.dtype[Any],
    offset: int = 0,
) -> cla.Array:
    # The constructor's checks take 12 us; nothing here needs them.
    return cla.Array(
        None,
        shape,
        dtype,
        allocator=allocator,
        data=memory,
        offset=offset,
        strides=strides,
        _fast=True,
        _size=math.prod(shape),
        _context=queue.context,
        _queue=queue,
    )


def upload(
    queue: cl.CommandQueue, allocator: Any, argument: str, array: np.ndarray[Any, Any]
) -> cla.Array:
    """Copy a numpy array to the device, with its strides."""
    flat, offset = memory_of(argument, array)
    memory = new_memory(queue, allocator, flat.size)
    if memory is not None:
        cl.enqueue_copy(queue, memory, flat)
    return _array_on(queue, memory, allocator, array.shape, array.strides, array.dtype, offset)


def download(
    queue: cl.CommandQueue, array: cla.Array, target: np.ndarray[Any, Any] | None
) -> np.ndarray[Any, Any]:
    """Copy a device array to *target*, by default a new numpy array; wait for it."""
    flat, view, first = copy_layout(array.shape, array.strides, array.dtype)
    if flat.size:
        start = array.offset - first
        memory: Any = array.base_data
        cl.enqueue_copy(queue, flat, memory, src_offset=start, wait_for=array.events)
    if target is None:
        return view
    target[...] = view
    return target


def name_of_structure(dtype: np.dtype[Any]) -> str | None:
    """Return the name by which pyopencl has registered a structure, ``None`` for an unknown one."""
    try:
        return str(dtype_to_ctype(dtype))
    except (TypeError, ValueError):
        return None


def structure_of_name(name: str) -> np.dtype[Any] | None:
    """Return the structure that pyopencl has registered by a name, ``None`` for an unknown one."""
    try:
        dtype: np.dtype[Any] = np.dtype(parse_c_arg(f"{name} x").dtype)
    except (AttributeError, TypeError, ValueError):
        return None
    return None if dtype.fields is None else dtype
