"""Verification of barriers: conflicting accesses that no barrier separates.

``sync`` inserts barriers. This is the inverse, from a schedule to the pairs of accesses that
it leaves unsynchronized, so that each can be checked against the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from kgen.analysis.access import Access
from kgen.errors import MissingBarrierError
from kgen.ir.stages import PreparedKernel
from kgen.ir.tree import Barrier, children_of
from kgen.ir.types import Memory, Reach
from kgen.schedule.conflicts import Conflict, Conflicts
from kgen.schedule.host import on_device
from kgen.schedule.tree import Loop, Node, Run, Schedule

__all__ = ["Unsynchronized", "find_unsynchronized", "unsynchronized_error"]

_Loops = tuple[tuple[int, str], ...]


@dataclass(frozen=True)
class Unsynchronized:
    """Two accesses of different work-items to one element without a barrier between them.

    *loop* is the loop that carries the dependence, if there is one.
    """

    conflict: Conflict
    loop: str | None


@dataclass
class _Order:
    """The contents of a launch, in order: each with its position and the loops around it."""

    insns: dict[str, tuple[int, _Loops]] = field(default_factory=dict)
    barriers: list[tuple[int, _Loops, Barrier]] = field(default_factory=list)
    n_loops: int = 0

    def add(self, node: Node, loops: _Loops = ()) -> None:
        position = len(self.insns) + len(self.barriers)
        match node:
            case Run():
                for offset, insn_id in enumerate(node.insn_ids):
                    self.insns[insn_id] = (position + offset, loops)
            case Barrier():
                self.barriers.append((position, loops, node))
            case Loop():
                self.n_loops += 1
                loops = (*loops, (self.n_loops, node.iname))
        for child in children_of(node):
            self.add(child, loops)

    def has_barrier(self, memory: Memory, reach: Reach, loops: _Loops) -> bool:
        """Tell whether a barrier runs in every iteration of the innermost of *loops*."""
        return any(
            barrier.orders(memory, reach) and around == loops
            for _, around, barrier in self.barriers
        )

    def insns_in(self, loops: _Loops) -> tuple[str, ...]:
        """Return the instructions in *loops*."""
        return tuple(
            insn_id for insn_id, (_, around) in self.insns.items() if around[: len(loops)] == loops
        )

    def separates(
        self,
        accesses: tuple[str, str],
        memory: Memory,
        reach: Reach,
        common: _Loops,
        *,
        carried: bool,
    ) -> bool:
        """Tell whether a barrier always runs between an access and a later one.

        They are in the same iteration of all loops of *common*, or, if *carried*, of all but the
        last, of which the later one is in a later iteration. A barrier always runs if it is in no
        loop that contains neither of the two.
        """
        (first, around_first), (second, around_second) = map(self.insns.__getitem__, accesses)
        for at, loops, barrier in self.barriers:
            after = at > first and around_first[: len(loops)] == loops
            before = at < second and around_second[: len(loops)] == loops
            in_between = loops[: len(common)] == common if carried else first < at < second
            if barrier.orders(memory, reach) and in_between and (after or before):
                return True
        return False


def find_unsynchronized(kernel: PreparedKernel, schedule: Schedule) -> Iterator[Unsynchronized]:
    """Yield the accesses of different work-items that no barrier of *schedule* separates.

    The accesses of a launch are in the same iteration of all host loops around it.
    """
    if not kernel.axes:
        return
    device = on_device(kernel, schedule.host_inames)
    for launch in schedule.launches:
        order = _Order()
        order.add(launch.body)
        conflicts = Conflicts(device, order.insns)
        by_storage: dict[object, list[Access]] = {}
        for insn_id in order.insns:
            for access in conflicts.accesses.get(insn_id, ()):
                by_storage.setdefault((access.array, conflicts.storage(access)), []).append(access)
        for accesses in by_storage.values():
            yield from _among(conflicts, order, accesses)


def _among(conflicts: Conflicts, order: _Order, accesses: list[Access]) -> Iterator[Unsynchronized]:
    """Yield the accesses to one array that are not separated.

    The result for two accesses applies to all accesses of their kinds in the same loops.
    """
    kinds = [(conflicts.kind(access), order.insns[access.insn_id][1]) for access in accesses]
    distinct = set(kinds)
    if len({loops for _, loops in kinds}) == 1:
        ((_, loops), *_) = kinds
        cases = [(loops, False), *((loops[:k], True) for k in range(len(loops), 0, -1))]
        if all(conflicts.none_conflict(accesses, *_agreed(case)) for case in cases):
            return
    apart: dict[object, set[object]] = {kind: set() for kind in distinct}
    for one, kind in zip(accesses, kinds, strict=True):
        if apart[kind] >= distinct:
            continue
        for other, other_kind in zip(accesses, kinds, strict=True):
            if other_kind in apart[kind] or not (one.is_write or other.is_write):
                continue
            cases = list(_cases(order, one, other))
            yield from _of_pair(conflicts, order, one, other, cases)
            is_later = order.insns[one.insn_id][0] < order.insns[other.insn_id][0]
            if is_later and all(conflicts.never_meet(one, other, *_agreed(c)) for c in cases):
                apart[kind].add(other_kind)


def _cases(order: _Order, one: Access, other: Access) -> Iterator[tuple[_Loops, bool]]:
    """Yield the loops whose iterations two accesses share; if carried, all but the last."""
    first, around_first = order.insns[one.insn_id]
    second, around_second = order.insns[other.insn_id]
    common: _Loops = ()
    for mine, theirs in zip(around_first, around_second, strict=False):
        if mine != theirs:
            break
        common = (*common, mine)
    if first < second:
        yield common, False
    for k in range(len(common), 0, -1):
        yield common[:k], True


def _agreed(case: tuple[_Loops, bool]) -> tuple[tuple[str, ...], str | None]:
    """Return the loops with the same iteration of two accesses, and the ascending one."""
    loops, carried = case
    names = tuple(name for _, name in loops)
    return (names[:-1], names[-1]) if carried else (names, None)


def _of_pair(
    conflicts: Conflicts,
    order: _Order,
    one: Access,
    other: Access,
    cases: list[tuple[_Loops, bool]],
) -> Iterator[Unsynchronized]:
    """Yield the pairs of accesses of *one* and the later *other* without a barrier in between."""
    memory = Memory.of(conflicts.kernel.array_vars[one.array])
    for loops, carried in cases:
        equal, ascending = _agreed((loops, carried))
        found = conflicts.between(one, other, equal, ascending)
        if found is None or conflicts.is_race_of_one(found):
            continue
        ids = one.insn_id, other.insn_id
        is_kept = order.separates(ids, memory, found.reach, loops, carried=carried)
        if not is_kept and ascending is not None and order.has_barrier(memory, found.reach, loops):
            inside = order.insns_in(loops)
            is_kept = conflicts.are_distant(one, other, equal, ascending, inside)
        if found.reach is Reach.DEVICE or not is_kept:
            yield Unsynchronized(found, ascending)


def unsynchronized_error(kernel: PreparedKernel, found: Unsynchronized) -> MissingBarrierError:
    """Return the error for two accesses that no barrier separates."""
    first, second = found.conflict.first, found.conflict.second
    later = f" in a later iteration of '{found.loop}'" if found.loop is not None else ""
    kinds = {True: "writes", False: "reads"}
    scope = "global" if found.conflict.reach is Reach.DEVICE else "local"
    return MissingBarrierError(
        f"'{first.insn_id}' {kinds[first.is_write]} '{first}' and '{second.insn_id}' "
        f"{kinds[second.is_write]} '{second}'{later}, with no barrier in between",
        kernel=kernel.name,
        point=found.conflict.point,
        because=f"{found.conflict.reach} meet at one element of '{first.array}'",
        hint=f"add_barrier(kernel, 'id:{first.insn_id}', 'id:{second.insn_id}', "
        f"synchronization_kind='{scope}')",
    )
