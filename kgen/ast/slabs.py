"""Slabs of work-groups: code without guards for the groups in the interior."""

from __future__ import annotations

from collections.abc import Sequence

import pymbolic.primitives as p

from kgen.ast.expr import conjunction
from kgen.ast.nodes import Block, If, Node, parts_of
from kgen.ir.affine import simplify
from kgen.ir.expr import Expr, GroupHardwareAxisIndex, TruncQuotient, is_constant
from kgen.ir.grid import Grid
from kgen.ir.sets.dims import Set
from kgen.ir.stages import DeviceKernel
from kgen.schedule.to_isl import axes_in, axis_range

__all__ = ["bulk_of", "either"]


def bulk_of(
    kernel: DeviceKernel, grid: Grid, axes: Sequence[tuple[str, Expr]]
) -> tuple[Expr, Set] | None:
    """Return the groups outside all slabs, as a condition and as a set; ``None`` if all are.

    ``split_iname(..., outer_tag="g.0", slabs=(0, 1))`` gives ``gid(0) < (n + 15) / 16 - 1``.
    """
    conditions: list[Expr] = []
    inside: Set | None = None
    for iname, value in axes:
        first, last = kernel.iname_slab_increments.get(iname, (0, 0))
        axis = axes_in(value)
        if (first, last) == (0, 0) or not isinstance(axis, GroupHardwareAxisIndex):
            continue
        if first:
            conditions.append(p.Comparison(axis, ">=", first))
        if last:
            end = simplify(p.Sum((_as_in_c(grid.groups[axis.axis]), -last)))
            conditions.append(p.Comparison(axis, "<", end))
        part = axis_range(grid, axis, first, last)
        inside = part if inside is None else inside.intersect(part)
    return None if inside is None else (conjunction(conditions), inside)


def either(condition: Expr, bulk: Node, slab: Node) -> Node:
    """Choose between the code of the bulk and that of the slabs; common code is emitted once.

    ``if (c) { load; tree; } else { if (i < n) load; tree; }`` becomes
    ``if (c) load; else if (i < n) load; tree;``.
    """
    ways = [parts_of(node) for node in (bulk, slab)]
    first = _common(*ways)
    last = _common(*(way[first:][::-1] for way in ways))
    ends = [len(way) - last for way in ways]
    one, other = (Block(tuple(way[first:end])) for way, end in zip(ways, ends, strict=True))
    choice = (If(condition, one, other),) if one.children or other.children else ()
    return Block((*ways[0][:first], *choice, *ways[0][ends[0] :]))


def _common(one: list[Node], other: list[Node]) -> int:
    """Return the length of the common prefix of two lists of nodes."""
    pairs = zip(one, other, strict=False)
    return next((k for k, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


def _as_in_c(count: Expr) -> Expr:
    """Write a number of groups with C's division: it is positive where a group runs."""
    if isinstance(count, p.FloorDiv) and is_constant(count.denominator):
        return TruncQuotient(count.numerator, count.denominator)
    return count
