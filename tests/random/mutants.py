"""Faulty variants of a transformed kernel: what a faulty transformation could leave.

Whether one still computes the same is found out by running it; :func:`kgen.verify` must refuse
those that do not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import pymbolic.primitives as p

from kgen.ir.assignee import assignee_name
from kgen.ir.data import ArrayArg
from kgen.ir.expr import Expr, IdentityMapper, variable_names, walk
from kgen.ir.instruction import Assignment, InstructionBase
from kgen.ir.kernel import LoopKernel
from kgen.ir.types import AddressSpace
from tests.mutation.mutants import without_dependencies
from tests.random import choices
from tests.random.choices import Draw

__all__ = ["MUTATIONS", "Transformed", "draw_mutant"]

Mutants = Iterator[tuple[str, LoopKernel]]


@dataclass(frozen=True)
class Transformed:
    """A kernel, and what it was before its transformations."""

    kernel: LoopKernel
    before: LoopKernel

    def assignments(self) -> Iterator[tuple[int, Assignment]]:
        """Yield all assignments, and their numbers."""
        for number, insn in enumerate(self.kernel.instructions):
            if isinstance(insn, Assignment):
                yield number, insn

    def made(self) -> Iterator[tuple[int, Assignment]]:
        """Yield what transformations made, such as instructions that fetch, and their numbers."""
        for number, insn in self.assignments():
            if insn.id not in self.before.id_to_insn:
                yield number, insn

    def replace(self, number: int, insn: InstructionBase) -> LoopKernel:
        """Return the kernel with another instruction in the place of one."""
        changed = list(self.kernel.instructions)
        changed[number] = insn
        return self.kernel.copy(instructions=tuple(changed))


class _Shift(IdentityMapper):
    """Adds to the first subscript of an array."""

    def __init__(self, array: str, step: int) -> None:
        super().__init__()
        self.array, self.step = p.Variable(array), step

    def map_subscript(self, expr: p.Subscript) -> Expr:
        index = tuple(self.rec(part) for part in expr.index_tuple)
        if expr.aggregate == self.array:
            index = (index[0] + self.step, *index[1:])
        return p.Subscript(expr.aggregate, index)


def dependencies(given: Transformed) -> Mutants:
    """Leave out what orders two instructions."""
    yield from without_dependencies(given.kernel)


def fetched_neighbours(given: Transformed) -> Mutants:
    """Read or write the neighbour of an element in what transformations made."""
    for number, insn in given.made():
        places = [place for place in walk(insn.expression) if isinstance(place, p.Subscript)]
        for step in (1, -1):
            for name in sorted({assignee_name(place) for place in places}):
                changed = insn.copy(expression=_Shift(name, step)(insn.expression))
                yield f"{insn.id} reads {name}[... + {step}]", given.replace(number, changed)
            if isinstance(insn.assignee, p.Subscript):
                name = assignee_name(insn.assignee)
                changed = insn.copy(assignee=_Shift(name, step)(insn.assignee))
                yield f"{insn.id} writes {name}[... + {step}]", given.replace(number, changed)


def used_neighbours(given: Transformed) -> Mutants:
    """Read the neighbour of an element that a transformation stored."""
    made = given.kernel.temporary_variables.keys() - given.before.temporary_variables.keys()
    for number, insn in given.assignments():
        for name in sorted(made.intersection(variable_names(insn.expression))):
            changed = insn.copy(expression=_Shift(name, 1)(insn.expression))
            if changed != insn:
                yield f"{insn.id} reads {name}[... + 1]", given.replace(number, changed)


def moved_out(given: Transformed) -> Mutants:
    """Take what transformations made out of loops whose variables it does not name."""
    for number, insn in given.made():
        named = variable_names(insn.assignee, insn.expression, *insn.predicates)
        for name in sorted(insn.within_inames - set(named)):
            changed = insn.copy(within_inames=insn.within_inames - {name})
            yield f"{insn.id} out of {name}", given.replace(number, changed)


def moved_in(given: Transformed) -> Mutants:
    """Put what transformations made into loops around what depends on it."""
    around: dict[str, set[str]] = {}
    for insn in given.kernel.instructions:
        for other in insn.depends_on:
            around.setdefault(other, set()).update(insn.within_inames)
    for number, made in given.made():
        inside = around.get(str(made.id), set()) - made.within_inames - made.reduction_inames()
        for name in sorted(inside):
            changed = made.copy(within_inames=made.within_inames | {name})
            yield f"{made.id} into {name}", given.replace(number, changed)


def conditions(given: Transformed) -> Mutants:
    """Let what transformations made run always."""
    for number, insn in given.made():
        if insn.predicates:
            changed = insn.copy(predicates=frozenset())
            yield f"{insn.id} without its conditions", given.replace(number, changed)


def own_tiles(given: Transformed) -> Mutants:
    """Give each work-item its own copy of what they share."""
    arrays = given.kernel.temporary_variables
    for name, array in arrays.items():
        if array.address_space == AddressSpace.LOCAL:
            own = array.copy(address_space=AddressSpace.PRIVATE)
            changed = given.kernel.copy(temporary_variables={**arrays, name: own})
            yield f"{name} is private", changed


def extents(given: Transformed) -> Mutants:
    """Declare arguments that are shorter than what is read or written."""
    for number, arg in enumerate(given.kernel.args):
        if isinstance(arg, ArrayArg) and isinstance(arg.shape, tuple) and arg.shape:
            shape = (arg.shape[0] - 1, *arg.shape[1:])
            args = list(given.kernel.args)
            args[number] = arg.copy(shape=shape)
            yield f"{arg.name} is one shorter", given.kernel.copy(args=tuple(args))


MUTATIONS: Mapping[str, Callable[[Transformed], Mutants]] = {
    "dependency": dependencies,
    "fetched": fetched_neighbours,
    "used": used_neighbours,
    "moved out": moved_out,
    "moved in": moved_in,
    "condition": conditions,
    "private": own_tiles,
    "extent": extents,
}


def draw_mutant(draw: Draw, given: Transformed) -> tuple[str, str, LoopKernel] | None:
    """Choose a mutation and one of the mutants that it makes, if there is any."""
    for name in draw(choices.permutations(tuple(MUTATIONS))):
        found = list(MUTATIONS[name](given))
        if found:
            text, mutant = draw(choices.sampled_from(found))
            return name, text, mutant
    return None
