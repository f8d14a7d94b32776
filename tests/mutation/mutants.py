"""Schedules with a barrier less; kernels with a dependency less, moved code, other subscripts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import pymbolic.primitives as p

from kgen.ir.expr import IdentityMapper, walk
from kgen.ir.instruction import Assignment
from kgen.ir.kernel import LoopKernel
from kgen.ir.tree import Barrier
from kgen.ir.types import Reach
from kgen.schedule.tree import Bind, HostLoop, Launch, Loop, Node, Run, Schedule, Sequence, sequence


def without_barriers(schedule: Schedule) -> Iterator[tuple[str, Schedule]]:
    """Give the schedule without each of its barriers, and the reason of that barrier."""
    return _with_bodies(schedule, _mutants)


def with_weak_barriers(schedule: Schedule) -> Iterator[tuple[str, Schedule]]:
    """Give the schedule with each barrier as one of warps."""
    return _with_bodies(schedule, partial(_mutants, is_weak=True))


def with_moved_barriers(schedule: Schedule) -> Iterator[tuple[str, Schedule]]:
    """Give the schedule with each barrier moved out of a loop, or into one that follows it."""
    return _with_bodies(schedule, _moved_barriers)


def _with_bodies(
    schedule: Schedule, mutants: Callable[[Node], Iterator[tuple[str, Node]]]
) -> Iterator[tuple[str, Schedule]]:
    """Give the schedule with each of the *mutants* of the body of one launch."""
    for number, launch in enumerate(schedule.launches):
        for reason, body in mutants(launch.body):
            steps: list[Launch | HostLoop] = list(schedule.launches)
            steps[number] = Launch(launch.name, body, launch.barriers)
            yield reason, Schedule(tuple(steps))


def _mutants(node: Node, *, is_weak: bool = False) -> Iterator[tuple[str, Node]]:
    match node:
        case Loop() | Bind():
            for reason, body in _mutants(node.body, is_weak=is_weak):
                yield reason, replace(node, body=body)
        case Sequence():
            children = node.children
            for k, child in enumerate(children):
                before, after = children[:k], children[k + 1 :]
                if isinstance(child, Barrier) and not (is_weak and child.reach is Reach.WARP):
                    weak = (replace(child, reach=Reach.WARP),) if is_weak else ()
                    yield child.reason, sequence((*before, *weak, *after))
                for reason, changed in _mutants(child, is_weak=is_weak):
                    yield reason, Sequence((*before, changed, *after))
        case Run() | Barrier():
            return


def _moved_barriers(node: Node) -> Iterator[tuple[str, Node]]:
    match node:
        case Loop(body=Sequence(children=children)):
            for k, child in enumerate(children):
                if isinstance(child, Barrier):
                    inside = sequence((*children[:k], *children[k + 1 :]))
                    yield child.reason, Sequence((child, Loop(node.iname, inside, node.kind)))
        case Bind():
            for reason, body in _moved_barriers(node.body):
                yield reason, Bind(node.axes, body)
        case Sequence(children=children):
            for k, child in enumerate(children):
                for reason, changed in _moved_barriers(child):
                    yield reason, Sequence((*children[:k], changed, *children[k + 1 :]))
                after = children[k + 1] if k + 1 < len(children) else None
                if isinstance(child, Barrier) and isinstance(after, Loop):
                    loop = Loop(after.iname, Sequence((child, after.body)), after.kind)
                    yield child.reason, sequence((*children[:k], loop, *children[k + 2 :]))


def without_dependencies(kernel: LoopKernel) -> Iterator[tuple[str, LoopKernel]]:
    """Give the kernel without each of its dependencies, and which one that is."""
    for number, insn in enumerate(kernel.instructions):
        for other in sorted(insn.depends_on):
            changed = list(kernel.instructions)
            changed[number] = insn.copy(depends_on=insn.depends_on - {other})
            yield f"{insn.id} after {other}", kernel.copy(instructions=tuple(changed))


def moved(kernel: LoopKernel) -> Iterator[tuple[str, LoopKernel]]:
    """Give the kernel with each instruction moved out of, or into, one loop."""
    for number, insn in enumerate(kernel.instructions):
        own = set(insn.assignee_subscript_deps()[0]) if insn.assignees else set()
        used = own.union(insn.read_dependency_names(), insn.reduction_inames())
        for name in sorted(
            insn.within_inames - kernel.with_outer_inames(frozenset(used & kernel.inames.keys()))
        ):
            around = insn.within_inames - {name}
            yield f"{insn.id} out of {name}", _with(kernel, number, within_inames=around)
        nearby = {name for other in kernel.instructions for name in other.within_inames}
        for name in sorted(nearby - insn.within_inames - insn.reduction_inames()):
            around = insn.within_inames | {name}
            yield f"{insn.id} into {name}", _with(kernel, number, within_inames=around)


def shifted(kernel: LoopKernel) -> Iterator[tuple[str, LoopKernel]]:
    """Give the kernel with each subscript that is read one further, or nearer."""
    for number, insn in enumerate(kernel.instructions):
        if not isinstance(insn, Assignment):
            continue
        reads = dict.fromkeys(n for n in walk(insn.expression) if isinstance(n, p.Subscript))
        for read in reads:
            for axis in range(len(read.index_tuple)):
                for step in (1, -1):
                    parts: list[Any] = [*read.index_tuple]
                    parts[axis] = p.Sum((parts[axis], step))
                    other = p.Subscript(read.aggregate, tuple(parts))
                    value = _Replacer(read, other)(insn.expression)
                    yield f"{insn.id} reads {other}", _with(kernel, number, expression=value)


def resized(kernel: LoopKernel) -> Iterator[tuple[str, LoopKernel]]:
    """Give the kernel with each bound of its loops one further, or nearer."""
    for number, domain in enumerate(kernel.domains):
        rows = domain.get_constraints()
        for at, row in enumerate(rows):
            for step in (1, -1):
                moved_row = row.set_constant_val(row.get_constant_val() + step)
                domains = list(kernel.domains)
                domains[number] = type(domain).universe(domain.get_space())
                for one in (*rows[:at], moved_row, *rows[at + 1 :]):
                    domains[number] = domains[number].add_constraint(one)
                yield f"{domain}: {moved_row}", kernel.copy(domains=tuple(domains))


class _Replacer(IdentityMapper):
    """Puts one expression in the place of another."""

    def __init__(self, old: p.Subscript, new: p.Subscript) -> None:
        super().__init__()
        self.old = old
        self.new = new

    def map_subscript(self, expr: p.Subscript, *args: Any) -> Any:
        return self.new if expr == self.old else super().map_subscript(expr, *args)


def _with(kernel: LoopKernel, number: int, **changes: Any) -> LoopKernel:
    changed = list(kernel.instructions)
    changed[number] = changed[number].copy(**changes)
    return kernel.copy(instructions=tuple(changed))
