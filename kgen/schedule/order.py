"""The order of instructions and loops: a topological sort in every body."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field
from typing import TypeAlias

from kgen.errors import DependencyCycleFound, ScheduleError
from kgen.ir.expr import variable_names
from kgen.ir.instruction import BarrierInstruction, InstructionBase
from kgen.ir.stages import PreparedKernel
from kgen.ir.tags import IlpBaseTag, LoopedIlpTag, TensorTag, UnrollTag, VectorizeTag
from kgen.ir.tree import Barrier
from kgen.ir.types import Memory
from kgen.schedule.cycles import Wait, cycle_error
from kgen.schedule.lanes import is_fragment, is_simd
from kgen.schedule.nesting import LoopNesting
from kgen.schedule.tree import Loop, LoopKind, Node, Run, sequence


@dataclass(eq=False)
class _Body:
    """A loop body, or the whole kernel, during construction.

    An item is an instruction, by id, or the body of a loop directly inside.
    """

    iname: str
    depth: int
    items: dict[_Key, _Item] = field(default_factory=dict)


_Key: TypeAlias = str | _Body


@dataclass
class _Item:
    key: _Key
    order: int
    priority: int
    #: the items that must precede it, each with the pair of instructions that requires this
    after: dict[_Key, tuple[str, str]] = field(default_factory=dict)
    groups: frozenset[str] = frozenset()
    conflicts: frozenset[str] = frozenset()

    @property
    def loop(self) -> str | None:
        """The loop variable, if the item is a loop."""
        return None if isinstance(self.key, str) else self.key.iname


@dataclass(frozen=True)
class GlobalBarrier:
    """A point where all work-items of the device synchronize: the launch ends."""

    insn_id: str


@dataclass(frozen=True)
class LaunchLoop:
    """A loop that contains global barriers and therefore runs on the host."""

    iname: str
    children: tuple[Item, ...]


#: An element of a body that the host may have to run.
Item: TypeAlias = Node | GlobalBarrier | LaunchLoop


def order_kernel(kernel: PreparedKernel, *, sequential_axes: bool) -> tuple[Item, ...]:
    """Order loops and instructions; return the children of the outermost body.

    A dependency acts inside the loops that both instructions share. Ties are broken by the
    instructions' priority, then by program order. With *sequential_axes*, hardware axes are
    loops, too.

    Raises :class:`DependencyCycleFound`, :class:`ScheduleError`.
    """
    nesting = LoopNesting(kernel, sequential_axes)
    root = _Body("", 0)
    home: dict[str, _Body] = {}
    bodies: dict[str, _Body] = {}
    outside: dict[str, _Body] = {}  # of each loop
    for position, insn in enumerate(kernel.instructions):
        body = root
        for iname in nesting.loops_around(insn):
            inner = bodies.get(iname)
            if inner is None:
                inner = bodies[iname] = _Body(iname, body.depth + 1)
                outside[iname] = body
                body.items[inner] = _Item(inner, position, insn.priority)
            item = body.items[inner]
            item.priority = max(item.priority, insn.priority)
            if insn.groups or insn.conflicts_with_groups:
                item.groups |= insn.groups
                item.conflicts |= insn.conflicts_with_groups
            body = inner
        insn_id = str(insn.id)
        home[insn_id] = body
        body.items[insn_id] = _Item(
            insn_id,
            position,
            insn.priority,
            groups=insn.groups,
            conflicts=insn.conflicts_with_groups,
        )
    nesting.warn_of_strides()
    _connect(kernel, home, outside)
    return tuple(_children(kernel, root))


def _connect(kernel: PreparedKernel, home: dict[str, _Body], outside: dict[str, _Body]) -> None:
    for insn in kernel.instructions:
        for dependency in sorted(insn.depends_on):
            if dependency not in home:
                raise ScheduleError(
                    f"instruction '{insn.id}' depends on '{dependency}', which does not exist",
                    kernel=kernel.name,
                    hint="remove the dependency, or give the id of an instruction",
                )
            first: _Key = dependency
            second: _Key = str(insn.id)
            first_body, second_body = home[dependency], home[str(insn.id)]
            while first_body is not second_body:
                if first_body.depth >= second_body.depth:
                    first, first_body = first_body, outside[first_body.iname]
                else:
                    second, second_body = second_body, outside[second_body.iname]
            if first != second:
                waits = (str(insn.id), dependency)
                second_body.items[second].after.setdefault(first, waits)
            elif dependency == insn.id:
                raise DependencyCycleFound(
                    f"instruction '{insn.id}' depends on itself",
                    kernel=kernel.name,
                    where=f"instruction '{insn}'",
                    hint=f"remove dep={insn.id} from it",
                )


def _children(kernel: PreparedKernel, body: _Body) -> Iterable[Item]:
    """Return the ordered nodes of a body, with consecutive similar instructions in one block."""
    result: list[Item] = []
    block: list[InstructionBase] = []

    def flush() -> None:
        if block:
            result.append(Run(tuple(str(insn.id) for insn in block)))
            block.clear()

    items = body.items
    for item in _sorted(kernel, body) if len(items) > 1 else items.values():
        if isinstance(item.key, _Body):
            flush()
            inner = tuple(_children(kernel, item.key))
            result.append(_loop(kernel, item.key, inner))
            continue
        insn = kernel.id_to_insn[item.key]
        if isinstance(insn, BarrierInstruction):
            flush()
            if insn.is_global_barrier:
                result.append(GlobalBarrier(item.key))
            else:
                memory = Memory[insn.mem_kind.upper()]
                result.append(Barrier(memory, f"requested by '{insn.id}'", insn.id))
            continue
        if block and (
            insn.within_inames != block[-1].within_inames
            or insn.predicates != block[-1].predicates
            or _reads_own_condition(block, insn)
        ):
            flush()
        innermost = [
            name
            for name in insn.within_inames
            if kernel.has_tag(name, (IlpBaseTag, VectorizeTag, TensorTag))
        ]
        if innermost:
            flush()
            innermost.sort(
                key=lambda n: (is_simd(kernel, n), is_fragment(kernel, n), kernel.iname_order[n])
            )
            result.append(_interleaved(kernel, insn, innermost))
        else:
            block.append(insn)
    flush()
    return result


def _reads_own_condition(block: list[InstructionBase], insn: InstructionBase) -> bool:
    """Tell whether the block changes a variable that the shared predicate reads."""
    if not insn.predicates:
        return False
    conditions = variable_names(*insn.predicates)
    return any(name in conditions for other in block for name in other.assignee_var_names())


def _interleaved(kernel: PreparedKernel, insn: InstructionBase, inames: list[str]) -> Node:
    node: Node = Run((str(insn.id),))
    for iname in reversed(inames):
        node = Loop(iname, node, _kind_of(kernel, iname))
    return node


def _kind_of(kernel: PreparedKernel, iname: str) -> LoopKind:
    if is_simd(kernel, iname):
        return LoopKind.SIMD
    return LoopKind.LOOP if kernel.has_tag(iname, LoopedIlpTag) else LoopKind.UNROLL


def _loop(kernel: PreparedKernel, body: _Body, inner: tuple[Item, ...]) -> Loop | LaunchLoop:
    nodes = [child for child in inner if not isinstance(child, GlobalBarrier | LaunchLoop)]
    if len(nodes) < len(inner):
        return LaunchLoop(body.iname, inner)
    unrolled = kernel.has_tag(body.iname, UnrollTag)
    return Loop(
        body.iname,
        sequence(tuple(nodes)),
        LoopKind.UNROLL if unrolled else LoopKind.LOOP,
        kernel.iname_slab_increments.get(body.iname, (0, 0)),
    )


def _sorted(kernel: PreparedKernel, body: _Body) -> list[_Item]:
    """Sort the items of a body topologically: Kahn's algorithm with a heap."""
    items = body.items
    waiting = {key: len(item.after) for key, item in items.items()}
    followers: dict[_Key, list[_Key]] = {}
    for key, item in items.items():
        for earlier in item.after:
            followers.setdefault(earlier, []).append(key)
    open_groups = _GroupCounts(items)
    heap = [_entry(item) for item in items.values() if not item.after]
    heapq.heapify(heap)
    result: list[_Item] = []
    blocked: list[tuple[int, int, _Key]] = []
    while heap:
        entry = heapq.heappop(heap)
        item = items[entry[2]]
        if open_groups.blocks(item):
            blocked.append(entry)
            continue
        result.append(item)
        open_groups.done(item)
        for key in followers.get(item.key, ()):
            waiting[key] -= 1
            if not waiting[key]:
                heapq.heappush(heap, _entry(items[key]))
        for entry in blocked:
            heapq.heappush(heap, entry)
        blocked.clear()
    if blocked:
        item = items[blocked[0][2]]
        what = f"instruction '{item.key}'" if item.loop is None else f"loop '{item.loop}'"
        raise ScheduleError(
            f"{what} conflicts with a group that it has to interrupt",
            kernel=kernel.name,
            hint="remove the conflict, or the dependency on a part of the group",
        )
    if len(result) < len(items):
        raise cycle_error(kernel, _cycle(items, {item.key for item in result}))
    return result


