"""Reductions whose loop is outside of some loops around them: an accumulator for each iteration."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pymbolic.primitives as p

from kgen.analysis.domains import bounds_of
from kgen.analysis.prefixes import domain_inside
from kgen.errors import StaticValueFindingError, TransformError, message
from kgen.ir.expr import Expr, Reduction, substitute, to_text, variable_names
from kgen.ir.instruction import InstructionBase
from kgen.ir.kernel import LoopKernel
from kgen.ir.tags import ConcurrentTag, UnrollTag
from kgen.transforms.reduction_parallel import Interleaved

if TYPE_CHECKING:
    from kgen.transforms.reduction_context import Context
    from kgen.transforms.reduction_realizer import Realizer

__all__ = ["accumulate_apart", "find_apart"]


def find_apart(realizer: Realizer, reduction: Reduction, context: Context) -> Interleaved | None:
    """Find the loops around *reduction* that have to be inside of its own; ``None`` for none.

    Its loop stores what it reads, once for all their iterations: a tile that was fetched.
    """
    kernel, insn_id = realizer.kernel, str(context.insn.id)
    if context.place.inames != context.insn.within_inames:
        return None
    shared = realizer.loops.loops_shared(reduction, insn_id)
    missing = {
        name: str(insn.id)
        for insn in _others_in(kernel, shared, insn_id)
        for name in context.within - insn.within_inames
        if not kernel.has_tag(name, ConcurrentTag)
    }
    if not missing:
        return None
    inames = sorted(missing, key=kernel.iname_order.__getitem__)
    first, shape = [], []
    for name in inames:
        domain = kernel.domain_of((name,))
        try:
            bounds = bounds_of(domain, name, kernel.assumptions, kernel.inames.keys())
        except StaticValueFindingError:
            bounds = None
        if bounds is None or not bounds.is_constant:
            raise TransformError(
                message(
                    f"the reduction '{to_text(reduction)}' would need an accumulator for each "
                    f"iteration of the loop '{name}', and their number is not a constant",
                    kernel=kernel.name,
                    where=f"instruction '{insn_id}'",
                    because=f"its loop '{min(shared)}' is around '{missing[name]}', which is "
                    f"outside of '{name}'",
                    hint=f"add_inames_to_insn(kernel, '{name}', 'id:{missing[name]}')",
                )
            )
        first.append(bounds.lower)
        shape.append(bounds.extent)
    unrolled = any(kernel.has_tag(name, UnrollTag) for name in inames)
    return Interleaved(tuple(inames), tuple(first), tuple(shape), unrolled)


def accumulate_apart(
    realizer: Realizer, reduction: Reduction, apart: Interleaved, context: Context
) -> tuple[Expr, ...]:
    """Append the loops that compute *reduction*; return the accumulators of an iteration.

    ::

        for i                                 for e
          c[i] = sum((ko, ki), tile[ki]*...)    acc[e] = 0
        end i                                 end e
                                       =>     for ko
        for ko                                  tile[...] = ...
          tile[...] = ...                       for i_0, ki
        end ko                                    acc[i_0] = acc[i_0] + tile[ki]*...
                                              end ko, i_0, ki
                                              for i
                                                c[i] = acc[i]
    """
    kernel = realizer.kernel
    shared = realizer.loops.loops_shared(reduction, str(context.insn.id))
    outer = context.insn.within_inames.difference(apart.inames)
    # reductions in one loop share the loops inside of it, and what these hold
    key = (shared, apart.inames, outer)
    if key not in realizer.apart:
        made = realizer.loops.add(apart.inames, domain_inside(kernel, outer, apart.inames))
        realizer.types.update((new, kernel.index_dtype) for new in made.values())
        realizer.apart[key] = made
    copies = realizer.apart[key]
    renamed = {old: p.Variable(new) for old, new in copies.items()}
    inside = dataclasses.replace(
        context,
        predicates=frozenset(substitute(condition, renamed) for condition in context.predicates),
        within=context.within.difference(apart.inames).union(copies.values()),
        place=context.place.inside((), {**context.place.renamed, **copies}),
    )
    for insn in _others_in(kernel, shared, str(context.insn.id)):
        own = insn.within_inames.intersection(apart.inames)
        kept = {name: copies[name] for name in own if not _can_leave(kernel, insn, name)}
        if own:
            realizer.move(insn, own.difference(kept), kept)
    totals = realizer.accumulate(reduction, inside, apart, copies)
    return apart.own(totals, {})


def _others_in(
    kernel: LoopKernel, loops: frozenset[str], insn_id: str
) -> tuple[InstructionBase, ...]:
    """Return the instructions other than one that are in one of *loops*."""
    return tuple(i for i in kernel.instructions if i.id != insn_id and i.within_inames & loops)


def _can_leave(kernel: LoopKernel, insn: InstructionBase, iname: str) -> bool:
    """Tell whether an instruction does the same in each iteration of a loop around it."""
    loops = kernel.with_outer_inames(insn.within_inames - {iname})
    names = set(variable_names(*insn.expressions(), *insn.predicates))
    changed = {
        name
        for other in kernel.instructions
        if iname in other.within_inames and other.id != insn.id
        for name in other.assignee_var_names()
    }
    before = {str(i.id) for i in kernel.instructions if iname in i.within_inames}
    reads_own = set(insn.assignee_var_names()).intersection(insn.read_dependency_names())
    return (
        iname not in loops
        and iname not in names
        and not names.intersection(changed)
        and not reads_own
        and insn.depends_on.isdisjoint(before)
    )
