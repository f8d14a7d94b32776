"""Detection of arguments, and of elements of an output, that overlap in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from kgen.host.program import HostProgram

__all__ = [
    "Extent",
    "extent_on_host",
    "reject_overlap",
    "reject_shared_elements",
    "share",
    "shared_pair",
]

#: The maximum steps of the search for a common element; after these, bounds decide.
_MAX_WORK: Any = 1000

#: How many elements are searched for two at one address.
_MAX_ELEMENTS: Final = 1 << 20

#: The memory of an array, and its layout: an address, shape, strides, bytes of an element.
Extent = tuple[Any, int, tuple[int, ...], tuple[int, ...], int]


def extent_on_host(array: np.ndarray[Any, Any]) -> Extent:
    """Return the memory and layout of a numpy array."""
    address: int = array.__array_interface__["data"][0]
    return None, address, array.shape, array.strides, array.itemsize


def reject_overlap(
    reject: Callable[..., Any],
    host: HostProgram,
    extent_of: Callable[[Any], Extent],
    /,
    **arrays: Any,
) -> None:
    """Reject a call in which an array that is written shares elements with another one.

    Views whose elements alternate share none.
    """
    given = {name: extent_of(array) for name, array in arrays.items() if array is not None}
    if len({extent[0] for extent in given.values()}) == len(given):
        return  # each in a buffer of its own
    arguments = [arg for arg in host.arrays if arg.name in given]
    extents = [given[arg.name] for arg in arguments]
    for k, m in _near(extents):
        one, two = arguments[k], arguments[m]
        if not (one.is_output or two.is_output) or not share(extents[k], extents[m]):
            continue
        written, other = (one, two) if one.is_output else (two, one)
        reject(
            f"arguments '{written.name}' and '{other.name}' overlap in memory, and the kernel "
            f"writes '{written.name}'",
            because="the code was generated with 'restrict', which promises the compiler that "
            "arrays do not overlap",
            hint=f"pass {other.name}.copy(), or set_options(knl, restrict=False) if each element "
            "is read before it is written",
        )


def reject_shared_elements(reject: Callable[..., Any], /, **arrays: Any) -> None:
    """Reject a call in which two elements of an array that is written share memory."""
    for name, array in arrays.items():
        if _overlaps_itself(array.shape, array.strides, array.dtype.itemsize):
            reject(
                f"elements of argument '{name}' overlap in memory, and the kernel writes '{name}'",
                because=f"its shape is {tuple(array.shape)} and its strides are {array.strides} "
                f"bytes, for elements of {array.dtype.itemsize} bytes" + _pair_text(name, array),
                hint=f"pass {name}=... with strides that keep its elements apart",
            )


def _pair_text(name: str, array: Any) -> str:
    pair = shared_pair(array.shape, array.strides)
    if pair is None:
        return ""
    one, other = (f"{name}[{', '.join(map(str, index))}]" for index in pair)
    return f": {one} and {other} begin at one address"


def shared_pair(
    shape: Sequence[int], strides: Sequence[int]
) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Return two elements at one address, ``None`` if there are none among the first ones.

    >>> shared_pair((3, 6), (4, 1))
    ((0, 4), (1, 0))
    """
    counts, left = [0] * len(shape), _MAX_ELEMENTS
    for k, axis in enumerate(sorted(range(len(shape)), key=lambda axis: abs(strides[axis]))):
        others = len(shape) - k - 1
        counts[axis] = min(shape[axis], max(2, left >> others))
        left //= max(counts[axis], 1)
    places = np.zeros(counts, np.int64)
    for axis, (count, stride) in enumerate(zip(counts, strides, strict=True)):
        along = [1] * len(shape)
        along[axis] = count
        places += stride * np.arange(count).reshape(along)
    flat = places.ravel()
    order = np.argsort(flat, kind="stable")
    same = np.flatnonzero(np.diff(flat[order]) == 0)
    if not len(same):
        return None
    one, other = (np.unravel_index(order[same[0] + k], counts) for k in (0, 1))
    return tuple(map(int, one)), tuple(map(int, other))


def _overlaps_itself(shape: Sequence[int], strides: Sequence[int], itemsize: int) -> bool:
    """Tell whether two elements of a layout have bytes in common."""
    if 0 in shape:
        return False
    axes = sorted((abs(s), n) for s, n in zip(strides, shape, strict=False) if n > 1)
    size = itemsize
    for stride, extent in axes:
        if stride < size:
            break
        size += (extent - 1) * stride
    else:
        return False
    # Of two different elements, the first axis in which they differ separates them: into halves
    # of the axis, or of one of its halves.
    counts = [extent for _, extent in axes]
    steps = tuple(stride for stride, _ in axes)
    for axis, extent in enumerate(counts):
        while extent > 1:
            half = extent // 2
            first, second = (
                (
                    None,
                    start * steps[axis],
                    (*counts[:axis], n, *counts[axis + 1 :]),
                    steps,
                    itemsize,
                )
                for start, n in ((0, half), (half, extent - half))
            )
            if share(first, second):
                return True
            extent -= half
    return False


def _near(extents: Sequence[Extent]) -> list[tuple[int, int]]:
    """Return the pairs whose address ranges overlap, by one sweep."""
    by_memory: dict[Any, list[tuple[int, int, int]]] = {}
    for k, extent in enumerate(extents):
        if 0 not in extent[2]:
            by_memory.setdefault(extent[0], []).append((*_bounds(extent), k))
    found: list[tuple[int, int]] = []
    for spans in by_memory.values():
        around: list[tuple[int, int]] = []
        for first, end, k in sorted(spans):
            around = [span for span in around if span[0] > first]
            found += [(min(k, m), max(k, m)) for _, m in around]
            around.append((end, k))
    return sorted(found)


def _bounds(extent: Extent) -> tuple[int, int]:
    """Return the address of the first byte, and the address after the last one."""
    _, address, shape, strides, itemsize = extent
    # an image has extents, but no strides
    steps = [(count - 1) * stride for count, stride in zip(shape, strides, strict=False)]
    first = address + sum(step for step in steps if step < 0)
    return first, address + sum(step for step in steps if step > 0) + itemsize


def share(one: Extent, other: Extent) -> bool:
    """Tell whether two arrays in one memory may have a common element."""
    first, second = np.asarray(_Phantom(one)), np.asarray(_Phantom(other))
    return bool(np.may_share_memory(first, second, max_work=_MAX_WORK))


class _Phantom:
    """An object with numpy's array interface whose elements are never accessed."""

    def __init__(self, extent: Extent) -> None:
        _, address, shape, strides, itemsize = extent
        self.__array_interface__: Mapping[str, Any] = {
            "version": 3,
            "data": (address + 1, True),  # an address of 0 is none
            "shape": shape,
            "strides": strides,
            "typestr": f"|V{itemsize}",
        }
