"""loopy.schedule.tools: questions about an order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kgen.compat.renamed import refuser
from kgen.ir.linearization import (
    CallKernel,
    EnterLoop,
    LeaveLoop,
    ReturnFromKernel,
    ScheduleItem,
)

__all__ = ["get_block_boundaries"]

__getattr__ = refuser("linearize(kernel) gives the order as a list")


def get_block_boundaries(schedule: Sequence[ScheduleItem]) -> Mapping[int, int]:
    """Return where launches and loops that begin at an index end, and the other way round.

    >>> get_block_boundaries([CallKernel("f"), EnterLoop("i"), LeaveLoop("i"),
    ...     ReturnFromKernel("f")])
    {1: 2, 2: 1, 0: 3, 3: 0}
    """
    found: dict[int, int] = {}
    open_blocks: list[int] = []
    for index, item in enumerate(schedule):
        if isinstance(item, CallKernel | EnterLoop):
            open_blocks.append(index)
        elif isinstance(item, ReturnFromKernel | LeaveLoop):
            first = open_blocks.pop()
            found[first], found[index] = index, first
    return found
