"""Loops in which temporaries are filled for the reductions that read them."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from kgen.analysis.access import Access
from kgen.analysis.loop_bounds import bound_set_inside
from kgen.errors import TransformError, message
from kgen.ir.expr import Reduction, variable_names, walk
from kgen.ir.instruction import InstructionBase
from kgen.ir.kernel import LoopKernel
from kgen.ir.tags import GroupInameTag
from kgen.transforms.expressions.rules import expand_expression

__all__ = [
    "loops_around",
    "loops_filling",
    "refuse_bound_inside",
    "subscripts_of",
]


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


def refuse_bound_inside(
    kernel: LoopKernel, what: str, outer: frozenset[str], swept: Iterable[str]
) -> None:
    """Refuse to fill *what* in loops whose bounds are set inside of others, for each iteration.

    Raises :class:`TransformError`.
    """
    # the work-items of a group are in the same iteration of loops over groups
    inside = frozenset(n for n in kernel.inames if not kernel.has_tag(n, GroupInameTag)) - outer
    found = bound_set_inside(kernel, outer, inside)
    if found is None:
        return
    loop, name, writer = found
    (iname, *_) = sorted(writer.within_inames & inside)
    raise TransformError(
        message(
            f"{what} cannot be filled in each iteration of '{loop}', outside of '{iname}'",
            kernel=kernel.name,
            where=f"instruction '{writer}'",
            because=f"it sets '{name}', which bounds '{loop}', for each iteration of '{iname}'",
            hint=f"sweep '{loop}' as well"
            if iname in swept
            else f"put '{iname}' among the loops around what fills it",
        )
    )


def subscripts_of(writer: InstructionBase, array: str) -> frozenset[str]:
    """Return the variables in the subscripts with which *writer* writes *array*."""
    places = zip(writer.assignee_var_names(), writer.assignee_subscript_deps(), strict=True)
    return frozenset(name for written, names in places if written == array for name in names)
