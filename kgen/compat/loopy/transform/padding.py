"""loopy.transform.padding: axes of arrays split, and padded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, cast

import pymbolic.primitives as p

from kgen.compat.renamed import renamed
from kgen.ir.expr import walk
from kgen.ir.kernel import LoopKernel
from kgen.transforms.loops.split import split_iname
from kgen.transforms.select import transform
from kgen.transforms.storage.array_axes import split_array_axis
from kgen.transforms.storage.padding import add_padding, find_padding_multiple

__all__ = [
    "add_padding",
    "find_padding_multiple",
    "split_arg_axis",
    "split_array_axis",
    "split_array_dim",
]

#: An array, the number of its axis, and "F" where the axis of entries comes first.
SplitSpec: TypeAlias = tuple[str, int] | tuple[str, int, str]


@transform
def split_array_dim(
    kernel: LoopKernel,
    arrays_and_axes: SplitSpec | Sequence[SplitSpec],
    count: int,
    auto_split_inames: bool = True,
    split_kwargs: Mapping[str, Any] | None = None,
) -> LoopKernel:
    """Split axes of arrays in two, and the loops whose variables are their subscripts.

    ::

        a[i]  =>  a[i_outer, i_inner]  (shape n  =>  (n + 15) // 16, 16)

    :arg arrays_and_axes: ``(array, axis)``, or a list of these; ``(array, axis, "F")`` puts the
        axis of the entries first
    :arg count: how many entries a group has
    :arg auto_split_inames: ``False`` leaves the loops as they are
    :arg split_kwargs: more arguments of :func:`split_iname`
    """
    if arrays_and_axes and isinstance(arrays_and_axes[0], str):
        arrays_and_axes = cast(list[SplitSpec], [arrays_and_axes])
    specs = [(*spec, "C")[:3] for spec in cast(Sequence[SplitSpec], arrays_and_axes)]
    if auto_split_inames:
        for iname in _subscripts(kernel, {(array, axis) for array, axis, _ in specs}):
            kernel = split_iname(kernel, iname, count, **(split_kwargs or {}))
    for array, axis, order in specs:
        kernel = split_array_axis(kernel, array, axis, count, order)
    return kernel


split_arg_axis = renamed("split_arg_axis", split_array_dim)


def _subscripts(kernel: LoopKernel, axes: set[tuple[str, int]]) -> list[str]:
    """Return the loop variables that alone are the subscripts of some axes, each once."""
    found = [
        index.name
        for insn in kernel.instructions
        for node in walk(*insn.assignees, *insn.read_exprs())
        if isinstance(node, p.Subscript) and isinstance(node.aggregate, p.Variable)
        for axis, index in enumerate(node.index_tuple)
        if (node.aggregate.name, axis) in axes and isinstance(index, p.Variable)
    ]
    return [name for name in dict.fromkeys(found) if name in kernel.inames]
