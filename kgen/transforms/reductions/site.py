"""The context of a reduction: enclosing loops, predicates, and dependencies."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Hashable, Iterable
from dataclasses import dataclass

from kgen.errors import TransformError
from kgen.ir.expr import Expr, is_zero, minus, variable_names
from kgen.ir.instruction import Assignment, InstructionBase, assign_beside
from kgen.ir.ordered_set import OrderedSet
from kgen.transforms.reductions.loops import Place

__all__ = ["Site", "counted_from_zero"]


@dataclass(frozen=True)
class Site:
    """The place of an expression in an instruction, and of the instructions that replace it.

    ``within`` are the loops around it, ``predicates`` the conditions under which its value
    matters, ``depends_on`` the ids of the instructions that run before. Reductions over the same
    loop variables share their loops where their ``sharers`` are equal.
    """

    insn: InstructionBase
    within: frozenset[str]
    predicates: OrderedSet[Expr]
    depends_on: frozenset[str]
    place: Place
    sharers: Hashable

    def assign(self, insn_id: str, target: Expr, value: Expr, *wait_for: str) -> Assignment:
        """Make an instruction that runs here, and after those with the ids *wait_for*."""
        return assign_beside(
            self.insn,
            target,
            value,
            insn_id,
            within_inames=self.within,
            predicates=self.predicates,
            depends_on=self.depends_on.union(wait_for),
        )

    def error(self, what: str, hint: str | None = None) -> TransformError:
        """Make an error that names the instruction."""
        return TransformError(what, where=f"instruction '{self.insn.id}'", hint=hint)

    def inside(self, inames: Iterable[str]) -> Site:
        """Return the same place inside more loops."""
        return dataclasses.replace(self, within=self.within.union(inames))

    def outside(self, inames: Iterable[str]) -> Site:
        """Return the same place outside some loops."""
        return dataclasses.replace(self, within=self.within.difference(inames))

    def after(self, insn_ids: Iterable[str]) -> Site:
        """Return the same place with more dependencies."""
        return dataclasses.replace(self, depends_on=self.depends_on.union(insn_ids))

    def without(self, insn_ids: frozenset[str]) -> Site:
        """Return the same place without some dependencies."""
        return dataclasses.replace(self, depends_on=self.depends_on - insn_ids)

    def hoisted(self, loops: frozenset[str]) -> Site:
        """Return the place outside some loops, without the conditions that depend on them."""
        kept = OrderedSet(c for c in self.predicates if loops.isdisjoint(variable_names(c)))
        return dataclasses.replace(self, within=self.within - loops, predicates=kept)

    def guarded(self, condition: Expr, wait_for: Collection[str]) -> Site:
        """Return the same place with a further condition."""
        return dataclasses.replace(
            self,
            predicates=self.predicates | {condition},
            depends_on=self.depends_on.union(wait_for),
            sharers=(self.sharers, condition),
        )


def counted_from_zero(index: Expr, first: Expr) -> Expr:
    """Return an index counted from 0, where its first value is *first*."""
    return index if is_zero(first) else minus(index, first)
