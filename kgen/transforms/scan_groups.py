"""Scans across work-groups: the totals of all groups, and those before each, in two launches."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pymbolic.primitives as p

from kgen.analysis.domains import AffineRow, drop_dims, replace_dims
from kgen.analysis.prefixes import domain_at, domain_inside, lane_domain
from kgen.ir.domain import BasicSet, rename_dims
from kgen.ir.expr import Expr, is_zero
from kgen.ir.instruction import InstructionBase
from kgen.ir.kernel import LoopKernel
from kgen.ir.tags import AxisTag, GroupInameTag, LocalInameTag
from kgen.transforms.reduction_context import Context
from kgen.transforms.reduction_groups import Parts, end_launch, store_parts
from kgen.transforms.reduction_tree import Lanes, join_lanes
from kgen.transforms.scan_lanes import LaneScan
from kgen.transforms.scan_pieces import Steps

__all__ = ["GroupScan", "share_launches", "totals_before"]


@dataclass(frozen=True)
class GroupScan:
    """A scan of an instruction across groups, and the barriers at which its launches end."""

    insn_id: str
    barriers: tuple[str, str]


def share_launches(
    kernel: LoopKernel, instructions: Sequence[InstructionBase], scans: Sequence[GroupScan]
) -> list[InstructionBase]:
    """Let scans of which none waits for another end their launches together.

    *kernel* is the one before, *instructions* those that its scans have become.
    """
    by_id = {str(insn.id): insn for insn in instructions}
    shared: list[list[GroupScan]] = []
    for scan in scans:
        loops = by_id[scan.barriers[0]].within_inames
        for together in shared:
            if by_id[together[0].barriers[0]].within_inames == loops and all(
                _are_apart(kernel, scan.insn_id, other.insn_id, loops) for other in together
            ):
                together.append(scan)
                break
        else:
            shared.append([scan])
    renamed: dict[str, str] = {}
    for first, *others in shared:
        for other in others:
            renamed.update(zip(other.barriers, first.barriers, strict=True))
    waits = {new: by_id[new].depends_on for new in renamed.values()}
    for old, new in renamed.items():
        waits[new] |= by_id[old].depends_on
    result = []
    for insn in instructions:
        if insn.id not in renamed:
            depends_on = waits.get(str(insn.id), insn.depends_on)
            depends_on = frozenset(renamed.get(name, name) for name in depends_on)
            result.append(insn.copy(depends_on=depends_on - {insn.id}))
    return result


def _are_apart(kernel: LoopKernel, one: str, other: str, loops: frozenset[str]) -> bool:
    """Tell whether neither instruction waits for the other, inside of the *loops* of both."""
    if one == other:
        return True
    return one not in _waits_for(kernel, other, loops) and other not in _waits_for(
        kernel, one, loops
    )


def _waits_for(kernel: LoopKernel, insn_id: str, loops: frozenset[str]) -> set[str]:
    """Return all that an instruction waits for; of a plain loop, all that is inside."""
    found: set[str] = set()
    stack = list(kernel.id_to_insn[insn_id].depends_on)
    while stack:
        name = stack.pop()
        if name in found:
            continue
        found.add(name)
        insn = kernel.id_to_insn[name]
        stack.extend(insn.depends_on)
        plain = {n for n in insn.within_inames - loops if not kernel.has_tag(n, AxisTag)}
        stack.extend(str(i.id) for i in kernel.instructions if i.within_inames & plain)
    return found


def totals_before(steps: Steps, context: Context) -> tuple[Context, tuple[Expr, ...]]:
    """Append the launches that find what all groups before each one add up to.

    Return the place behind them, and what holds those totals.

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

    So the operands are read twice and the results written once (reduce-then-scan). That is less to
    move than where each group scans first, and adds the totals of others to its results later.
    S. Chatterjee, G. Blelloch, M. Zagha: Scan primitives for vector computers, Supercomputing
    1990; D. Merrill, M. Garland: Single-pass parallel prefix scan with decoupled look-back,
    NVIDIA NVR-2016-002, which compares both.
    """
    scan, realizer = steps.scan, steps.realizer
    kernel = realizer.kernel
    tags = {
        name: tag for name in scan.groups for tag in kernel.iname_tags_of_type(name, GroupInameTag)
    }
    waiting = _waiting_for_outside(steps, context)
    around = dataclasses.replace(waiting, within=waiting.within.difference(scan.sweep), updates=[])
    inside = _within(around, scan.groups)
    totals, waits = _totals(steps, inside)
    parts = store_parts(realizer, steps.reduction, around, tags, _lanes(steps), totals, waits)
    second = dataclasses.replace(around, depends_on=around.depends_on | {parts.barrier})
    alone = [realizer.loops.lane(tag, 1) for tag in tags.values()]
    done = _scan_parts(steps, _within(second, [*alone, *parts.idle]), parts)
    barrier = end_launch(realizer, steps.reduction, second, done)
    realizer.scans.append(GroupScan(str(context.insn.id), (parts.barrier, barrier)))
    behind = dataclasses.replace(context, depends_on=context.depends_on | {barrier})
    before = parts.at(_indices(steps, {}))
    return behind, tuple(before)


def _waiting_for_outside(steps: Steps, context: Context) -> Context:
    """Let what runs a launch earlier wait for nothing in the plain loops of the scan.

    It waits for what that waits for outside of them: operands are not stored inside.
    """
    kernel = steps.realizer.kernel
    loops = {*steps.scan.turns, *steps.scan.items}
    found: set[str] = set()
    seen: set[str] = set()
    stack = list(context.depends_on)
    while stack:
        name = stack.pop()
        insn = kernel.id_to_insn.get(name)
        if insn is None or loops.isdisjoint(insn.within_inames):
            found.add(name)
        elif name not in seen:
            seen.add(name)
            stack.extend(insn.depends_on)
    return dataclasses.replace(context, depends_on=frozenset(found))


def _lanes(steps: Steps) -> Lanes | None:
    scan, kernel = steps.scan, steps.realizer.kernel
    if scan.lane is None or scan.lanes is None:
        return None
    (tag,) = kernel.iname_tags_of_type(scan.lane, LocalInameTag)
    first, last = scan.lanes
    return Lanes(((tag, last - first + 1),))


def _totals(steps: Steps, context: Context) -> tuple[list[p.Variable], list[str]]:
    """Combine what is new at all steps of a group; all of its work-items have the result."""
    scan, realizer, reduction = steps.scan, steps.realizer, steps.reduction
    names = steps.copy_loops(scan.turns, {})
    turns = tuple(names.values())
    if scan.lane is not None and scan.lanes is not None:
        names |= realizer.loops.add((scan.lane,), lane_domain(scan.lane, *scan.lanes))
        realizer.types[names[scan.lane]] = realizer.kernel.index_dtype
    each = _within(context, names.values())
    items = steps.copy_loops(scan.items, names)
    names |= items
    adding = _within(each, items.values())
    lanes = _lanes(steps)
    if lanes is None or not turns or reduction.operation.is_commutative:
        before = dataclasses.replace(each, within=each.within.difference(turns))
        totals, waits = steps.accumulators(before, steps.neutral)
        waits = steps.add_new(adding, names, totals, waits)
        if lanes is not None:
            waits = join_lanes(realizer, reduction, context, lanes, totals, waits)
        return totals, waits
    # what does not commute is combined turn after turn
    totals, starts = steps.accumulators(context, steps.neutral)
    values, waits = steps.accumulators(each, steps.neutral)
    waits = steps.add_new(adding, names, values, waits)
    around = _within(context, turns)
    waits = join_lanes(realizer, reduction, around, lanes, values, waits)
    joining = dataclasses.replace(around, depends_on=around.depends_on.union(starts, waits))
    return totals, realizer.combine(reduction, totals, values, steps.dtypes, joining)


def _scan_parts(steps: Steps, once: Context, parts: Parts) -> list[str]:
    """Let each part be what all groups before have together; return what to wait for then."""
    scan, loops = steps.scan, steps.realizer.loops
    carry, starts = steps.accumulators(once, steps.neutral)
    names = {name: loops.new_iname(f"{name}_part") for name in scan.groups}
    steps.realizer.types.update((new, steps.realizer.kernel.index_dtype) for new in names.values())
    loops.nest(tuple(names.values()))
    inside = _within(once, names.values())
    lanes = _lanes(steps)
    if lanes is not None:
        return _in_lanes(steps, inside, parts, names, lanes, carry, starts)
    loops.add_domain(rename_dims(_domain(steps, scan.groups), names))
    places = parts.at(_indices(steps, names))
    olds, waits = _set_new(steps, inside, "old", places, starts)
    stores = steps.assign(inside, places, carry, waits, f"{steps.suffix}_part")
    return _carry_on(steps, inside, carry, olds, stores)


def _in_lanes(
    steps: Steps,
    context: Context,
    parts: Parts,
    names: dict[str, str],
    lanes: Lanes,
    carry: list[p.Variable],
    starts: list[str],
) -> list[str]:
    """Scan the parts in the work-items of one group, which take turns along the last axis."""
    scan, realizer = steps.scan, steps.realizer
    loops, kernel = realizer.loops, realizer.kernel
    last, turn = scan.groups[-1], names[scan.groups[-1]]
    (tag, count), *_ = lanes.axes
    lane = loops.lane(tag, count)
    realizer.types[lane] = kernel.index_dtype
    own = p.Sum((p.Product((count, p.Variable(turn))), p.Variable(lane), kernel.axes[last].first))
    fits: list[AffineRow] = [{lane: 1}, {lane: -1, 1: count - 1}, {turn: 1}]
    turns = replace_dims(_domain(steps, scan.groups), {last: own}, (turn, lane), positive=fits)
    loops.add_domain(rename_dims(drop_dims(turns, [lane]), names))
    steps_of_lane = _domain(steps, (last,), scan.groups[:-1])

    def part() -> tuple[Context, list[Expr]]:
        """Return the place of the work-items that have a part, and that."""
        element = loops.new_iname(f"{last}_part")
        realizer.types[element] = kernel.index_dtype
        renamed = {**names, last: element}
        loops.add_domain(domain_at(rename_dims(steps_of_lane, renamed), element, own))
        return _within(inside, [element]), parts.at(_indices(steps, renamed))

    inside = _within(context, [lane])
    values, waits = _set_new(steps, inside, "part", steps.neutral, ())
    where, places = part()
    waits = steps.assign(where, values, places, waits, f"{steps.suffix}_part")
    scanned = LaneScan(steps, 0, count)
    waits = scanned.across(inside, lane, values, waits)
    where, places = part()
    before = scanned.before(p.Variable(lane), carry, is_neutral=False)
    stores = steps.assign(where, places, before, [*waits, *starts], f"{steps.suffix}_part")
    return _carry_on(steps, inside, carry, scanned.total, stores)


def _carry_on(
    steps: Steps,
    context: Context,
    carry: list[p.Variable],
    more: Sequence[Expr],
    waits: list[str],
) -> list[str]:
    """Combine the carry with *more*, after *waits*; return all ids."""
    new, done = _set_new(steps, context, "total", steps.combine(carry, more), waits)
    return [*waits, *steps.assign(context, carry, new, done, f"{steps.suffix}_carry")]


def _set_new(
    steps: Steps, context: Context, name: str, values: Sequence[Expr], waits: Sequence[str]
) -> tuple[list[p.Variable], list[str]]:
    """Set new private variables; return them and the ids that do it."""
    realizer = steps.realizer
    new = [realizer.temporary(f"{name}_{steps.suffix}", dtype) for dtype in steps.dtypes]
    return new, steps.assign(context, new, values, waits, f"{steps.suffix}_{name}")


def _domain(steps: Steps, inames: tuple[str, ...], outer: tuple[str, ...] = ()) -> BasicSet:
    """Return the domain of loops over work-groups, inside of those *outer* and of other loops."""
    around = steps.context.insn.within_inames.difference(steps.scan.sweep)
    return domain_inside(steps.realizer.kernel, around.union(outer), inames)


def _within(context: Context, inames: Iterable[str]) -> Context:
    return dataclasses.replace(context, within=context.within.union(inames))


def _indices(steps: Steps, names: Mapping[str, str]) -> list[Expr]:
    """Return the subscripts of groups in their parts, their loops called *names*."""
    axes = steps.realizer.kernel.axes
    found: list[Expr] = []
    for name in steps.scan.groups:
        own, first = p.Variable(names.get(name, name)), axes[name].first
        found.append(own if is_zero(first) else p.Sum((own, p.Product((-1, first)))))
    return found
