"""Arrays with separated axes: the separate arrays, and their names."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

from kgen.errors import KernelError
from kgen.ir.data import ArrayBase
from kgen.ir.expr import to_text
from kgen.ir.layout import SeparateArrayArrayDimTag

__all__ = [
    "piece_name",
    "piece_names",
    "pieces_of",
    "separate_axes",
    "separate_extents",
    "without_separate",
]


def separate_axes(array: ArrayBase) -> tuple[int, ...]:
    """Return the axes of *array* that are tagged ``sep``."""
    tags = array.dim_tags if isinstance(array.dim_tags, tuple) else ()
    return tuple(k for k, tag in enumerate(tags) if isinstance(tag, SeparateArrayArrayDimTag))


def separate_extents(array: ArrayBase) -> tuple[int, ...]:
    """Return how many pieces there are along each axis tagged ``sep``, or raise an error."""
    axes = separate_axes(array)
    extents: list[Any] = [array.shape[axis] if array.shape else None for axis in axes]
    for extent in extents:
        if not isinstance(extent, int):
            raise KernelError(
                f"an axis of array '{array.name}' is kept in separate arrays, and their number, "
                f"{'None' if extent is None else to_text(extent)}, is not known\n"
                "  hint: give the axis an extent that is a number, or fix_parameters"
            )
    return tuple(extents)


def piece_name(array: ArrayBase, indices: Sequence[int]) -> str:
    """Return the name of the piece at *indices* along the axes tagged ``sep``: ``a_s2``."""
    return "_".join([array.name, *(f"s{index}" for index in indices)])


def piece_names(array: ArrayBase) -> tuple[str, ...]:
    """Return the names of all pieces, the last axis varying first; or just the array's."""
    if not separate_axes(array):
        return (array.name,)
    ranges = [range(extent) for extent in separate_extents(array)]
    return tuple(piece_name(array, indices) for indices in product(*ranges))


def pieces_of(array: ArrayBase) -> tuple[ArrayBase, ...]:
    """Return a declaration for each piece; just *array* if no axis is separate."""
    if not separate_axes(array):
        return (array,)
    shape = without_separate(array, array.shape)
    tags = without_separate(array, array.dim_tags)
    return tuple(
        array.copy(name=name, shape=shape, dim_tags=tags, dim_names=None)
        for name in piece_names(array)
    )


def without_separate(array: ArrayBase, of_axes: Sequence[Any]) -> tuple[Any, ...]:
    """Return the items of *of_axes* for the axes that a piece has."""
    left_out = separate_axes(array)
    return tuple(entry for axis, entry in enumerate(of_axes) if axis not in left_out)
