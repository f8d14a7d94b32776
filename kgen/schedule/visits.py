"""The instructions of a schedule in execution order, with the loops around each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import count

from kgen.ir.tree import children_of
from kgen.schedule.tree import HostLoop, Loop, Node, Run, Step

__all__ = ["Visit", "visits_of"]


@dataclass(frozen=True)
class Visit:
    """An instruction in execution order, with the loops around it, each with a number.

    If a loop is visited several times, its numbers are consecutive.
    """

    position: int
    insn_id: str
    loops: tuple[tuple[int, str], ...]
    copies: int = 1

    def shared_loops(self, other: Visit) -> tuple[str, ...]:
        """Return the loops around this and *other*, outermost first."""
        shared: list[str] = []
        for mine, theirs in zip(self.loops, other.loops, strict=False):
            if mine != theirs:
                break
            shared.append(mine[1])
        return tuple(shared)

    def is_other_iteration(self, other: Visit) -> bool:
        """Tell whether *other* is in another iteration of a loop around this."""
        for (one, _), (two, _) in zip(self.loops, other.loops, strict=False):
            if one // self.copies != two // self.copies:
                return False
            if one != two:
                return True
        return False


def visits_of(nodes: Iterable[Node | Step], *, copies: int = 1) -> Iterator[Visit]:
    """Yield the instructions below *nodes* in order, those in loops *copies* times."""
    numbers = count()
    places = (place for node in nodes for place in _places(node, (), copies, numbers))
    for position, (insn_id, loops) in enumerate(places):
        yield Visit(position, insn_id, loops, copies)


def _places(
    node: Node | Step, around: tuple[tuple[int, str], ...], copies: int, numbers: Iterator[int]
) -> Iterator[tuple[str, tuple[tuple[int, str], ...]]]:
    """Yield the instructions below *node*, with the enclosing loops and their *numbers*."""
    if isinstance(node, Run):
        yield from ((insn_id, around) for insn_id in node.insn_ids)
    rounds = [around]
    if isinstance(node, Loop | HostLoop):
        first = next(numbers) * copies
        rounds = [(*around, (first + copy, node.iname)) for copy in range(copies)]
    for inside in rounds:
        for child in children_of(node):
            yield from _places(child, inside, copies, numbers)
