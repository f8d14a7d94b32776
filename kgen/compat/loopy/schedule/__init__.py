"""loopy.schedule: the linearization of a kernel as a flat list."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from kgen.compat.loopy.schedule import tools, tree
from kgen.compat.renamed import warn_once
from kgen.ir.kernel import LoopKernel
from kgen.ir.linearization import (
    Barrier,
    CallKernel,
    EnterLoop,
    LeaveLoop,
    ReturnFromKernel,
    RunInstruction,
    ScheduleItem,
)
from kgen.launches.linearize import get_one_linearized_kernel, linearize
from kgen.launches.linearize import get_one_linearized_kernel as get_one_scheduled_kernel

__all__ = [
    "Barrier",
    "BeginBlockItem",
    "CallKernel",
    "EndBlockItem",
    "EnterLoop",
    "LeaveLoop",
    "ReturnFromKernel",
    "RunInstruction",
    "ScheduleItem",
    "generate_loop_schedules",
    "get_one_linearized_kernel",
    "get_one_scheduled_kernel",
    "linearize",
    "tools",
    "tree",
]

#: The items that begin and end launches and loops, for ``isinstance``.
BeginBlockItem: TypeAlias = CallKernel | EnterLoop
EndBlockItem: TypeAlias = ReturnFromKernel | LeaveLoop


def generate_loop_schedules(
    kernel: LoopKernel,
    callables_table: Mapping[str, Any] | None = None,
    debug_args: Mapping[str, Any] | None = None,
) -> Iterator[LoopKernel]:
    """Yield the kernel in the one order that kgen finds for it; *debug_args* changes nothing."""
    warn_once("generate_loop_schedules", "get_one_linearized_kernel")
    yield get_one_linearized_kernel(kernel, callables_table)
