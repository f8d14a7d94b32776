"""Legality of reordering loops: whether loop-carried dependences are preserved."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import pymbolic.primitives as p

from kgen.analysis.access import Access, collect_accesses
from kgen.analysis.dependences import (
    ViolatedDependence,
    by_priority,
    conflict,
    describe_violation,
    in_lexicographic_order,
    is_renewed,
    is_update,
    loops_with_order,
    shared_loops,
)
from kgen.analysis.domains import Inverse
from kgen.analysis.instances import Instances, bound, relate, relate_sides
from kgen.ir.expr import substitute, variable_names
from kgen.ir.kernel import LoopKernel
from kgen.ir.sets.dims import Set, dim_names, rename_dims, to_named, with_params
from kgen.ir.sets.names import PAIR, Side

__all__ = ["Nesting", "Reordering"]


@dataclass(frozen=True)
class Nesting:
    """An order of loops that preserves dependences, and the required nesting of each loop."""

    order: tuple[str, ...]
    chains: tuple[tuple[str, str], ...]


class Reordering:
    """The effect on dependences of replacing loop variables.

    *inverse* has the old loops in terms of the new ones. Other loops keep their places;
    the new ones are where the first of the old ones was. Loops are in the order of their
    priorities, or else in that of *old*; iterations of parallel ones are unordered.
    """

    def __init__(self, kernel: LoopKernel, inverse: Inverse, old: Sequence[str]) -> None:
        self.kernel = kernel
        self.values = values = inverse.values
        self.valid = inverse.valid
        self.old = old
        self.instances = Instances(kernel, has_axes=False)
        self.inside = [
            insn for insn in kernel.instructions if insn.within_inames.issuperset(values)
        ]

    def find_swapped(self, new: Sequence[str]) -> ViolatedDependence | None:
        """Return two accesses that the *new* loops, in this order, would reorder.

        A certain pair, if there is one.
        """
        uncertain: ViolatedDependence | None = None
        for first, then, pairs, is_exact in self._conflicts:
            for pair in self._turned_around(pairs, first, then, new):
                found = ViolatedDependence(
                    first, then, describe_violation(self.kernel, pair, first, then), is_exact
                )
                if is_exact:
                    return found
                uncertain = uncertain or found
        return uncertain

    def needed_nesting(self, new: Sequence[str]) -> Nesting | None:
        """Return which of the *new* loops must enclose which, or ``None`` if that is impossible.

        A loop that would violate a dependence must be inside the loops that carry
        it. Only certain dependences count.
        """
        left = self._undecided
        placed: list[str] = []
        chains: list[tuple[str, str]] = []
        waiting = list(new)
        while waiting:
            name = next((n for n in waiting if not any(_turned(s, n) for s in left)), None)
            if name is None:
                return None
            chains += [(outer, name) for outer in placed if self._needs(outer, name)]
            left = [relate_sides(pairs, name, "eq_set") for pairs in left]
            waiting.remove(name)
            placed.append(name)
        return Nesting(tuple(placed), tuple(chains))

    def _needs(self, outer: str, inner: str) -> bool:
        """Tell whether *outer* carries dependences that *inner* would violate."""
        return any(
            not relate_sides(turned, outer, "lt_set").is_empty()
            for pairs in self._undecided
            if (turned := _turned(pairs, inner)) is not None
        )

    @cached_property
    def _undecided(self) -> list[Set]:
        """The certain dependences that no loop around the new ones carries."""
        found: list[Set] = []
        for first, then, pairs, is_exact in self._conflicts:
            for name in self._ordered(shared_loops(self.kernel, first, then)):
                if name in self.values:
                    break
                pairs = relate_sides(pairs, name, "eq_set")
            if is_exact and not pairs.is_empty():
                found.append(pairs)
        return found

    # -- dependences ------------------------------------------------------------------------

    @cached_property
    def _conflicts(self) -> tuple[tuple[Access, Access, Set, bool], ...]:
        """Pairs of accesses to one element, with the iterations where one comes first.

        Sets over loops with the suffixes ``.a`` (first) and ``.b``, in old and new variables.
        """
        accesses: dict[str, list[Access]] = {}
        inside = {str(insn.id) for insn in self.inside}
        for access in collect_accesses(self.kernel, self.inside):
            if access.array in self.kernel.writers:
                accesses.setdefault(access.array, []).append(access)
        found: list[tuple[Access, Access, Set, bool]] = []
        for name, some in accesses.items():
            if is_renewed(self.kernel, name, some, inside, self.values):
                continue
            different = {self._kind(access): access for access in reversed(some)}
            for first in different.values():
                for then in different.values():
                    if conflict(self.kernel, first, then):
                        found.extend(self._in_order(first, then))
        return tuple(found)

    def _kind(self, access: Access) -> object:
        """Return a key: accesses with equal keys conflict with the same accesses."""
        loops = self.kernel.id_to_insn[access.insn_id].within_inames
        return access.index, access.is_write, access.place, loops, is_update(self.kernel, access)

    def _in_order(self, first: Access, then: Access) -> Iterator[tuple[Access, Access, Set, bool]]:
        loops = shared_loops(self.kernel, first, then)
        both, is_exact = self.instances.meeting(first, then, loops)
        if both.is_empty():
            return
        for suffix in PAIR:
            for old, value in self.values.items():
                names = variable_names(value)
                renamed = {n: p.Variable(n + suffix) for n in names if self._is_new(n)}
                both = with_params(both, [renamed[n].name if n in renamed else n for n in names])
                both = bound(both, old + suffix, substitute(value, renamed))
            new = {name: name + suffix for name in dim_names(self.valid)}
            both = both.intersect(to_named(rename_dims(self.valid, new)))
        for earlier in in_lexicographic_order(both, self._ordered(loops)):
            if not earlier.is_empty():
                yield first, then, earlier, is_exact

    def _turned_around(
        self, pairs: Set, first: Access, then: Access, new: Sequence[str]
    ) -> Iterator[Set]:
        order: list[str] = []
        for name in self._ordered(shared_loops(self.kernel, first, then)):
            order.extend(() if name in self.values else (name,))
            if name in self.values and not set(new) & set(order):
                order.extend(new)
        for later in in_lexicographic_order(pairs, order, Side.SECOND, Side.FIRST):
            if not later.is_empty():
                yield later

    def _ordered(self, loops: Sequence[str]) -> list[str]:
        """Return the loops whose iterations are ordered, outermost first."""
        rest = loops_with_order(self.kernel, loops)
        places = iter([name for name in self.old if name in rest])
        return by_priority(self.kernel, [next(places) if n in self.old else n for n in rest])

    def _is_new(self, name: str) -> bool:
        return name not in self.kernel.array_vars and name not in self.kernel.all_params()


def _turned(pairs: Set, name: str) -> Set | None:
    """Return the pairs that a loop executes in reverse order, if there are any."""
    turned = relate(pairs, Side.SECOND.of(name), Side.FIRST.of(name), "lt_set")
    return None if turned.is_empty() else turned
