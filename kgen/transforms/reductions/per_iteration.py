"""Reductions whose loop is outside some of the enclosing loops: one accumulator per iteration."""

from __future__ import annotations

import dataclasses

import pymbolic.primitives as p

from kgen.analysis.prefixes import domain_inside
from kgen.errors import TransformError
from kgen.ir.expr import Reduction, substitute, to_text, variable_names
from kgen.ir.instruction import InstructionBase
from kgen.ir.kernel import LoopKernel
from kgen.ir.ordered_set import OrderedSet
from kgen.ir.tags import ConcurrentTag, UnrollTag
from kgen.transforms.reductions.builder import Accumulated, AccumulatorBuilder
from kgen.transforms.reductions.loop import Interleaved, accumulate_in_loop
from kgen.transforms.reductions.site import Site

__all__ = ["accumulate_per_iteration", "find_interchanged_loops"]


def find_interchanged_loops(
    builder: AccumulatorBuilder, reduction: Reduction, site: Site
) -> Interleaved | None:
    """Find the loops around *reduction* that must be inside its own; ``None`` for none.

    Its loop stores what it reads once for all their iterations, such as a prefetched tile.
    """
    kernel, insn_id = builder.kernel, str(site.insn.id)
    if site.place.inames != site.insn.within_inames:
        return None
    shared = builder.loops.loops_shared(reduction, insn_id)
    missing = {
        name: str(insn.id)
        for insn in _others_in(kernel, shared, insn_id)
        for name in site.within - insn.within_inames
        if not kernel.has_tag(name, ConcurrentTag)
    }
    if not missing:
        return None
    inames = kernel.in_order(missing)
    first, shape = [], []
    for name in inames:
        bounds = kernel.get_iname_bounds(name)
        if not bounds.is_constant:
            raise TransformError(
                f"the reduction '{to_text(reduction)}' would need an accumulator for each "
                f"iteration of the loop '{name}', and their number is not a constant",
                where=f"instruction '{insn_id}'",
                because=f"its loop '{min(shared)}' is around '{missing[name]}', which is "
                f"outside of '{name}'",
                hint=f"add_inames_to_insn(kernel, '{name}', 'id:{missing[name]}')",
            )
        first.append(bounds.lower)
        shape.append(bounds.extent)
    unrolled = any(kernel.has_tag(name, UnrollTag) for name in inames)
    return Interleaved(tuple(inames), tuple(first), tuple(shape), unrolled)


def accumulate_per_iteration(
    builder: AccumulatorBuilder, reduction: Reduction, apart: Interleaved, site: Site
) -> Accumulated:
    """Append the loops that compute *reduction*; its values are the accumulators of an iteration.

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
    kernel = builder.kernel
    shared = builder.loops.loops_shared(reduction, str(site.insn.id))
    outer = site.insn.within_inames.difference(apart.inames)
    # reductions in one loop share the loops inside it, and the contents of these
    copies = builder.inner_loops(
        (shared, apart.inames, outer),
        lambda: builder.loops.add(
            apart.inames, domain_inside(kernel, outer | shared, apart.inames)
        ),
    )
    renamed = {old: p.Variable(new) for old, new in copies.items()}
    inside = dataclasses.replace(
        site,
        predicates=OrderedSet(substitute(each, renamed) for each in site.predicates),
        within=site.within.difference(apart.inames).union(copies.values()),
        place=site.place.inside((), {**site.place.renamed, **copies}),
    )
    for insn in _others_in(kernel, shared, str(site.insn.id)):
        own = insn.within_inames.intersection(apart.inames)
        kept = {name: copies[name] for name in own if not _can_leave(kernel, insn, name)}
        if own:
            builder.move(insn, own.difference(kept), kept)
    serial = accumulate_in_loop(builder, reduction, inside, apart, copies)
    return Accumulated(apart.own(serial.values, {}), serial.writers)


def _others_in(
    kernel: LoopKernel, loops: frozenset[str], insn_id: str
) -> tuple[InstructionBase, ...]:
    """Return the other instructions that are inside one of *loops*."""
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
