"""Layouts of arrays in which elements share storage."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kgen.errors import KernelError
from kgen.ir.data import ArrayBase
from kgen.ir.kernel import LoopKernel
from kgen.ir.layout import FixedStrideArrayDimTag, VectorArrayDimTag
from kgen.ir.sets.domain import sample_point
from kgen.ir.sets.text import parse_set

__all__ = ["check_layouts"]


def check_layouts(kernel: LoopKernel) -> LoopKernel:
    """Reject an array that is written and whose elements share storage; return the kernel.

    Extents that are not constant are taken as 2, since more elements share no less storage.
    """
    for name in sorted(kernel.get_written_variables()):
        array = kernel.array_vars.get(name)
        pair = None if array is None else _shared_elements(array)
        if array is None or pair is None:
            continue
        one, other = (f"{name}[{', '.join(map(str, index))}]" for index in pair)
        assert isinstance(array.dim_tags, tuple)
        raise KernelError(
            f"elements of '{name}' share storage, and the kernel writes '{name}'",
            kernel=kernel.name,
            where=f"instruction '{kernel.id_to_insn[min(kernel.writers[name])]}'",
            because=f"{one} and {other} are in one place: its layout is "
            f"({', '.join(map(str, array.dim_tags))})",
            hint=f"tag_array_axes(kernel, '{name}', 'C') gives each element its own place",
        )
    return kernel


def _shared_elements(array: ArrayBase) -> tuple[Sequence[int], Sequence[int]] | None:
    """Return two elements in the same place, if there are such."""
    if not isinstance(array.shape, tuple) or not isinstance(array.dim_tags, tuple):
        return None
    axes: dict[int, tuple[int, int]] = {}
    for axis, (extent, tag) in enumerate(zip(array.shape, array.dim_tags, strict=True)):
        stride = tag.stride if isinstance(tag, FixedStrideArrayDimTag | VectorArrayDimTag) else None
        if isinstance(stride, int) and extent != 1:
            axes[axis] = (extent if isinstance(extent, int) else 2, stride)
    if _is_nested(axes.values()):
        return None
    point = sample_point(parse_set(_same_place(axes)))
    if point is None:
        return None
    one, other = (
        [point.get(f"{side}{axis}", 0) for axis in range(len(array.shape))] for side in "xy"
    )
    return one, other


def _is_nested(axes: Iterable[tuple[int, int]]) -> bool:
    """Tell whether each stride exceeds all distances along the axes of smaller strides."""
    length = 1
    for stride, extent in sorted((abs(stride), extent) for extent, stride in axes):
        if stride < length:
            return False
        length += (extent - 1) * stride
    return True


def _same_place(axes: dict[int, tuple[int, int]]) -> str:
    """Return the set of pairs of different elements with the same linear index, as text."""
    names = [f"{side}{axis}" for side in "xy" for axis in axes]
    inside = [f"0 <= x{k}, y{k} < {extent}" for k, (extent, _) in axes.items()]
    sums = (" + ".join(f"{stride}*{side}{k}" for k, (_, stride) in axes.items()) for side in "xy")
    before = [
        " and ".join([*(f"x{k} = y{k}" for k in [*axes][:count]), f"x{axis} < y{axis}"])
        for count, axis in enumerate(axes)
    ]
    conditions = [*inside, " = ".join(sums), f"({' or '.join(before)})"]
    return f"{{ [{', '.join(names)}] : {' and '.join(conditions)} }}"
