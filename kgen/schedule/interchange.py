"""Orders of loops around the same instructions that preserve dependences."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from kgen.analysis.access import Access
from kgen.analysis.dependences import (
    conflict,
    describe_violation,
    in_lexicographic_order,
    is_renewed,
    share_iterations,
)
from kgen.analysis.footprints import Footprints
from kgen.analysis.instances import Instances, in_same_iteration, relate, relate_sides
from kgen.ir.assignee import index_of
from kgen.ir.instruction import Assignment
from kgen.ir.kernel import LoopKernel
from kgen.ir.sets.dims import Set
from kgen.ir.sets.effort import QUESTION, answer
from kgen.ir.sets.names import Side
from kgen.ir.updates import update_of

__all__ = ["Dependence", "Nest", "has_order"]


@dataclass(frozen=True)
class Dependence:
    """Two accesses to one element, of which *first* runs first."""

    first: Access
    then: Access
    pairs: Set

    def turned_by(self, loop: str) -> Set:
        """Return the pairs that would run in reverse order with *loop* as the outermost loop."""
        return relate(self.pairs, Side.SECOND.of(loop), Side.FIRST.of(loop), "lt_set")

    def within(self, loop: str) -> Dependence:
        """Return the dependence within one iteration of a loop."""
        return Dependence(self.first, self.then, relate_sides(self.pairs, loop, "eq_set"))


@dataclass(frozen=True)
class Nest:
    """Instructions, the loops around all of them, and further loops *outer* around these."""

    kernel: LoopKernel
    insns: frozenset[str]
    outer: frozenset[str]
    #: the loops that must be inside each loop
    inside: Mapping[str, Collection[str]]

    def nearest(
        self, given: Sequence[str], wanted: Sequence[str], *, only_values: bool = False
    ) -> list[str]:
        """Return the *wanted* order of loops as far as it preserves dependences of the *given* one.

        Increments of one element may be reordered. *only_values*: an element that
        is read before it is written may be read after it.
        """
        if list(given) == list(wanted):
            return list(wanted)
        left = answer(lambda: list(self.dependences(given, only_values=only_values)), QUESTION)
        if left is None:
            return list(given)
        placed: list[str] = []
        waiting = list(wanted)
        while waiting:
            ready = [n for n in waiting if not any(n in self.inside[other] for other in waiting)]
            name = next(n for n in ready if not _is_turned(left, n))
            left = [one.within(name) for one in left]
            waiting.remove(name)
            placed.append(name)
        return placed

    def point_turned(self, given: Sequence[str], other: Sequence[str]) -> str | None:
        """Return which accesses another order of loops would reorder, if it finds any."""
        left = answer(lambda: list(self.dependences(given)), QUESTION) or []
        for name in other:
            for one in left:
                if not one.turned_by(name).is_empty():
                    pair = one.turned_by(name)
                    return describe_violation(self.kernel, pair, one.first, one.then)
            left = [one.within(name) for one in left]
        return None

    def dependences(
        self, order: Sequence[str], *, only_values: bool = False
    ) -> Iterator[Dependence]:
        """Yield the dependences between iterations that run in an order of loops."""
        instances = Instances(self.kernel, has_axes=False)
        of = self.kernel.id_to_insn
        for first, then in self._accesses_that_meet(order):
            if only_values and not first.is_write:
                continue
            around = self.outer & of[first.insn_id].within_inames & of[then.insn_id].within_inames
            pairs, _ = instances.meeting(first, then, (*sorted(around), *order))
            pairs = in_same_iteration(pairs, around)
            for earlier in in_lexicographic_order(pairs, order):
                if not earlier.is_empty():
                    yield Dependence(first, then, earlier)

    def _accesses_that_meet(self, loops: Sequence[str]) -> Iterator[tuple[Access, Access]]:
        """Yield accesses to one element that may be in different iterations of two loops."""
        kernel, every = self.kernel, Footprints.of(self.kernel).accesses
        written = {name for n in self.insns for name in kernel.id_to_insn[n].assignee_var_names()}
        for name in sorted(written & every.keys()):
            accesses = [access for access in every[name] if access.insn_id in self.insns]
            if is_renewed(kernel, name, accesses, self.insns, loops):
                continue
            different = {
                (self._kind(first), self._kind(then)): (first, then)
                for first, then in product(accesses, repeat=2)
                if has_order(kernel, first, then)
            }
            for first, then in different.values():
                if sum(not share_iterations(loop, first, then) for loop in loops) > 1:
                    yield first, then

    def _kind(self, access: Access) -> object:
        """Return a key: accesses with equal keys overlap with the same accesses."""
        return access.index, access.is_write, access.place


def _is_turned(dependences: Iterable[Dependence], loop: str) -> bool:
    return any(not one.turned_by(loop).is_empty() for one in dependences)


def has_order(kernel: LoopKernel, first: Access, then: Access) -> bool:
    """Tell whether results may depend on which of two accesses comes first."""
    if not conflict(kernel, first, then):
        return False
    return first.insn_id != then.insn_id or not _accumulates(kernel, first, then)


def _accumulates(kernel: LoopKernel, first: Access, then: Access) -> bool:
    """Tell whether an instruction increments the element of both accesses."""
    insn = kernel.id_to_insn[first.insn_id]
    if not isinstance(insn, Assignment) or not first.index == then.index == index_of(insn.assignee):
        return False
    return update_of(insn) is not None
