"""Arguments that share memory, where the code was promised that they do not."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from kgen.ir.affine import simplify
from kgen.ir.expr import is_zero
from kgen.runtime.arguments import Contract
from kgen.targets.module import ArgumentInfo

__all__ = ["Extent", "has_no_gaps", "refuse_overlap", "written_pairs"]

#: Steps that the search for a common element may take, before bounds have to do.
_MAX_WORK: Any = 1000

#: Which memory an array is in, and where: an address in it, shape, strides, bytes of an element.
Extent = tuple[Any, int, tuple[int, ...], tuple[int, ...], int]


def written_pairs(contract: Contract) -> Iterator[tuple[ArgumentInfo, ArgumentInfo]]:
    """Give the pairs of arrays of which the kernel writes the first one; each pair once."""
    arrays = contract.arrays
    for k, one in enumerate(arrays):
        for other in arrays[k + 1 :]:
            if one.is_output or other.is_output:
                yield (one, other) if one.is_output else (other, one)


def has_no_gaps(arg: ArgumentInfo) -> bool:
    """Tell whether the elements of an array of its declared layout are next to each other."""
    if arg.shape is None or arg.strides is None:
        return False
    axes = list(zip(arg.shape, arg.strides, strict=True))
    for ordered in (axes, axes[::-1]):
        size: Any = 1
        for extent, stride in reversed(ordered):
            if not is_zero(simplify(stride - size)):
                break
            size = size * extent
        else:
            return True
    return False


def refuse_overlap(
    refuse: Callable[..., Any],
    contract: Contract,
    extent_of: Callable[[Any], Extent],
    /,
    **arrays: Any,
) -> None:
    """Refuse a call in which an array that is written shares elements with another one.

    Views whose elements alternate share none.
    """
    for written, other in written_pairs(contract):
        one, two = arrays[written.name], arrays[other.name]
        if one is None or two is None or not _share(extent_of(one), extent_of(two)):
            continue
        refuse(
            f"arguments '{written.name}' and '{other.name}' overlap in memory, and the kernel "
            f"writes '{written.name}'",
            because="the code was generated with 'restrict', which promises the compiler that "
            "arrays do not overlap",
            hint=f"pass {other.name}.copy(), or set_options(knl, restrict=False) if each element "
            "is read before it is written",
        )


def _share(one: Extent, other: Extent) -> bool:
    if one[0] != other[0]:
        return False
    first, second = np.asarray(_Phantom(one)), np.asarray(_Phantom(other))
    return bool(np.may_share_memory(first, second, max_work=_MAX_WORK))


class _Phantom:
    """Something that numpy takes for an array, and whose elements nobody looks at."""

    def __init__(self, extent: Extent) -> None:
        _, address, shape, strides, itemsize = extent
        self.__array_interface__: Mapping[str, Any] = {
            "version": 3,
            "data": (address + 1, True),  # an address of 0 is none
            "shape": shape,
            "strides": strides,
            "typestr": f"|V{itemsize}",
        }
