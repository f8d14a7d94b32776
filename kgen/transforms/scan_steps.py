"""Scans as instructions: along loops, work-items, and work-groups."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pymbolic.primitives as p

from kgen.analysis.prefixes import lane_domain
from kgen.ir.expr import Expr, Reduction
from kgen.transforms.scan import Scan
from kgen.transforms.scan_groups import totals_before
from kgen.transforms.scan_lanes import LaneScan
from kgen.transforms.scan_pieces import Steps

if TYPE_CHECKING:
    from kgen.transforms.reduction_context import Context
    from kgen.transforms.reduction_realizer import Realizer

__all__ = ["accumulate_scan"]


def accumulate_scan(
    realizer: Realizer, reduction: Reduction, scan: Scan, context: Context
) -> tuple[Expr, ...]:
    """Append the instructions that compute a scan; return what holds its values.

    Along plain loops that is an accumulator which is set before the outermost one. Work-items
    combine what is new at their steps in local memory. Work-groups have the totals of those
    before them computed first.
    """
    steps = Steps(realizer, reduction, scan, context)
    start = steps.neutral
    if scan.groups:
        context, start = totals_before(steps, context)
    if scan.lane is not None:
        return _accumulate_in_lanes(steps, scan.lane, context, start)
    values, waits = steps.accumulators(steps.before_loops(context, scan.turns), start)
    waits = steps.add_new(context, {}, values, waits)
    realizer.loops.nest(scan.turns)
    context.updates.extend(waits)
    return tuple(values)


def _accumulate_in_lanes(
    steps: Steps, own_lane: str, context: Context, start: tuple[Expr, ...]
) -> tuple[Expr, ...]:
    """Scan with a loop over lanes of its own, all of which run at every step.

    Lanes that have no step combine nothing.
    """
    scan, realizer = steps.scan, steps.realizer
    assert scan.lanes is not None
    first, last = scan.lanes
    names = realizer.loops.add((own_lane,), lane_domain(own_lane, first, last))
    lane = names[own_lane]
    realizer.types[lane] = realizer.kernel.index_dtype
    outside = steps.before_loops(context, scan.items)
    inner = dataclasses.replace(outside, within=outside.within - {own_lane} | {lane}, updates=[])
    carry: list[p.Variable] = []
    starts: list[str] = []
    if scan.groups or scan.turns:
        carry, starts = steps.accumulators(steps.before_loops(inner, scan.turns), start)
    if scan.turns:
        realizer.loops.nest(scan.turns)
    values, waits = steps.accumulators(inner, steps.neutral)
    items = steps.copy_loops(scan.items, names)
    adding = dataclasses.replace(inner, within=inner.within.union(items.values()))
    waits = steps.add_new(adding, {**names, **items}, values, waits)
    lanes = LaneScan(steps, first, last - first + 1)
    waits = lanes.across(inner, lane, values, waits)
    place = p.Variable(own_lane)
    if scan.items:
        before = lanes.before(place, carry or steps.neutral, is_neutral=not carry)
        found, reads = steps.accumulators(outside, before, [*waits, *starts])
        realizer.loops.nest(scan.items)
        updates = steps.add_new(context, {}, found, reads)
    elif carry:
        before = list(steps.combine(carry, lanes.at(place)))
        found, reads = steps.accumulators(context, before, [*waits, *starts])
        updates = reads
    else:
        context.updates.extend(waits)
        return tuple(lanes.at(place))
    if scan.turns:
        totals = [realizer.temporary(f"total_{steps.suffix}", dtype) for dtype in steps.dtypes]
        waits = [*waits, *starts, *reads]
        for places, new in ((totals, steps.combine(carry, lanes.total)), (carry, tuple(totals))):
            waits = steps.assign(inner, places, new, waits, f"{steps.suffix}_carry")
    context.updates.extend(updates)
    return tuple(found)
