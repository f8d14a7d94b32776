"""Loops that decide what reductions run over."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kgen.analysis.loop_bounds import bound_writers
from kgen.ir.expr import Expr, Reduction, walk
from kgen.ir.kernel import LoopKernel
from kgen.ir.sets.dims import free_dim, with_dims

__all__ = ["computed_bounds", "deciding_loops", "loops_of_bounds"]


def loops_of_bounds(kernel: LoopKernel, value: Expr, around: Iterable[str]) -> frozenset[str]:
    """Return those loops *around* an expression on which the bounds of its reductions depend."""
    nodes = [node for node in walk(value) if isinstance(node, Reduction)]
    found: set[str] = set()
    for node in nodes:
        outside = [n for n in nodes if any(part is node for part in walk(n.expr))]
        outer = frozenset(around).union(*(n.inames for n in outside))
        found |= {*deciding_loops(kernel, outer.difference(node.inames), node.inames)}
    for insn_id in computed_bounds(kernel, value):
        found |= kernel.id_to_insn[insn_id].within_inames
    return frozenset(found.intersection(around))


def computed_bounds(kernel: LoopKernel, value: Expr) -> frozenset[str]:
    """Return the instructions that set bounds of the reductions in an expression."""
    nodes = (node for node in walk(value) if isinstance(node, Reduction))
    reduced = frozenset(name for node in nodes for name in node.inames)
    return bound_writers(kernel, reduced) if reduced else reduced


def deciding_loops(
    kernel: LoopKernel, around: Iterable[str], inames: tuple[str, ...]
) -> Iterator[str]:
    """Yield the loops *around* whose values change what *inames* run over."""
    outer = kernel.in_order(around)
    if not (outer and inames):
        return
    both = kernel.domain_of((*outer, *inames))
    possible = with_dims(kernel.domain_of(outer), inames).intersect_params(kernel.assumptions)
    for name in outer:
        if not free_dim(both, name).intersect(possible).is_subset(both):
            yield name
