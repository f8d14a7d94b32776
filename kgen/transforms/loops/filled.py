"""Loops in which temporaries are filled for the reductions that read them."""

from __future__ import annotations

from functools import partial

from kgen.analysis.access import Access
from kgen.ir.expr import Reduction, variable_names, walk
from kgen.ir.instruction import InstructionBase
from kgen.ir.kernel import LoopKernel
from kgen.transforms.expressions.rules import expand_expression

__all__ = ["loops_around", "loops_filling", "subscripts_of"]


def loops_filling(
    kernel: LoopKernel, reader: InstructionBase, inames: frozenset[str], names: frozenset[str]
) -> frozenset[str]:
    """Return the *inames* of a reduction in *reader* in whose loops a temporary is filled.

    All writers of a temporary in *names* are inside of such a loop, and their subscripts do not
    name it: each iteration stores what the reduction reads in it, as a prefetch does.
    """
    filling: set[str] = set()
    for array in sorted(names & kernel.temporary_variables.keys() & kernel.writers.keys()):
        writers = [kernel.id_to_insn[name] for name in kernel.writers[array]]
        if reader.depends_on.isdisjoint(str(writer.id) for writer in writers):
            continue
        around = frozenset.intersection(*(writer.within_inames for writer in writers))
        named = {name for writer in writers for name in subscripts_of(writer, array)}
        filling |= around & inames - named
    return frozenset(filling)


def loops_around(kernel: LoopKernel, use: Access) -> frozenset[str]:
    """Return the loops around a use, without those of reductions that run on their own.

    The loop of a reduction is one of them where a temporary that it reads is filled in it.
    """
    user = kernel.id_to_insn[use.insn_id]
    filled: frozenset[str] = frozenset()
    for expr in map(partial(expand_expression, kernel), user.read_exprs()):
        for node in walk(expr):
            if isinstance(node, Reduction):
                names = frozenset(variable_names(*node.exprs))
                filled |= loops_filling(kernel, user, frozenset(node.inames), names)
    return user.within_inames | filled.intersection(use.place.inames)


def subscripts_of(writer: InstructionBase, array: str) -> frozenset[str]:
    """Return the variables in the subscripts with which *writer* writes *array*."""
    places = zip(writer.assignee_var_names(), writer.assignee_subscript_deps(), strict=True)
    return frozenset(name for written, names in places if written == array for name in names)
