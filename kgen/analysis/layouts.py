"""Layouts of arrays in which elements share storage."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import partial
from typing import TypeAlias

from kgen.analysis.footprints import Footprints
from kgen.errors import KernelError
from kgen.ir.data import ArrayBase
from kgen.ir.kernel import LoopKernel
from kgen.ir.layout import FixedStrideArrayDimTag, VectorArrayDimTag
from kgen.ir.sets.dims import Set, name_dims
from kgen.ir.sets.domain import sample_point
from kgen.ir.sets.effort import answer
from kgen.ir.sets.text import parse_set

__all__ = ["check_layouts", "sizes_of_separate_elements"]

#: The extent and the stride of an axis, ``None`` if it is not constant.
_Axis: TypeAlias = tuple[int | None, int | None]


def check_layouts(kernel: LoopKernel) -> LoopKernel:
    """Reject an array in which written elements share storage; return the kernel.

    Axes whose extents are not constant are taken to have 2 entries, since more share no less.
    """
    for name in sorted(kernel.get_written_variables()):
        array = kernel.array_vars.get(name)
        pair = None if array is None else _shared_elements(kernel, array)
        if array is None or pair is None:
            continue
        one, other = (f"{name}[{', '.join(map(str, index))}]" for index in pair)
        assert isinstance(array.dim_tags, tuple)
        raise KernelError(
            f"elements of '{name}' share storage, and the kernel writes them",
            kernel=kernel.name,
            where=f"instruction '{kernel.id_to_insn[min(kernel.writers[name])]}'",
            because=f"{one} and {other} are in one place: its layout is "
            f"({', '.join(map(str, array.dim_tags))})",
            hint=f"tag_array_axes(kernel, '{name}', 'C') gives each element its own place",
        )
    return kernel


def sizes_of_separate_elements(kernel: LoopKernel) -> Set:
    """Return the assumptions, and that no two written elements share storage.

    Sizes decide if the strides of an array are constant and its extents are not: with strides
    (4, 1), rows overlap from 5 entries on.
    """
    sizes = kernel.assumptions
    for name in sorted(kernel.get_written_variables()):
        array = kernel.array_vars.get(name)
        axes = [] if array is None else _axes_of(array)
        if _is_nested(axes) or all(extent is not None for extent, _ in axes):
            continue
        shared = answer(partial(_find_sizes, kernel, name, axes))
        if shared is not None:
            sizes = sizes.subtract(shared)
    return sizes


def _axes_of(array: ArrayBase) -> list[_Axis]:
    """Return the extents and strides of an array, ``None`` for those that are not constant."""
    if not isinstance(array.shape, tuple) or not isinstance(array.dim_tags, tuple):
        return []
    axes: list[_Axis] = []
    for extent, tag in zip(array.shape, array.dim_tags, strict=True):
        stride = tag.stride if isinstance(tag, FixedStrideArrayDimTag | VectorArrayDimTag) else None
        axes.append(
            (
                extent if isinstance(extent, int) else None,
                stride if isinstance(stride, int) else None,
            )
        )
    return axes


def _shared_elements(
    kernel: LoopKernel, array: ArrayBase
) -> tuple[Sequence[int], Sequence[int]] | None:
    """Return two written elements in the same place, if there are such."""
    axes: list[_Axis] = [
        (2 if extent is None else extent, stride) for extent, stride in _axes_of(array)
    ]
    return None if _is_nested(axes) else answer(lambda: _find_pair(kernel, array.name, axes))


def _is_nested(axes: Iterable[_Axis]) -> bool:
    """Tell whether each stride exceeds all distances along the axes of smaller strides."""
    known = [(abs(stride), extent) for extent, stride in axes if stride is not None]
    length: float = 1
    for stride, extent in sorted(known, key=lambda axis: axis[0]):
        if extent is not None and extent <= 1:
            continue
        if stride < length:
            return False
        length += math.inf if extent is None else (extent - 1) * stride
    return True


def _find_pair(
    kernel: LoopKernel, name: str, axes: Sequence[_Axis]
) -> tuple[Sequence[int], Sequence[int]] | None:
    """Return two elements that the kernel writes and that have the same linear index."""
    pairs = _pairs(kernel, name, axes)
    if pairs is None:
        return None
    sides = [[f"{side}{k}" for k in range(len(axes))] for side in "xy"]
    named = [name for side in sides for name in side]
    point = sample_point(name_dims(pairs, named))
    if point is None:
        return None
    one, other = ([point[name] for name in side] for side in sides)
    return one, other


def _find_sizes(kernel: LoopKernel, name: str, axes: Sequence[_Axis]) -> Set | None:
    """Return the sizes for which two written elements have the same linear index."""
    pairs = _pairs(kernel, name, axes)
    return None if pairs is None else pairs.params()


def _pairs(kernel: LoopKernel, name: str, axes: Sequence[_Axis]) -> Set | None:
    """Return the pairs of written elements in one place, if it is known which are written."""
    written = _written(kernel, name)
    if written is None:
        return None
    return parse_set(_same_place(axes)).intersect(written.flat_product(written))


def _written(kernel: LoopKernel, name: str) -> Set | None:
    """Return the elements that are certainly written."""
    footprints = Footprints.of(kernel)
    found = None
    for access in footprints.accesses_to(name):
        touched = footprints.touched(access) if access.is_write else None
        if touched is not None:
            elements = touched.reset_tuple_id()
            found = elements if found is None else found.union(elements)
    return found


def _same_place(axes: Sequence[_Axis]) -> str:
    """Return the set of pairs of different elements with the same linear index, as text.

    They are equal along axes whose strides are not constant.
    """
    names = [f"{side}{k}" for side in "xy" for k in range(len(axes))]
    inside = [
        f"x{k} = y{k}"
        if stride is None
        else f"0 <= x{k}, y{k}" + ("" if extent is None else f" < {extent}")
        for k, (extent, stride) in enumerate(axes)
    ]
    known = [(k, stride) for k, (_, stride) in enumerate(axes) if stride is not None]
    sums = (" + ".join(f"{stride}*{side}{k}" for k, stride in known) for side in "xy")
    before = [
        " and ".join([*(f"x{k} = y{k}" for k, _ in known[:count]), f"x{axis} < y{axis}"])
        for count, (axis, _) in enumerate(known)
    ]
    conditions = [*inside, " = ".join(sums), f"({' or '.join(before)})"]
    return f"{{ [{', '.join(names)}] : {' and '.join(conditions)} }}"
