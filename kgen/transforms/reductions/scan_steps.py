"""Scans as instructions: along loops, work-items, and work-groups."""

from __future__ import annotations

from typing import Any

import pymbolic.primitives as p

from kgen.analysis.prefixes import lane_domain
from kgen.ir.expr import Expr, Reduction
from kgen.transforms.reductions.builder import Accumulated, AccumulatorBuilder
from kgen.transforms.reductions.look_back import look_back, looks_back
from kgen.transforms.reductions.scan import Scan
from kgen.transforms.reductions.scan_groups import totals_before
from kgen.transforms.reductions.scan_lanes import LaneScan
from kgen.transforms.reductions.scan_pieces import Steps
from kgen.transforms.reductions.site import Site

__all__ = ["accumulate_scan"]


def accumulate_scan(
    builder: AccumulatorBuilder, reduction: Reduction, scan: Scan, site: Site
) -> Accumulated:
    """Append the instructions that compute a scan; return the variables of its values.

    Along plain loops, the result is an accumulator that is set before the outermost one. Work-items
    combine the new elements of their steps in local memory. For work-groups, the totals of
    preceding groups are computed first, or each looks back at the totals that these have published.
    """
    steps = Steps(builder, reduction, scan, site)
    start = steps.neutral
    if scan.groups:
        if scan.lane is not None and not scan.turns and looks_back(steps):
            return _accumulate_in_lanes(steps, scan.lane, site, None)
        site, start = totals_before(steps, site)
    if scan.lane is not None:
        return _accumulate_in_lanes(steps, scan.lane, site, start)
    values, waits = steps.accumulators(steps.before_loops(site, scan.turns), start)
    waits = steps.add_new(site, {}, values, waits)
    builder.loops.run_in_order((*scan.turns, *scan.items))
    builder.loops.nest(scan.turns)
    return Accumulated(tuple(values), tuple(waits))


def _accumulate_in_lanes(
    steps: Steps, own_lane: str, site: Site, start: tuple[Expr, ...] | None
) -> Accumulated:
    """Scan with a separate loop over lanes, all of which run at every step.

    Lanes that have no step combine the neutral element. Without a *start*, the group looks back for
    it when it knows its own total.
    """
    scan, builder = steps.scan, steps.builder
    assert scan.lanes is not None
    first, last = scan.lanes
    names = builder.loops.add((own_lane,), lane_domain(own_lane, first, last))
    lane = names[own_lane]
    outside = steps.before_loops(site, scan.items)
    inner = outside.outside([own_lane]).inside([lane])
    carry: list[Any] = []
    starts: list[str] = []
    if start is not None and (scan.groups or scan.turns):
        carry, starts = steps.accumulators(steps.before_loops(inner, scan.turns), start)
    if scan.turns:
        builder.loops.nest(scan.turns)
    values, waits = steps.accumulators(inner, steps.neutral)
    items = steps.copy_loops(scan.items, names)
    adding = inner.inside(items.values())
    waits = steps.add_new(adding, {**names, **items}, values, waits)
    lanes = LaneScan(steps, first, last - first + 1)
    waits = lanes.across(inner, lane, values, waits)
    if start is None:
        carry, starts = look_back(steps, outside.outside([own_lane]), lanes.total, waits)
    place = p.Variable(own_lane)
    if scan.items:
        before = lanes.before(place, carry or steps.neutral, is_neutral=not carry)
        found, reads = steps.accumulators(outside, before, [*waits, *starts])
        builder.loops.nest(scan.items)
        updates = steps.add_new(site, {}, found, reads)
    elif carry:
        before = list(steps.combine(carry, lanes.at(place)))
        found, reads = steps.accumulators(site, before, [*waits, *starts])
        updates = reads
    else:
        return Accumulated(tuple(lanes.at(place)), tuple(waits))
    if scan.turns:
        totals = [builder.temporary(f"total_{steps.suffix}", dtype) for dtype in steps.dtypes]
        waits = [*waits, *starts, *reads]
        for places, new in ((totals, steps.combine(carry, lanes.total)), (carry, tuple(totals))):
            waits = steps.assign(inner, places, new, waits, f"{steps.suffix}_carry")
    return Accumulated(tuple(found), tuple(updates))
