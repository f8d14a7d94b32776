"""The memory of strided numpy arrays, as bytes that can be copied to a device and back."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from kgen.errors import InvocationError

__all__ = ["copy_layout", "empty_aligned", "empty_strided", "extent_in_bytes", "memory_of", "view"]

Bytes = np.ndarray[Any, np.dtype[np.uint8]]

#: ``addressof(view(a))`` is a fifth of the time of ``a.ctypes.data``. It works for arrays that are
#: contiguous in C's order and writable; the view has no bytes, so that it also works for empty
#: arrays.
view: Final[Callable[[Any], Any]] = (ctypes.c_char * 0).from_buffer

#: The bytes of a cache line, also the size of the longest vectors.
_LINE: Final = 64


def empty_aligned(shape: Any, dtype: np.dtype[Any], n_bytes: int, order: Any = "C") -> Any:
    """Return a new contiguous array of *n_bytes*, aligned to a cache line."""
    memory = np.empty(n_bytes + _LINE, np.uint8)
    first = -ctypes.addressof(view(memory)) % _LINE
    return np.ndarray(shape, dtype, memory, first, None, order)


def extent_in_bytes(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> int:
    """Return the size of the memory from the first byte of an array to its last."""
    if len(shape) == 1 and strides[0] == itemsize:
        return shape[0] * itemsize
    low, high = _ends(shape, strides)
    return 0 if 0 in shape else high - low + itemsize


def _ends(shape: tuple[int, ...], strides: tuple[int, ...]) -> tuple[int, int]:
    """Return the offsets of the first and last elements in memory from element 0, in bytes."""
    steps = [(n - 1) * stride for n, stride in zip(shape, strides, strict=True)]
    return sum(min(0, step) for step in steps), sum(max(0, step) for step in steps)


def memory_of(argument: str, array: np.ndarray[Any, Any]) -> tuple[Bytes, int]:
    """Return the bytes from the first to the last of *array*, and the offset of element 0.

    The bytes between elements are part of it: they belong to the array of which this is a
    view.
    """
    if array.size == 0:
        return np.empty(0, np.uint8), 0
    low, high = _ends(array.shape, array.strides)
    if low:  # turn the axes that run backwards, so that element 0 is the first in memory
        array = array[tuple(slice(None, None, -1 if s < 0 else 1) for s in array.strides)]
    n_bytes = high - low + array.itemsize
    if n_bytes % array.itemsize:
        raise InvocationError(
            f"argument '{argument}' has strides of {array.strides} bytes, not a multiple of its "
            f"element size, {array.itemsize} bytes",
            hint=f"pass a copy of the array: numpy.ascontiguousarray({argument})",
        )
    flat = np.lib.stride_tricks.as_strided(
        array, (n_bytes // array.itemsize,), (array.itemsize,), writeable=False
    )
    return flat.view(np.uint8), -low


def copy_layout(
    shape: tuple[int, ...], strides: tuple[int, ...], dtype: np.dtype[Any]
) -> tuple[Bytes, np.ndarray[Any, Any], int]:
    """Return new memory, an array of the given layout in it, and the offset of element 0."""
    low, _ = _ends(shape, strides)
    # of the element type, so that it is aligned
    n_items = -(-extent_in_bytes(shape, strides, dtype.itemsize) // dtype.itemsize)
    memory = np.empty(n_items, dtype)
    if n_items == 0:
        return memory.view(np.uint8), np.empty(shape, dtype), 0
    return memory.view(np.uint8), np.ndarray(shape, dtype, memory, -low, strides), -low


def empty_strided(
    shape: tuple[int, ...], dtype: np.dtype[Any], strides: tuple[int, ...], fill: Any = None
) -> np.ndarray[Any, Any]:
    """Return a new array of the given layout, filled if a value is given; strides are in bytes.

    Its memory is aligned to a cache line.
    """
    low, _ = _ends(shape, strides)
    n_bytes = extent_in_bytes(shape, strides, dtype.itemsize)
    memory = empty_aligned(n_bytes, np.dtype(np.uint8), n_bytes)
    array = np.ndarray(shape, dtype, memory, -low if memory.size else 0, strides)
    if fill is not None:
        array.fill(fill)
    return array
