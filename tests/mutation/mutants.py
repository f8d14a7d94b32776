"""Schedules with a barrier less, kernels with a dependency less."""

from __future__ import annotations

from collections.abc import Iterator

from kgen.ir.kernel import LoopKernel
from kgen.schedule.tree import (
    Barrier,
    Bind,
    HostLoop,
    Launch,
    Loop,
    Node,
    Run,
    Schedule,
    Sequence,
    sequence,
)


def without_barriers(schedule: Schedule) -> Iterator[tuple[str, Schedule]]:
    """Give the schedule without each of its barriers, and the reason of that barrier."""
    for number, launch in enumerate(schedule.launches):
        for reason, body in _mutants(launch.body):
            steps: list[Launch | HostLoop] = list(schedule.launches)
            steps[number] = Launch(launch.name, body, launch.barriers)
            yield reason, Schedule(tuple(steps))


def _mutants(node: Node) -> Iterator[tuple[str, Node]]:
    match node:
        case Loop():
            for reason, body in _mutants(node.body):
                yield reason, Loop(node.iname, body, node.kind, node.slabs)
        case Bind():
            for reason, body in _mutants(node.body):
                yield reason, Bind(node.axes, body)
        case Sequence():
            children = node.children
            for k, child in enumerate(children):
                before, after = children[:k], children[k + 1 :]
                if isinstance(child, Barrier):
                    yield child.reason, sequence((*before, *after))
                for reason, changed in _mutants(child):
                    yield reason, Sequence((*before, changed, *after))
        case Run() | Barrier():
            return


def without_dependencies(kernel: LoopKernel) -> Iterator[tuple[str, LoopKernel]]:
    """Give the kernel without each of its dependencies, and which one that is."""
    for number, insn in enumerate(kernel.instructions):
        for other in sorted(insn.depends_on):
            changed = list(kernel.instructions)
            changed[number] = insn.copy(depends_on=insn.depends_on - {other})
            yield f"{insn.id} after {other}", kernel.copy(instructions=tuple(changed))
