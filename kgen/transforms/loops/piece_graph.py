"""The order of the pieces of an index set: their dependencies, and the launch of each."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TypeAlias

from pytools.graph import compute_sccs, compute_topological_order

from kgen.analysis.dependences import ViolatedDependence
from kgen.analysis.piece_order import PieceDependence, PieceOrder
from kgen.errors import TransformError, message
from kgen.ir.instruction import InstructionBase
from kgen.ir.kernel import LoopKernel
from kgen.ir.tags import ConcurrentTag
from kgen.transforms.loops.inames import connected

__all__ = ["PieceGraph", "explained"]

#: The precedence graph: instructions with the numbers of their pieces.
_Pair: TypeAlias = tuple[tuple[str, int], tuple[str, int]]
_Edges: TypeAlias = Mapping[_Pair, ViolatedDependence]


def _by_pair(found: Iterable[PieceDependence]) -> _Edges:
    """Return one dependence for each two instructions, one that is certain if there is any."""
    result: dict[_Pair, ViolatedDependence] = {}
    for one in found:
        pair = (one.first, one.then)
        if pair not in result or one.found.is_certain:
            result[pair] = one.found
    return result


def explained(what: str, *found: ViolatedDependence) -> str:
    """Say what is between iterations in the set and others, and for which of them."""
    points = "; and ".join(one.point for one in found[:2])
    return f"iterations in the set and others {what}: {points}"


class PieceGraph:
    """The precedence graph of *chosen* instructions in *count* pieces.

    *within* has the dependences in one iteration of the loops around all pieces, *everywhere* all
    of them. Each piece has its *own* temporaries and its own *copied* loops.
    """

    def __init__(
        self,
        kernel: LoopKernel,
        chosen: Sequence[InstructionBase],
        copied: Collection[str],
        count: int,
        within: PieceOrder,
        everywhere: PieceOrder,
        own: Collection[str],
    ) -> None:
        self.kernel, self.chosen, self.copied, self.count = kernel, chosen, copied, count
        self.within, self.everywhere, self.own = within, everywhere, own

    @cached_property
    def group_of(self) -> Mapping[str, int]:
        """The instructions that sequential loops keep together, by number."""
        loops = {
            str(insn.id): [
                name
                for name in insn.within_inames
                if name in self.copied and not self.kernel.has_tag(name, ConcurrentTag)
            ]
            for insn in self.chosen
        }
        return {name: k for k, part in enumerate(connected(loops)) for name in part}

    @cached_property
    def edges(self) -> _Edges:
        """The precedences between different pieces, with their reasons."""
        found = _by_pair(self.within.find(self.own))
        torn = self._torn(found)
        if torn:
            certain = {pair: why for pair, why in found.items() if why.is_certain}
            self._reject(self._torn(certain))
            self._warn_of(next(iter(torn.values())))
            found = {
                pair: why for pair, why in found.items() if pair in certain or pair not in torn
            }
        return {**found, **self._carried(found)} if self.within.shared else found

    def _carried(self, edges: _Edges) -> _Edges:
        """Return an order of what meets in different iterations of the shared loops only.

        Either order is right there; one has to be said.
        """
        order = compute_topological_order(self._followers(edges), key=lambda node: node[::-1])
        place = {node: number for number, node in enumerate(order)}
        found: dict[_Pair, ViolatedDependence] = {}
        for pair, why in _by_pair(self.everywhere.find(self.own)).items():
            first, then = sorted(pair, key=lambda one: place[self._node(*one)])
            found[first, then] = why
        return {pair: why for pair, why in found.items() if pair not in edges}

    def _reject(self, torn: _Edges) -> None:
        if torn:
            raise TransformError(
                explained("need each other's values", *torn.values()),
                hint="split by another set, or fewer loops",
            )

    def _warn_of(self, why: ViolatedDependence) -> None:
        text = explained("may need each other's values, and run one after the other", why)
        silencer = f"reordered_access({why.then.array})"
        self.kernel.warn(message(text, kernel=self.kernel.name), silencer)

    def _torn(self, found: _Edges) -> _Edges:
        """Return the dependences that are part of a cycle."""
        part = {
            node: number
            for number, nodes in enumerate(compute_sccs(self._followers(found)))
            for node in nodes
        }
        return {
            (first, then): why
            for (first, then), why in found.items()
            if part[self._node(*first)] == part[self._node(*then)]
        }

    def _node(self, insn_id: str, number: int) -> tuple[int, int]:
        return self.group_of[insn_id], number

    def _followers(self, edges: Iterable[_Pair]) -> dict[tuple[int, int], set[tuple[int, int]]]:
        """Return the parts of pieces that sequential loops keep together, and what follows each."""
        count = self.count
        result: dict[tuple[int, int], set[tuple[int, int]]] = {
            (group, k): set() for group in self.group_of.values() for k in range(count)
        }
        same = (
            ((name, k), (str(insn.id), k))
            for insn in self.chosen
            for name in insn.depends_on
            if name in self.group_of
            for k in range(count)
        )
        for first, then in (*same, *edges):
            if self._node(*first) != self._node(*then):
                result[self._node(*first)].add(self._node(*then))
        return result

    def launches(self, sides: Sequence[int]) -> list[list[tuple[str, int]]]:
        """Return instructions and their pieces in the order of launches, each of one side."""
        followers = self._followers(self.edges)
        waiting = dict.fromkeys(followers, 0)
        for nodes in followers.values():
            for node in nodes:
                waiting[node] += 1
        result: list[list[tuple[str, int]]] = []
        side = 0
        while waiting:
            now: list[tuple[str, int]] = []
            while ready := [n for n, c in waiting.items() if not c and sides[n[1]] == side]:
                for node in ready:
                    del waiting[node]
                    for then in followers[node]:
                        waiting[then] -= 1
                    now += [(name, node[1]) for name, g in self.group_of.items() if g == node[0]]
            result += [now] if now else []
            side = 1 - side
        return result
