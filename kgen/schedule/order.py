"""The order of instructions and loops: a topological sort in every body."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

from kgen.errors import DependencyCycleFound, ScheduleError
from kgen.ir.expr import variable_names
from kgen.ir.instruction import BarrierInstruction, InstructionBase
from kgen.ir.stages import PreparedKernel
from kgen.ir.tags import IlpBaseTag, LoopedIlpTag, TensorTag, UnrollTag, VectorizeTag
from kgen.ir.tree import Barrier
from kgen.ir.types import Memory
from kgen.schedule.lanes import is_fragment, is_simd
from kgen.schedule.nesting import LoopNesting
from kgen.schedule.tree import Loop, LoopKind, Node, Run, sequence


@dataclass
class _Body:
    """A loop body (or the whole kernel) under construction.

    An item is an instruction, by id, or the body of a loop directly inside.
    """

    iname: str | None
    depth: int
    items: dict[str, _Item] = field(default_factory=dict)


@dataclass
class _Item:
    key: str
    order: int
    priority: int
    body: _Body | None
    #: the items that it comes after, and which instruction depends on which
    after: dict[str, tuple[str, str]] = field(default_factory=dict)
    groups: frozenset[str] = frozenset()
    conflicts: frozenset[str] = frozenset()


@dataclass(frozen=True)
class GlobalBarrier:
    """A barrier of all work-items of the device: the launch ends."""

    insn_id: str


@dataclass(frozen=True)
class LaunchLoop:
    """A loop with global barriers inside, which the host runs."""

    iname: str
    children: tuple[Item, ...]


#: The contents of a body that the host may have to run.
Item: TypeAlias = Node | GlobalBarrier | LaunchLoop


def order_kernel(kernel: PreparedKernel, *, sequential_axes: bool) -> tuple[Item, ...]:
    """Put loops and instructions in order; return the children of the outermost body.

    A dependency acts within the loops that both instructions share. Ties are broken by priority of
    the instruction, then by program order. *sequential_axes*: hardware axes are loops too.

    Raises :class:`DependencyCycleFound`, :class:`ScheduleError`.
    """
    nesting = LoopNesting(kernel, sequential_axes)
    root = _Body(None, 0)
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
                body.items[f"for {iname}"] = _Item(f"for {iname}", position, insn.priority, inner)
            item = body.items[f"for {iname}"]
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
            None,
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
            first, first_body = dependency, home[dependency]
            second, second_body = str(insn.id), home[str(insn.id)]
            while first_body is not second_body:
                if first_body.depth >= second_body.depth:
                    assert first_body.iname is not None
                    first = f"for {first_body.iname}"
                    first_body = outside[first_body.iname]
                else:
                    assert second_body.iname is not None
                    second = f"for {second_body.iname}"
                    second_body = outside[second_body.iname]
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
    """Make the ordered nodes of a body, grouping consecutive similar instructions in blocks."""
    result: list[Item] = []
    block: list[InstructionBase] = []

    def flush() -> None:
        if block:
            result.append(Run(tuple(str(insn.id) for insn in block)))
            block.clear()

    items = body.items
    for item in _sorted(kernel, body) if len(items) > 1 else items.values():
        if item.body is not None:
            flush()
            inner = tuple(_children(kernel, item.body))
            result.append(_loop(kernel, item.body, inner))
            continue
        insn = kernel.id_to_insn[item.key]
        if isinstance(insn, BarrierInstruction):
            flush()
            if insn.synchronization_kind == "global":
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
    conditions = variable_names(*insn.sorted_predicates)
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
    assert body.iname is not None
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
    followers: dict[str, list[str]] = {}
    for key, item in items.items():
        for earlier in item.after:
            followers.setdefault(earlier, []).append(key)
    open_groups = _GroupCounts(items)
    heap = [_entry(item) for item in items.values() if not item.after]
    heapq.heapify(heap)
    result: list[_Item] = []
    blocked: list[tuple[int, int, str]] = []
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
        raise ScheduleError(
            f"instruction '{blocked[0][2]}' conflicts with a group that it has to interrupt",
            kernel=kernel.name,
            hint="remove the conflict, or the dependency on a part of the group",
        )
    if len(result) < len(items):
        raise _cycle(kernel, items, {item.key for item in result})
    return result


def _entry(item: _Item) -> tuple[int, int, str]:
    return (-item.priority, item.order, item.key)


class _GroupCounts:
    """The instruction groups that have started and not ended."""

    def __init__(self, items: dict[str, _Item]) -> None:
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


def _cycle(kernel: PreparedKernel, items: dict[str, _Item], done: set[str]) -> DependencyCycleFound:
    """Follow unscheduled prerequisites until an item repeats: a cycle."""
    key = min((key for key in items if key not in done), key=lambda k: items[k].order)
    path: list[str] = []
    while key not in path:
        path.append(key)
        key = min((k for k in items[key].after if k not in done), key=lambda k: items[k].order)
    cycle = [*path[path.index(key) :], key]
    names = [f"loop '{k[4:]}'" if items[k].body is not None else f"'{k}'" for k in cycle]
    edges = [(a, *items[a].after[b], b) for a, b in itertools.pairwise(cycle)]
    because = [
        f"{_described(kernel, items[a], one)} waits for {_described(kernel, items[b], other)}, "
        f"{_reason(kernel, one, other)}"
        for a, one, other, b in edges
    ]
    # what waits in a loop, although other instructions of it come first
    left = [
        (str(items[a].key[4:]), one)
        for (a, one, _, _), (_, _, other, _) in zip(edges, [edges[-1], *edges[:-1]], strict=True)
        if items[a].body is not None and one != other
    ]
    order = {insn_id: at for at, insn_id in enumerate(kernel.id_to_insn)}
    against = sorted(edges, key=lambda edge: order[edge[1]] - order[edge[2]])
    by_reading = [edge for edge in against if _reads_from(kernel, edge[1], edge[2])]
    _, one, other, _ = (by_reading or against)[0]
    hint = _suggested_fix(kernel, one, other, bool(by_reading))
    in_sequence = all(
        order[name] < order[insn_id] or _reads_from(kernel, insn_id, name)
        for _, insn_id, _, _ in edges
        for name in kernel.id_to_insn[insn_id].depends_on
    )
    if by_reading and in_sequence:
        hint += (
            "; or make_kernel(..., seq_dependencies=True), which runs the instructions in the "
            "order of the text"
        )
    if left:
        (iname, insn_id), *_ = left
        hint = (
            f"duplicate_inames(kernel, '{iname}', within='id:{insn_id}') gives '{insn_id}' a loop "
            f"of its own; or {hint}"
        )
    plain = [k for k in cycle[1:] if items[k].body is None]
    loops = [k[4:] for k in cycle[1:] if items[k].body is not None]
    if len(plain) == len(loops) == 1:
        inames = ":".join(sorted({*kernel.id_to_insn[plain[0]].within_inames, *loops}))
        hint = (
            f"if '{plain[0]}' is for each iteration of '{loops[0]}', say so: "
            f"{{inames={inames}}}, or 'for {loops[0]} ... end' around it; or {hint}"
        )
    rule = "a loop waits for all that one of its instructions waits for" if left else None
    return DependencyCycleFound(
        "the dependencies form a cycle: " + " waits for ".join(names),
        kernel=kernel.name,
        because="; ".join(filter(None, (*because, rule))),
        hint=hint,
    )


def _reads_from(kernel: PreparedKernel, insn_id: str, other: str) -> list[str]:
    """Return the variables of which an instruction depends on their only writer."""
    insn, writes = kernel.id_to_insn[insn_id], kernel.id_to_insn[other].assignee_var_names()
    if insn.depends_on_is_final:
        return []
    names = insn.read_dependency_names().intersection(writes)
    return sorted(name for name in names if kernel.writers[name] == (other,))


def _reason(kernel: PreparedKernel, insn_id: str, other: str) -> str:
    """Return why an instruction depends on another one."""
    read = _reads_from(kernel, insn_id, other)
    return f"the only writer of '{read[0]}', which it reads" if read else f"by its dep={other}"


def _suggested_fix(kernel: PreparedKernel, insn_id: str, other: str, is_read: bool) -> str:
    """Return how to remove the dependency of an instruction on another one."""
    if not is_read:
        return f"remove dep={other} from '{insn_id}', or another one of these dependencies"
    kept = ":".join(sorted(kernel.id_to_insn[insn_id].depends_on - {other}))
    return (
        f"write {{dep=*{kept}}} on '{insn_id}', which then reads what stands there before "
        f"'{other}' runs"
    )


def _described(kernel: PreparedKernel, item: _Item, insn_id: str) -> str:
    """Name an instruction, whether it is a barrier, and the loop of its item."""
    insn = kernel.id_to_insn[insn_id]
    text = f"'{insn_id}'"
    if isinstance(insn, BarrierInstruction):
        text = f"the {insn.synchronization_kind} barrier {text}"
    return text if item.body is None else f"{text} in loop '{item.key[4:]}'"