def _entry(item: _Item) -> tuple[int, int, _Key]:
    return (-item.priority, item.order, item.key)


class _GroupCounts:
    """Tracks the instruction groups that have begun but not ended."""

    def __init__(self, items: Mapping[_Key, _Item]) -> None:
        self.total: dict[str, int] = {}
        for item in items.values():
            for group in item.groups:
                self.total[group] = self.total.get(group, 0) + 1
        self.seen: dict[str, int] = {}

    def blocks(self, item: _Item) -> bool:
        return any(
            0 < self.seen.get(group, 0) < self.total.get(group, 0)
            for group in item.conflicts - item.groups
        )

    def done(self, item: _Item) -> None:
        for group in item.groups:
            self.seen[group] = self.seen.get(group, 0) + 1


def _cycle(items: Mapping[_Key, _Item], done: Set[_Key]) -> list[Wait]:
    """Follow unscheduled prerequisites until an item repeats: a cycle."""
    key = min((key for key in items if key not in done), key=lambda k: items[k].order)
    path: list[_Key] = []
    while key not in path:
        path.append(key)
        key = min((k for k in items[key].after if k not in done), key=lambda k: items[k].order)
    cycle = [*path[path.index(key) :], key]
    return [
        Wait(*items[first].after[then], items[first].loop, items[then].loop)
        for first, then in itertools.pairwise(cycle)
    ]
