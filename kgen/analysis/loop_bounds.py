"""Data-dependent loop bounds: the variables that they read, where, and their writers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kgen.analysis.access import Access, Place
from kgen.ir.expr import Expr, variable_names
from kgen.ir.instruction import InstructionBase
from kgen.ir.kernel import LoopKernel
from kgen.ir.mentions import mentions_of
from kgen.ir.sets.dims import involved_params

__all__ = [
    "ComputedBound",
    "reads_in_bounds",
    "find_bound_computed_inside",
    "bound_writers",
    "data_in_bounds",
    "find_computed_bounds",
]


class ComputedBound(NamedTuple):
    """A loop, a variable that bounds it, and an instruction that sets this."""

    loop: str
    name: str
    writer: InstructionBase


def data_in_bounds(kernel: LoopKernel, iname: str) -> tuple[str, ...]:
    """Return the arrays and temporaries that are in the bounds of a loop."""
    if kernel.array_vars.keys().isdisjoint(kernel.domain_parameters(iname)):
        return ()
    found = involved_params(kernel.restricted(iname))
    return tuple(name for name in found if name in kernel.array_vars)


def find_computed_bounds(kernel: LoopKernel, loops: Iterable[str]) -> Iterator[ComputedBound]:
    """Yield the bounds of *loops* that instructions set."""
    if kernel.bounding_names.isdisjoint(kernel.array_vars):
        return
    for loop in sorted(kernel.with_outer_inames(frozenset(loops))):
        for name in data_in_bounds(kernel, loop):
            for writer in map(kernel.id_to_insn.__getitem__, kernel.writers.get(name, ())):
                yield ComputedBound(loop, name, writer)


def find_bound_computed_inside(
    kernel: LoopKernel, loops: Iterable[str], inside: frozenset[str]
) -> ComputedBound | None:
    """Return a bound of *loops* that is set in each iteration of one of *inside*, if any."""
    for found in find_computed_bounds(kernel, loops):
        if not found.writer.within_inames.isdisjoint(inside):
            return found
    return None


def bound_writers(kernel: LoopKernel, loops: Iterable[str]) -> frozenset[str]:
    """Return the ids of the instructions that set bounds of *loops*."""
    return frozenset(str(found.writer.id) for found in find_computed_bounds(kernel, loops))


def reads_in_bounds(kernel: LoopKernel) -> Iterator[Access]:
    """Yield the reads in the bounds of each instruction's loops.

    Such a read is outside the loops that it bounds.
    """
    if kernel.bounding_names.isdisjoint(kernel.array_vars):
        return
    for insn in kernel.instructions:
        yield from _reads_of(kernel, insn)


def _reads_of(kernel: LoopKernel, insn: InstructionBase) -> Iterator[Access]:
    reduced = insn.reduction_inames() | insn.sub_array_ref_inames()
    if kernel.substitutions:
        found = mentions_of(*insn.expressions(), rules=kernel.substitutions)
        reduced = reduced.union(found.reduced)
    loops = kernel.with_outer_inames(insn.within_inames | reduced)
    bounds = {loop: data_in_bounds(kernel, loop) for loop in loops}
    for name in sorted({name for names in bounds.values() for name in names}):
        bounded = {loop for loop, names in bounds.items() if name in names}
        outside = frozenset(
            loop
            for loop in insn.within_inames
            if bounded.isdisjoint(kernel.with_outer_inames(frozenset((loop,))))
        )
        inames = kernel.in_order(outside)
        conditions = tuple(c for c in insn.predicates if _holds_for(kernel, c, outside))
        yield Access(str(insn.id), name, (), False, Place(inames, conditions))


def _holds_for(kernel: LoopKernel, condition: Expr, inames: frozenset[str]) -> bool:
    """Tell whether a condition is the same in all iterations of loops other than *inames*."""
    names = set(variable_names(condition))
    writers = (kernel.id_to_insn[w] for name in names for w in kernel.writers.get(name, ()))
    return inames.issuperset(names & kernel.inames.keys()) and all(
        writer.within_inames <= inames for writer in writers
    )
