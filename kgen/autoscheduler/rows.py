"""Sums of rows on work-items: each row shared by several, or all entries distributed evenly."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kgen.autoscheduler.choices import next_power
from kgen.autoscheduler.machine import Machine
from kgen.autoscheduler.nests import Nest
from kgen.autoscheduler.stated import Stated
from kgen.autoscheduler.steps import Step, step
from kgen.errors import KgenError
from kgen.ir.kernel import LoopKernel
from kgen.transforms.reductions.balance import balance
from kgen.transforms.reductions.rows import find_rows
from kgen.transforms.storage.declarations import set_launch_bounds

__all__ = [
    "balanced_rows",
    "has_ascending_rows",
    "lanes_of_sums",
    "terms_at_once",
    "with_even_rows",
]

#: The number of work-items of a group; larger groups have a longer scan.
GROUP = 256
#: The percentage of local memory on CUDA; on an H200, groups of 256 and of 512 are within 1 % of
#: their fastest with it.
_SHARE = 60
#: The terms that a work-item adds up of a row whose length depends on data, if it has that many.
TERMS = 8
#: The assumed mean number of entries of such a row.
ENTRIES = 32
#: The terms in an iteration of such a sum. Pieces that begin at multiples of an even number would
#: let adjacent work-items read from few banks; they have one term more.
AT_ONCE = 4


def balanced_rows(
    machine: Machine, stated: Stated, nest: Nest, loops: Sequence[str]
) -> Iterator[Sequence[Step]]:
    """Yield the schedule in which work-items share the entries of rows, if their starts ascend."""
    if has_ascending_rows(stated, nest, loops):
        (row,), (k,) = loops, nest.inside
        size = min(machine.most_items, GROUP)
        yield with_even_rows(nest.given, f"{row}, {k}", size)


def with_even_rows(kernel: LoopKernel, rows: str, size: int) -> Sequence[Step]:
    """Return the steps with which work-items share entries; on CUDA, gathers get enough cache."""
    shared = step(balance, rows, group_size=size)
    if not kernel.target.is_compiled_by_nvcc:
        return (shared,)
    return (step(set_launch_bounds, local_memory_share=_SHARE), shared)


def has_ascending_rows(stated: Stated, nest: Nest, loops: Sequence[str]) -> bool:
    """Tell whether a nest adds up rows of entries, whose starts are stated to ascend."""
    if len(loops) != 1 or len(nest.inside) != 1 or not nest.is_data(nest.inside[0]):
        return False
    (row,), (k,) = loops, nest.inside
    try:
        rows = find_rows(nest.given, row, k, None)
    except KgenError:
        return False
    return rows.starts.aggregate.name in stated.ascending


def lanes_of_sums(machine: Machine, nest: Nest, loops: Sequence[str]) -> int:
    """Return how many work-items should sum up a row; 0 unless nests are sums of such rows.

    A contiguous row of known length is for a warp. If data determine the length, a work-item has
    about eight terms. Several sums of known lengths are for groups.
    """
    sums = nest.inside
    if not sums or not nest.has_free_sums:
        return 0
    reads = [a for a in nest.accesses if not a.is_write]
    reads = [a for a in reads if any(not nest.is_uniform(a, k) for k in nest.inner)]
    if any(nest.is_unit(a, n) for a in reads for n in loops):
        return 0
    if all(map(nest.is_data, sums)):
        terms = max(nest.means.get(k, ENTRIES) for k in sums)
        return min(machine.warp, next_power(-(-terms // TERMS)))
    is_along = any(nest.is_unit(a, k) for a in reads for k in sums)
    is_long = len(sums) == 1 and (nest.trips(sums[0]) or machine.warp) >= machine.warp
    return machine.warp if is_along and is_long and not nest.is_data(sums[0]) else 0


def terms_at_once(nest: Nest, k: str) -> int:
    """Return how many terms of a sum of rows a work-item should add in an iteration."""
    if not nest.is_data(k):
        return 1
    return AT_ONCE if nest.begins_at_zero(k) else AT_ONCE + 1
