"""Splitting reductions over several loops, and separate loops for reductions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pymbolic.primitives as p

from kgen.ir.expr import Expr, IdentityMapper, Reduction, substitute
from kgen.ir.instruction import InstructionBase
from kgen.ir.kernel import LoopKernel
from kgen.transforms.reductions.loops import Place, ReductionLoops
from kgen.transforms.select import (
    NothingSelectedError,
    matcher,
    require_inames,
    transform,
)

__all__ = ["make_reduction_inames_unique", "split_reduction_inward", "split_reduction_outward"]


@transform
def split_reduction_inward(
    kernel: LoopKernel, inames: str | Iterable[str], within: Any = None
) -> LoopKernel:
    """Move loops of reductions to new reductions inside them.

    ::

        sum((i, j), a[i,j])  =>  sum(j, sum(i, a[i,j]))      with inames="i"

    Reductions over these inames alone stay as they are. Raises :class:`TransformError` if no
    reduction runs over them.

    >>> from kgen.frontend import make_kernel
    >>> knl = make_kernel("{ [i,j]: 0<=i,j<4 }", "c = sum((i,j), a[i,j])")
    >>> print(split_reduction_inward(knl, "i").default_entrypoint.instructions[0])
    c = reduce(sum, [j], reduce(sum, [i], a[i, j]))  {id=insn}
    """
    return _split_reductions(kernel, inames, within, inward=True)


@transform
def split_reduction_outward(
    kernel: LoopKernel, inames: str | Iterable[str], within: Any = None
) -> LoopKernel:
    """Move loops of reductions to new reductions around them.

    ::

        sum((i, j), a[i,j])  =>  sum(i, sum(j, a[i,j]))      with inames="i"

    Reductions over these inames alone stay as they are. Raises :class:`TransformError` if no
    reduction runs over them.

    >>> from kgen.frontend import make_kernel
    >>> knl = make_kernel("{ [i,j]: 0<=i,j<4 }", "c = sum((i,j), a[i,j])")
    >>> print(split_reduction_outward(knl, "i").default_entrypoint.instructions[0])
    c = reduce(sum, [i], reduce(sum, [j], a[i, j]))  {id=insn}
    """
    return _split_reductions(kernel, inames, within, inward=False)


def _split_reductions(
    kernel: LoopKernel, inames: str | Iterable[str], within: Any, *, inward: bool
) -> LoopKernel:
    names = require_inames(kernel, inames)
    splitter = _Splitter(kernel, names, inward=inward)
    test = matcher(kernel, within)
    chosen = {i.id for i in kernel.instructions if i.reduction_inames() >= {*names} and test(i)}
    changed = kernel.map_instructions(
        lambda insn: insn.with_transformed_expressions(splitter) if insn.id in chosen else insn
    )
    if not splitter.found:
        raise NothingSelectedError(f"there is no reduction over {', '.join(map(repr, names))}")
    return changed


class _Splitter(IdentityMapper):
    def __init__(self, kernel: LoopKernel, names: tuple[str, ...], *, inward: bool) -> None:
        super().__init__()
        self.kernel = kernel
        self.names = names
        self.inward = inward
        self.found = False

    def map_reduction(self, expr: Reduction, *args: Any) -> Expr:
        mapped = IdentityMapper.map_reduction(self, expr)
        rest = tuple(name for name in expr.inames if name not in self.names)
        if len(rest) + len(self.names) != len(expr.inames):
            return mapped
        self.found = True
        if not rest:
            return mapped
        moved = tuple(name for name in expr.inames if name in self.names)
        outer, inner = (rest, moved) if self.inward else (moved, rest)
        return expr.over(outer, (expr.over(inner, mapped.exprs),))


@transform
def make_reduction_inames_unique(
    kernel: LoopKernel, inames: str | Iterable[str] | None = None, within: Any = None
) -> LoopKernel:
    """Give each reduction its own loops: copies of those that are used elsewhere.

    Realizing reductions does this where necessary; call this function first to tag or split the
    loops separately. ``simul_reduce`` reductions keep sharing theirs. Rules that depend on loops
    are expanded in reductions.

    :arg inames: only for reductions over one of them

    ::

        a = sum(k, x[k])  =>  a = sum(k, x[k])
        b = sum(k, y[k])      b = sum(k_0, y[k_0])

    >>> from kgen.frontend import make_kernel
    >>> knl = make_kernel("{ [k]: 0<=k<4 }", ["a = sum(k, x[k])", "b = sum(k, y[k])"])
    >>> print(make_reduction_inames_unique(knl).default_entrypoint.instructions[1])
    b = reduce(sum, [k_0], y[k_0])  {id=insn_0}
    """
    names = frozenset(kernel.inames if inames is None else require_inames(kernel, inames))
    test = matcher(kernel, within)
    chosen = {i.id for i in kernel.instructions if i.reduction_inames() and test(i)}
    others = (insn for insn in kernel.instructions if insn.id not in chosen)
    taken = {name for insn in others for name in insn.reduction_inames()}
    maker = _UniqueMaker(ReductionLoops(kernel, taken), names)

    def change(insn: InstructionBase) -> InstructionBase:
        if insn.id not in chosen:
            return insn
        place = Place(insn.within_inames)
        return insn.with_transformed_expressions(lambda expr: maker.rec(expr, place, str(insn.id)))

    changed = kernel.map_instructions(change)
    changes = maker.loops.changes()
    return changed.copy(**changes) if changes else kernel


class _UniqueMaker(IdentityMapper):
    """Gives reductions their loops: ``rec(expr, place, insn_id)``."""

    def __init__(self, loops: ReductionLoops, names: frozenset[str]) -> None:
        super().__init__()
        self.loops = loops
        self.names = names
        self.count = 0

    def map_reduction(self, expr: Reduction, *args: Any) -> Expr:
        place, insn_id = args
        expr = self.loops.expanded(expr)
        if self.names.isdisjoint(expr.inames):
            copies = self.loops.loops_kept(expr, place, insn_id)
        else:
            self.count += 1
            sharers = "simul_reduce" if expr.allow_simultaneous else self.count
            copies = self.loops.loops_for(expr, place, sharers, insn_id)
        inner = place.inside(expr.inames, copies)
        renamed = {old: p.Variable(new) for old, new in copies.items()}
        parts = tuple(self.rec(substitute(part, renamed), inner, insn_id) for part in expr.exprs)
        return expr.over(tuple(copies.get(name, name) for name in expr.inames), parts)
