"""Where the reductions of an instruction stand: loops, conditions, what they wait for."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Hashable
from dataclasses import dataclass, field

from kgen.ir.expr import Expr, variable_names
from kgen.ir.instruction import Assignment, InstructionBase
from kgen.ir.tags import AxisTag
from kgen.transforms.reduction_loops import Place

__all__ = ["Context"]


@dataclass(frozen=True)
class Context:
    """What holds where an expression stands; ``out`` and ``updates`` are filled from inside.

    ``out`` are the new instructions, ``updates`` the ids of those which the expression
    waits for, and ``axes`` the inames on hardware axes over which a parallel reduction ran:
    where the instruction itself writes to shared memory, it runs there only.
    """

    insn: InstructionBase
    within: frozenset[str]
    predicates: frozenset[Expr]
    depends_on: frozenset[str]
    place: Place
    sharers: Hashable
    out: list[InstructionBase] = field(default_factory=list)
    updates: list[str] = field(default_factory=list)
    axes: dict[str, AxisTag] = field(default_factory=dict)

    def assign(self, insn_id: str, target: Expr, value: Expr, *wait_for: str) -> Assignment:
        """Make an instruction that runs here, and after those with the ids *wait_for*."""
        insn = self.insn
        return Assignment(
            target,
            value,
            id=insn_id,
            within_inames=self.within,
            within_inames_is_final=True,
            predicates=self.predicates,
            depends_on=self.depends_on.union(wait_for),
            depends_on_is_final=True,
            no_sync_with=insn.no_sync_with,
            groups=insn.groups,
            conflicts_with_groups=insn.conflicts_with_groups,
            priority=insn.priority,
            tags=insn.tags,
            span=insn.span,
        )

    def without(self, insn_ids: frozenset[str]) -> Context:
        """Return the same place for what does not wait for some instructions."""
        return dataclasses.replace(self, depends_on=self.depends_on - insn_ids)

    def outside_of(self, loops: frozenset[str]) -> Context:
        """Return the place outside of some loops, without the conditions that depend on them."""
        kept = {c for c in self.predicates if loops.isdisjoint(variable_names(c))}
        return dataclasses.replace(self, within=self.within - loops, predicates=frozenset(kept))

    def guarded(self, condition: Expr, wait_for: Collection[str]) -> Context:
        """Return the same place for what matters under a condition only."""
        return dataclasses.replace(
            self,
            predicates=self.predicates | {condition},
            depends_on=self.depends_on.union(wait_for),
            sharers=(self.sharers, condition),
        )
