"""The host part of a schedule as a code tree, whose statements are launches."""

from __future__ import annotations

from kgen.ast.build import nest_code
from kgen.ast.nodes import Block, Node, Run
from kgen.errors import ScheduleError
from kgen.ir.data import ValueArg
from kgen.ir.grid import grid_of
from kgen.ir.instruction import NoOpInstruction
from kgen.ir.sets.dims import involved_params
from kgen.ir.sets.text import parse_assumptions
from kgen.ir.stages import DeviceKernel, PreparedKernel
from kgen.schedule.tree import HostLoop, Loop, Schedule, Step, sequence
from kgen.schedule.tree import Node as ScheduleNode
from kgen.schedule.tree import Run as ScheduleRun

__all__ = ["build_host"]


def build_host(kernel: PreparedKernel, schedule: Schedule) -> Node:
    """Turn host loops and launches into a code tree; a launch is a run of its name.

    Raises :class:`ScheduleError` for a loop whose bounds are only known on the device.
    """
    if not schedule.host_inames:
        runs: list[Node] = [Run(launch.name, {}) for launch in schedule.launches]
        return runs[0] if len(runs) == 1 else Block(tuple(runs))
    launches: list[NoOpInstruction] = []
    nodes = [_to_node(step, frozenset(), launches) for step in schedule.steps]
    host = DeviceKernel(PreparedKernel(kernel.copy(instructions=tuple(launches))))
    _check_bounds(kernel, schedule.host_inames)
    known = parse_assumptions(None)
    return nest_code(host, grid_of(host, ()), sequence(tuple(nodes)), known, {})


def _to_node(step: Step, outer: frozenset[str], launches: list[NoOpInstruction]) -> ScheduleNode:
    """Return the loops around launches, and record each launch as an instruction."""
    if isinstance(step, HostLoop):
        inner = outer | {step.iname}
        children = [_to_node(child, inner, launches) for child in step.steps]
        return Loop(step.iname, sequence(tuple(children)))
    launches.append(NoOpInstruction(id=step.name, within_inames=outer))
    return ScheduleRun((step.name,))


def _check_bounds(kernel: PreparedKernel, host_inames: frozenset[str]) -> None:
    for iname in sorted(host_inames):
        for name in involved_params(kernel.domain_of((iname,))):
            if not isinstance(kernel.arg_dict.get(name), ValueArg):
                raise ScheduleError(
                    f"loop '{iname}' has a global barrier inside, and its bounds depend on "
                    f"'{name}', which is only known on the device",
                    because="a global barrier ends a launch, so the host runs the loop",
                    hint=f"pass '{name}' as an argument, or move the barrier out of the loop",
                )
