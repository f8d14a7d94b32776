"""Scans across work-groups: totals of all groups, and of those before each, in two launches."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence, Set

import pymbolic.primitives as p

from kgen.analysis.domains import AffineRow, drop_dims, replace_dims
from kgen.analysis.prefixes import domain_at, domain_inside, lane_domain
from kgen.ir.closure import closure
from kgen.ir.expr import Expr, variable_names
from kgen.ir.instruction import InstructionBase
from kgen.ir.kernel import LoopKernel
from kgen.ir.sets.dims import BasicSet, rename_dims
from kgen.ir.tags import GroupInameTag, LocalInameTag
from kgen.ir.types import AddressSpace
from kgen.transforms.reductions.builder import GroupScan
from kgen.transforms.reductions.groups import Parts, end_launch, store_partial_results
from kgen.transforms.reductions.look_back import look_back, looks_back
from kgen.transforms.reductions.scan_lanes import LaneScan
from kgen.transforms.reductions.scan_pieces import Steps
from kgen.transforms.reductions.site import Site, counted_from_zero
from kgen.transforms.reductions.tree import combine_lanes
from kgen.transforms.reductions.warps import Lanes

__all__ = ["totals_before"]


def totals_before(steps: Steps, site: Site) -> tuple[Site, tuple[Expr, ...]]:
    """Append the computation of the total of all groups before each one, in separate launches.

    Return the place after it, and the variables of these totals. If groups can wait for each other,
    there is one launch in which they look back (:func:`look_back`); otherwise

    ::

        part[g] = ...                # what group g adds, by one of its work-items
        ... gbarrier
        carry = 0
        for q                        # one group: an exclusive scan, in place
          old = part[q]
          part[q] = carry
          carry = carry + old
        end q
        ... gbarrier
        acc = part[g]                # where the scan of group g begins

    The operands are read twice and the results written once (reduce-then-scan). That moves less
    data than if each group scans first, and adds the totals of others to its results later.
    S. Chatterjee, G. Blelloch, M. Zagha: Scan primitives for vector computers, Supercomputing
    1990; D. Merrill, M. Garland: Single-pass parallel prefix scan with decoupled look-back,
    NVIDIA NVR-2016-002, which compares both.
    """
    scan, builder = steps.scan, steps.builder
    kernel = builder.kernel
    tags = {
        name: tag for name in scan.groups for tag in kernel.iname_tags_of_type(name, GroupInameTag)
    }
    waiting = _waiting_for_outside(steps, site)
    around = waiting.outside(scan.sweep)
    inside = around.inside(scan.groups)
    totals, waits = _totals(steps, inside)
    if looks_back(steps):
        found, done = look_back(steps, inside, totals, waits)
        return site.after(done), tuple(found)
    parts = store_partial_results(
        builder, steps.reduction, around, tags, _lanes(steps), totals, waits
    )
    second = around.after([parts.barrier])
    alone = [builder.loops.lane(tag, 1) for tag in tags.values()]
    done = _scan_parts(steps, second.inside([*alone, *parts.idle]), parts)
    barrier = end_launch(builder, steps.reduction, second, done)
    builder.scans.append(GroupScan((parts.barrier, barrier)))
    behind = site.after([barrier])
    before = parts.at(_indices(steps, {}))
    return behind, tuple(before)


def _waiting_for_outside(steps: Steps, site: Site) -> Site:
    """Remove dependencies of an earlier launch on instructions in the plain loops of the scan.

    It depends on what those depend on outside these loops: operands are not stored inside. Private
    values of other scans, which begin in a later launch, are left out as well.
    """
    kernel = steps.builder.kernel
    loops = {*steps.scan.turns, *steps.scan.items}
    rules = (rule.expression for rule in kernel.substitutions.values())
    used = site.insn.read_dependency_names().union(kernel.bounding_names, variable_names(*rules))

    def is_left_out(name: str) -> bool:
        insn = kernel.id_to_insn.get(name)
        if insn is None:
            return False
        return not loops.isdisjoint(insn.within_inames) or _sets_others(kernel, insn, used)

    def before(name: str) -> Iterable[str]:
        return kernel.id_to_insn[name].depends_on if is_left_out(name) else ()

    found = closure(site.depends_on, before)
    outside = frozenset(name for name in found if not is_left_out(name))
    return dataclasses.replace(site, depends_on=outside)


def _sets_others(kernel: LoopKernel, insn: InstructionBase, used: Set[str]) -> bool:
    """Tell whether an instruction only sets private values that are not *used*."""
    names = insn.assignee_var_names()
    private = (kernel.temporary_variables.get(name) for name in names)
    return (
        used.isdisjoint(names)
        and bool(names)
        and all(one is not None and one.address_space == AddressSpace.PRIVATE for one in private)
    )


def _lanes(steps: Steps) -> Lanes | None:
    scan, kernel = steps.scan, steps.builder.kernel
    if scan.lane is None or scan.lanes is None:
        return None
    (tag,) = kernel.iname_tags_of_type(scan.lane, LocalInameTag)
    first, last = scan.lanes
    return Lanes(((tag, last - first + 1),))


def _totals(steps: Steps, site: Site) -> tuple[list[p.Variable], list[str]]:
    """Combine the new elements of all steps of a group; all of its work-items have the result."""
    scan, builder, reduction = steps.scan, steps.builder, steps.reduction
    names = steps.copy_loops(scan.turns, {})
    turns = tuple(names.values())
    if scan.lane is not None and scan.lanes is not None:
        names |= builder.loops.add((scan.lane,), lane_domain(scan.lane, *scan.lanes))
    each = site.inside(names.values())
    items = steps.copy_loops(scan.items, names)
    names |= items
    adding = each.inside(items.values())
    lanes = _lanes(steps)
    if lanes is None or not turns or reduction.operation.is_commutative:
        before = each.outside(turns)
        totals, waits = steps.accumulators(before, steps.neutral)
        waits = steps.add_new(adding, names, totals, waits)
        if lanes is not None:
            waits = combine_lanes(builder, reduction, site, lanes, totals, waits)
        return totals, waits
    # non-commutative operations are combined round after round
    totals, starts = steps.accumulators(site, steps.neutral)
    values, waits = steps.accumulators(each, steps.neutral)
    waits = steps.add_new(adding, names, values, waits)
    around = site.inside(turns)
    waits = combine_lanes(builder, reduction, around, lanes, values, waits)
    joining = around.after([*starts, *waits])
    return totals, builder.combine(reduction, totals, values, steps.dtypes, joining)


def _scan_parts(steps: Steps, once: Site, parts: Parts) -> list[str]:
    """Replace each part by the total of all previous groups; return the ids to wait for."""
    scan, loops = steps.scan, steps.builder.loops
    carry, starts = steps.accumulators(once, steps.neutral)
    names = {name: loops.new_iname(f"{name}_part") for name in scan.groups}
    loops.nest(tuple(names.values()))
    inside = once.inside(names.values())
    lanes = _lanes(steps)
    if lanes is not None:
        return _in_lanes(steps, inside, parts, names, lanes, carry, starts)
    loops.add_domain(rename_dims(_domain(steps, scan.groups), names))
    places = parts.at(_indices(steps, names))
    olds, waits = _set_new(steps, inside, "old", places, starts)
    stores = steps.assign(inside, places, carry, waits, f"{steps.suffix}_part")
    return _update_carry(steps, inside, carry, olds, stores)


def _in_lanes(
    steps: Steps,
    site: Site,
    parts: Parts,
    names: dict[str, str],
    lanes: Lanes,
    carry: list[p.Variable],
    starts: list[str],
) -> list[str]:
    """Scan the totals in the work-items of one group, cyclically distributed on the last axis."""
    scan, builder = steps.scan, steps.builder
    loops, kernel = builder.loops, builder.kernel
    last, turn = scan.groups[-1], names[scan.groups[-1]]
    (tag, count), *_ = lanes.axes
    lane = loops.lane(tag, count)
    own = p.Sum((p.Product((count, p.Variable(turn))), p.Variable(lane), kernel.axes[last].first))
    fits: list[AffineRow] = [{lane: 1}, {lane: -1, 1: count - 1}, {turn: 1}]
    turns = replace_dims(_domain(steps, scan.groups), {last: own}, (turn, lane), positive=fits)
    loops.add_domain(rename_dims(drop_dims(turns, [lane]), names))
    steps_of_lane = _domain(steps, (last,), scan.groups[:-1])

    def part() -> tuple[Site, list[Expr]]:
        """Return the place of the work-items that have a part, and the part."""
        element = loops.new_iname(f"{last}_part")
        renamed = {**names, last: element}
        loops.add_domain(domain_at(rename_dims(steps_of_lane, renamed), element, own))
        return inside.inside([element]), parts.at(_indices(steps, renamed))

    inside = site.inside([lane])
    values, waits = _set_new(steps, inside, "part", steps.neutral, ())
    where, places = part()
    waits = steps.assign(where, values, places, waits, f"{steps.suffix}_part")
    scanned = LaneScan(steps, 0, count)
    waits = scanned.across(inside, lane, values, waits)
    where, places = part()
    before = scanned.before(p.Variable(lane), carry, is_neutral=False)
    stores = steps.assign(where, places, before, [*waits, *starts], f"{steps.suffix}_part")
    return _update_carry(steps, inside, carry, scanned.total, stores)


def _update_carry(
    steps: Steps,
    site: Site,
    carry: list[p.Variable],
    more: Sequence[Expr],
    waits: list[str],
) -> list[str]:
    """Combine the carry with *more*, after *waits*; return all ids of dependencies."""
    new, done = _set_new(steps, site, "total", steps.combine(carry, more), waits)
    return [*waits, *steps.assign(site, carry, new, done, f"{steps.suffix}_carry")]


def _set_new(
    steps: Steps, site: Site, name: str, values: Sequence[Expr], waits: Sequence[str]
) -> tuple[list[p.Variable], list[str]]:
    """Set new private variables; return them and the ids that do it."""
    builder = steps.builder
    new = [builder.temporary(f"{name}_{steps.suffix}", dtype) for dtype in steps.dtypes]
    return new, steps.assign(site, new, values, waits, f"{steps.suffix}_{name}")


def _domain(steps: Steps, inames: tuple[str, ...], outer: tuple[str, ...] = ()) -> BasicSet:
    """Return the domain of loops over work-groups, inside the loops *outer* and others."""
    around = steps.site.insn.within_inames.difference(steps.scan.sweep)
    return domain_inside(steps.builder.kernel, around.union(outer), inames)


def _indices(steps: Steps, names: Mapping[str, str]) -> list[Expr]:
    """Return the subscripts of groups in their parts, their loops called *names*."""
    axes = steps.builder.kernel.axes
    return [
        counted_from_zero(p.Variable(names.get(name, name)), axes[name].first)
        for name in steps.scan.groups
    ]
