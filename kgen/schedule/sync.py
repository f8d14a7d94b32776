"""Barrier insertion: the fewest barriers that separate conflicting accesses.

On targets with barriers of warps, these separate accesses that conflict only within a warp.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from functools import cache, cached_property, partial, reduce
from itertools import accumulate
from operator import or_
from typing import TypeAlias

from kgen.analysis.access import Access
from kgen.errors import MissingBarrier, MissingBarrierError
from kgen.ir.construction.dependencies import written_id
from kgen.ir.fields import replace
from kgen.ir.stages import PreparedKernel
from kgen.ir.tags import HARDWARE_AXES, ConcurrentTag
from kgen.ir.tree import Barrier
from kgen.ir.types import Memory, Reach
from kgen.schedule.conflicts import Conflict, Conflicts
from kgen.schedule.races import check_races
from kgen.schedule.tree import Bind, Loop, Node, Run, Sequence, insn_ids, sequence

#: An array, and a number for its footprint per iteration of the loops around.
_Kind: TypeAlias = tuple[str, int]
#: The memory that barriers make consistent, and between which work-items.
_Order: TypeAlias = frozenset[tuple[Memory, Reach]]
_NONE: _Order = frozenset()


@dataclass(frozen=True)
class Span:
    """A need: at least one barrier at the boundaries ``first..last``.

    Boundary ``b`` is right before child ``b``. A span around the end of a loop body has
    ``last < first``: boundaries ``first..count-1`` and ``0..last``.
    """

    first: int
    last: int
    memory: Memory
    reason: str
    reach: Reach = Reach.GROUP

    def holds(self, boundary: int) -> bool:
        """Tell whether a barrier at *boundary* satisfies the need."""
        if self.first <= self.last:
            return self.first <= boundary <= self.last
        return boundary >= self.first or boundary <= self.last

    def among(self, boundaries: Seq[int]) -> tuple[int, ...]:
        """Return those of the ascending *boundaries* at which a barrier satisfies the need."""
        first = bisect_left(boundaries, self.first)
        end = bisect_right(boundaries, self.last)
        if self.first <= self.last:
            return tuple(boundaries[first:end])
        return (*boundaries[:end], *boundaries[first:])


def insert_barriers(kernel: PreparedKernel, root: Node) -> tuple[Node, bool]:
    """Insert the local barriers that a launch needs; tell whether there are no races.

    Raises :class:`MissingBarrierError` for a conflict between two work-groups: only a
    global barrier, which ends the launch, orders those. Raises :class:`WriteRaceError` for an
    instruction that no barrier can order with itself.
    """
    if not any(kernel.has_tag(name, ConcurrentTag) for name in kernel.inames):
        return root, True
    conflicts = Conflicts(kernel, insn_ids(root))
    if not conflicts.accesses:
        return root, True
    is_free = check_races(conflicts, insn_ids(root))
    if not any(kernel.has_tag(name, HARDWARE_AXES) for name in kernel.inames):
        return root, is_free
    inserter = _Inserter(kernel, conflicts)
    body = inserter.body(root, (), None)
    if inserter.missing:
        raise _missing_error(kernel, inserter.missing)
    return body, is_free


def _missing_error(
    kernel: PreparedKernel, missing: Mapping[MissingBarrier, Conflict]
) -> MissingBarrierError:
    """Return the error for dependencies between work-groups, the first of them with a point."""
    (one, conflict), *others = missing.items()
    also = "".join(f"\n  also: {other}" for other, _ in others)
    return MissingBarrierError(
        f"{kernel.name}: {one} requires synchronization by a global barrier (add a 'no_sync_with' "
        "instruction option to state that no synchronization is needed)\n"
        f"  at: {conflict.point}{also}\n"
        f"  hint: put '... gbarrier {{dep={one.first}}}' before "
        f"'{written_id(kernel, one.second)}'",
        missing,
    )


class _Inserter:
    def __init__(self, kernel: PreparedKernel, conflicts: Conflicts) -> None:
        self.kernel = kernel
        self.conflicts = conflicts
        #: dependencies between work-groups, with an example of each
        self.missing: dict[MissingBarrier, Conflict] = {}
        self.inside: tuple[str, ...] = ()  # the instructions of the current loop

    def body(self, node: Node, outer: tuple[str, ...], loop: str | None) -> Node:
        """Process a body: *outer* are the loops around it, *loop* the innermost of them."""
        original = node.children if isinstance(node, Sequence) else (node,)
        inside = (*outer, loop) if loop is not None else outer
        children = tuple(
            Loop(c.iname, self.body(c.body, inside, c.iname), c.kind, c.slabs)
            if isinstance(c, Loop)
            else c
            for c in original
        )
        parts = _opened(children)
        accesses = self._accesses([part.node for part in parts], inside)
        needs = self._spans(accesses, len(parts), inside, None)
        if loop is not None:
            self.inside = insn_ids(node)
            always = [need.reach for need in needs if need.memory is Memory.LOCAL]
            needs += self._spans(accesses, len(parts), outer, loop, always=max(always, default=0))
        present = [(k, p.node) for k, p in enumerate(parts) if isinstance(p.node, Barrier)]
        needs = [
            need
            for need in needs
            if not any(
                need.holds(k) and barrier.orders(need.memory, need.reach) for k, barrier in present
            )
        ]
        return sequence(_joined(parts, choose_barriers(needs, len(parts)), needs))

    def _accesses(self, nodes: Seq[Node], loops: tuple[str, ...]) -> dict[object, list[_Visit]]:
        """Collect the accesses to each storage, with the child in *loops* that makes them."""
        found: dict[object, list[_Visit]] = {}
        for k, node in enumerate(nodes):
            for insn_id, before, after in _barriers_around(node):
                for access in self.conflicts.accesses.get(insn_id, ()):
                    view = partial(self.conflicts.view, access, loops)
                    visit = _Visit(k, access, view, before, after)
                    found.setdefault(self.conflicts.storage(access), []).append(visit)
        return found

    def _spans(
        self,
        accesses: dict[object, list[_Visit]],
        count: int,
        equal: tuple[str, ...],
        ascending: str | None,
        *,
        always: int = 0,
    ) -> list[Span]:
        """Find needs between children; a need carried by a loop may go backwards.

        *always*: the reach of a barrier for local memory that the loop always has. It separates an
        access from those of later iterations that do not precede it in the body.
        """
        spans: dict[Span, None] = {}
        met: dict[tuple[int, int], int] = {}
        for visits in accesses.values():
            memory = Memory.of(self.kernel.array_vars[visits[0].access.array])
            apart: dict[_Kind, set[_Kind]] = {}
            none_conflict = cache(partial(self._none_conflict, visits, equal, ascending))
            for one, other in _pairs(visits, apart, carried=ascending is not None):
                place = (one.child, other.child)
                ordered = _reach_of(one.after | other.before, memory)
                if memory is Memory.LOCAL:
                    in_loop = always if one.child <= other.child else 0
                    ordered = max(ordered, met.get(place, 0), in_loop)
                    if ordered >= Reach.GROUP:
                        continue
                found = self.conflicts.between(one.access, other.access, equal, ascending)
                if found is None and none_conflict():
                    break
                if found is None or self.conflicts.is_race_of_one(found):
                    self._note_apart(one, other, equal, ascending, apart)
                    continue
                if found.reach is Reach.DEVICE:
                    pair = one.access.insn_id, other.access.insn_id
                    need = MissingBarrier(*pair, one.access.array, ascending)
                    self.missing.setdefault(need, found)
                elif found.reach > ordered:
                    span = self._span(found, one.child, other.child, count, ascending)
                    is_distant = self._are_distant(found, equal, ascending)
                    spans[replace(span, first=0, last=count - 1) if is_distant else span] = None
                    if memory is Memory.LOCAL and not is_distant:
                        met[place] = found.reach
        return list(spans)

    def _note_apart(
        self,
        one: _Visit,
        other: _Visit,
        equal: tuple[str, ...],
        ascending: str | None,
        apart: dict[_Kind, set[_Kind]],
    ) -> None:
        """Record that accesses of two kinds do not conflict, if this is so for all of these."""
        if self.conflicts.never_meet(one.access, other.access, equal, ascending):
            apart.setdefault(one.kind, set()).add(other.kind)

    def _are_distant(self, found: Conflict, equal: tuple[str, ...], loop: str | None) -> bool:
        """Tell whether any barrier in the loop is between two accesses of different iterations."""
        one, other = found.first, found.second
        return loop is not None and self.conflicts.are_distant(one, other, equal, loop, self.inside)

    def _none_conflict(
        self, visits: Seq[_Visit], equal: tuple[str, ...], ascending: str | None
    ) -> bool:
        """Tell whether all accesses are to one array and never conflict, by bounding boxes."""
        accesses = [visit.access for visit in visits]
        is_one = all(access.array == accesses[0].array for access in accesses)
        return is_one and self.conflicts.none_conflict(accesses, equal, ascending)

    def _span(self, conflict: Conflict, i: int, j: int, count: int, loop: str | None) -> Span:
        first, second = conflict.first, conflict.second
        memory = Memory.of(self.kernel.array_vars[first.array])
        depends = "depends" if loop is None else "rev-depends"
        reason = f"for {first.array} ({second.insn_id} {depends} on {first.insn_id})"
        if loop is None:
            return Span(i + 1, j, memory, reason, conflict.reach)
        # from after child i, around the end of the body, to before child j
        start, end = (0, j) if i + 1 >= count else (i + 1, j) if j < i + 1 else (0, count - 1)
        return Span(start, end, memory, reason, conflict.reach)


@dataclass(frozen=True)
class _Visit:
    """An access made by a child, and what barriers in the child order around it.

    These are barriers that run in each iteration of the loops around the access, so accesses
    outside the child need no barrier against it on that side.
    """

    child: int
    access: Access
    view: Callable[[], _Kind]
    before: _Order
    after: _Order

    @cached_property
    def kind(self) -> _Kind:
        """The footprint of the access; computed when it must be distinguished from others."""
        return self.view()


def _pairs(
    visits: Seq[_Visit], apart: dict[_Kind, set[_Kind]], *, carried: bool
) -> Iterator[tuple[_Visit, _Visit]]:
    """Yield two accesses, one of which writes; the second is in a later child, unless *carried*.

    Kinds that are found *apart* on the way are skipped.
    """
    if not carried and visits[0].child == visits[-1].child:
        return
    writes = [visit for visit in visits if visit.access.is_write]
    others_of = {True: visits, False: writes}
    kinds_of: dict[bool, set[_Kind]] = {}
    for one in visits:
        is_write = one.access.is_write
        if apart:
            if is_write not in kinds_of:
                kinds_of[is_write] = {visit.kind for visit in others_of[is_write]}
            if apart.get(one.kind, set()) >= kinds_of[is_write]:
                continue
        for other in others_of[is_write]:
            is_later = carried or other.child > one.child
            if is_later and not (apart and other.kind in apart.get(one.kind, ())):
                yield one, other


def _barriers_around(
    node: Node, before: _Order = _NONE, after: _Order = _NONE
) -> Iterator[tuple[str, _Order, _Order]]:
    """Yield each instruction, and what the barriers right before and after it order."""
    match node:
        case Run():
            for insn_id in node.insn_ids:
                yield insn_id, before, after
        case Loop() | Bind():
            yield from _barriers_around(node.body, before, after)
        case Sequence():
            kept = [
                frozenset({(c.memory, c.reach)}) if isinstance(c, Barrier) else _NONE
                for c in node.children
            ]
            earlier = accumulate(kept, or_, initial=before)
            later = [*accumulate(reversed(kept), or_, initial=after)][-2::-1]
            for child, *around in zip(node.children, earlier, later, strict=False):
                yield from _barriers_around(child, *around)


def _reach_of(order: _Order, memory: Memory) -> int:
    """Return between which work-items accesses to *memory* are ordered; 0 if between none."""
    return max((reach for kept, reach in order if memory in kept), default=0)


@dataclass(frozen=True)
class _Part:
    """A child, or one instruction of a block, which is child number *origin*."""

    origin: int
    node: Node


def _opened(children: tuple[Node, ...]) -> list[_Part]:
    """Split blocks, so that a barrier can be inserted between any two instructions."""
    parts: list[_Part] = []
    for origin, child in enumerate(children):
        if isinstance(child, Run):
            parts.extend(_Part(origin, Run((insn_id,))) for insn_id in child.insn_ids)
        else:
            parts.append(_Part(origin, child))
    return parts


def _joined(parts: Seq[_Part], chosen: Mapping[int, Reach], needs: Seq[Span]) -> tuple[Node, ...]:
    """Insert the barriers, and merge blocks again."""
    result: list[Node] = []
    last_origin = -1
    met_at: dict[int, list[Span]] = {k: [] for k in chosen}
    alone_at: dict[int, list[Span]] = {k: [] for k in chosen}
    for need in needs:
        held = [k for k in need.among(sorted(chosen)) if need.reach <= chosen[k]]
        for k in held:
            met_at[k].append(need)
        if len(held) == 1:
            alone_at[held[0]].append(need)
    for k, part in enumerate(parts):
        if k in met_at:
            met, alone = met_at[k], alone_at[k]
            memory = reduce(or_, (need.memory for need in met))
            nearest = min(alone or met, key=lambda need: (need.last - need.first) % len(parts))
            result.append(Barrier(memory, nearest.reason, reach=chosen[k]))
            last_origin = -1
        last = result[-1] if result else None
        if isinstance(part.node, Run) and isinstance(last, Run) and part.origin == last_origin:
            result[-1] = Run(last.insn_ids + part.node.insn_ids)
        else:
            result.append(part.node)
        last_origin = part.origin
    return tuple(result)


def choose_barriers(spans: Seq[Span], count: int) -> dict[int, Reach]:
    """Choose the fewest barriers of the group, and then the fewest barriers of warps."""
    of_group = choose_boundaries([span for span in spans if span.reach is Reach.GROUP], count)
    of_all = choose_boundaries(spans, count)
    if len(of_all) == len(of_group):
        return dict.fromkeys(of_all, Reach.GROUP)
    rest = [span for span in spans if not any(map(span.holds, of_group))]
    of_warps = choose_boundaries(rest, count)
    return dict.fromkeys(of_group, Reach.GROUP) | dict.fromkeys(of_warps, Reach.WARP)


def choose_boundaries(spans: Seq[Span], count: int) -> tuple[int, ...]:
    """Choose the fewest boundaries, each as late as possible, that satisfy all needs.

    Straight spans: the classic greedy sweep over right ends is optimal. With spans around
    the end of the body, every boundary of one of them is tried as the first choice, which
    cuts the circle open.
    """
    around = [span for span in spans if span.first > span.last]
    if not around:
        return _sweep(spans)
    best: tuple[int, ...] | None = None
    pivot = around[0]
    candidates = [*range(pivot.last, -1, -1), *range(count - 1, pivot.first - 1, -1)]
    for boundary in candidates:
        rest = [span for span in spans if not span.holds(boundary)]
        # remaining spans around the end do not contain the boundary: cut there
        shifted = [_rotated(span, boundary, count) for span in rest]
        chosen = sorted((boundary, *((k + boundary) % count for k in _sweep(shifted))))
        if best is None or len(chosen) < len(best):
            best = tuple(chosen)
    assert best is not None
    return best


def _rotated(span: Span, boundary: int, count: int) -> Span:
    first = (span.first - boundary) % count
    last = (span.last - boundary) % count
    return replace(span, first=first, last=last)


def _sweep(spans: Seq[Span]) -> tuple[int, ...]:
    chosen: list[int] = []
    for span in sorted(spans, key=lambda s: s.last):
        if not chosen or chosen[-1] < span.first:
            chosen.append(span.last)
    return tuple(chosen)
