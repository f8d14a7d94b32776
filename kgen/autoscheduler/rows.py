"""Schedules for rows whose starts ascend: entries are distributed evenly, for any lengths."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kgen.autoscheduler.machine import Machine
from kgen.autoscheduler.nests import Nest
from kgen.autoscheduler.stated import Stated
from kgen.autoscheduler.steps import Step, step
from kgen.errors import KgenError
from kgen.transforms.reductions.balance import balance
from kgen.transforms.reductions.rows import find_rows

__all__ = ["balanced_rows"]

#: The number of work-items of a group; larger groups have a longer scan.
GROUP = 256


def balanced_rows(
    machine: Machine, stated: Stated, nest: Nest, loops: Sequence[str]
) -> Iterator[Sequence[Step]]:
    """Yield the schedule in which work-items share the entries of rows, if their starts ascend."""
    if len(loops) != 1 or len(nest.inside) != 1 or not nest.is_data(nest.inside[0]):
        return
    (row,), (k,) = loops, nest.inside
    try:
        rows = find_rows(nest.given, row, k, None)
    except KgenError:
        return
    if rows.starts.aggregate.name in stated.ascending:
        size = min(machine.most_items, GROUP)
        yield (step(balance, f"{row}, {k}", group_size=size),)
