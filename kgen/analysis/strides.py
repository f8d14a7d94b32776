"""Strides of accesses along loop variables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pymbolic.primitives as p

from kgen.analysis.access import collect_accesses
from kgen.ir.data import ArrayBase
from kgen.ir.expr import Expr, flatten_sum
from kgen.ir.kernel import LoopKernel
from kgen.ir.layout import FixedStrideArrayDimTag, VectorArrayDimTag

#: The maximum number of instructions considered when choosing the innermost loop.
MAX_VOTERS = 64


def unit_stride_scores(kernel: LoopKernel, insn_ids: Iterable[str]) -> Mapping[str, int]:
    """Count, per iname, the accesses in which it steps through contiguous elements.

    Writes count twice. Of many instructions, only the first few are considered.
    """
    scores: dict[str, int] = {}
    voters = [kernel.id_to_insn[insn_id] for insn_id in list(insn_ids)[:MAX_VOTERS]]
    for access in collect_accesses(kernel, voters):
        for name in _adjacent(kernel.array_vars[access.array], access.index or ()):
            scores[name] = scores.get(name, 0) + (2 if access.is_write else 1)
    return scores


def _adjacent(array: ArrayBase, index: tuple[Expr, ...]) -> list[str]:
    """Return the variables that are themselves a subscript of unit stride."""
    if not isinstance(array.dim_tags, tuple):
        return []
    return [
        term.name
        for axis, tag in zip(index, array.dim_tags, strict=False)
        if isinstance(tag, FixedStrideArrayDimTag | VectorArrayDimTag) and tag.stride == 1
        for term in flatten_sum(axis)
        if isinstance(term, p.Variable)
    ]
