"""Reductions that grow with the loops around them, computed as running results: scans."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pymbolic.primitives as p

from kgen.analysis.prefixes import (
    bounding_loops,
    growth_of,
    has_one_step,
    lane_bounds,
    lane_domain,
)
from kgen.errors import ReductionIsNotTriangularError, TransformError, message
from kgen.ir.domain import BasicSet, rename_dims
from kgen.ir.expr import Expr, Reduction, substitute, to_text, variable_names
from kgen.ir.kernel import LoopKernel
from kgen.ir.tags import ConcurrentTag, InameImplementationTag, LocalInameTag
from kgen.ir.types import AddressSpace, KgenType

if TYPE_CHECKING:
    from kgen.transforms.reduction import Context, Realizer

__all__ = ["Scan", "ScanWishes", "accumulate_scan", "plan_scan"]


@dataclass(frozen=True)
class ScanWishes:
    """Which reductions become scans: all that can (*automatic*), or all, or it is refused."""

    automatic: bool = False
    forced: bool = False
    outer_iname: str | None = None

    @property
    def is_idle(self) -> bool:
        """Tell whether no scan is wanted."""
        return not (self.automatic or self.forced)


@dataclass(frozen=True)
class Scan:
    """How a reduction runs along the loops *sweep*, in lexicographic order.

    ``pieces`` are domains of the loops over what is new at each step. Where the last loop of
    *sweep* is parallel, ``lanes`` are its first value and its last one, and ``rows`` those of
    the other loops over work-items.
    """

    sweep: tuple[str, ...]
    pieces: tuple[BasicSet, ...]
    lanes: tuple[int, int] | None
    rows: dict[str, tuple[int, int]]


def plan_scan(realizer: Realizer, reduction: Reduction, context: Context) -> Scan | None:
    """Prove that *reduction* is a scan and return how it runs, or refuse.

    ``None`` for one that is to stay a reduction.
    """
    wishes = realizer.wishes
    if wishes.is_idle or context.place.inames != context.insn.within_inames:
        return None
    if has_one_step(realizer.kernel, context.within, reduction.inames):
        return None
    try:
        return _plan(realizer, reduction, context)
    except TransformError:
        if wishes.forced:
            raise
        return None


def _plan(realizer: Realizer, reduction: Reduction, context: Context) -> Scan:
    kernel = realizer.kernel
    _refuse_parallel_values(reduction, context, kernel)
    sweep = _sweep(realizer, reduction, context)
    _refuse_uses_of_sweep(realizer, reduction, context, sweep)
    _refuse_stores_inside(reduction, context, sweep, kernel)
    names = reduction.inames
    lanes, rows = _lanes(realizer, reduction, context, sweep)
    growth = growth_of(kernel, context.within, sweep, names, lanes)
    if growth.lost is not None:
        earlier = "an earlier step of " + ", ".join(f"'{name}'" for name in sweep)
        values = ", ".join(f"{name} = {growth.lost[name]}" for name in names)
        here = ", ".join(f"{n} = {v}" for n, v in growth.lost.items() if n not in names)
        raise _not_a_scan(
            reduction,
            context,
            kernel,
            f"{values} counts at {earlier}, but not at {here}",
            "bound the loop by what grows: 0 <= j <= i",
        )
    return Scan(sweep, growth.pieces, lanes, rows)


def _sweep(realizer: Realizer, reduction: Reduction, context: Context) -> tuple[str, ...]:
    """Return the loops that the reduction grows with: sequential ones, then one over lanes."""
    kernel, wanted = realizer.kernel, realizer.wishes.outer_iname
    if wanted is not None:
        if wanted not in context.within:
            raise _not_a_scan(
                reduction, context, kernel, f"it is not inside of the loop '{wanted}'"
            )
        found: tuple[str, ...] = (wanted,)
    else:
        found = bounding_loops(kernel, context.within, reduction.inames)
    if not found:
        raise _not_a_scan(
            reduction,
            context,
            kernel,
            "no loop around it bounds it: it has the same value at every step",
            "choose instructions: realize_reduction(..., insn_id_filter='id')",
        )
    for name in found:
        for tag in kernel.iname_tags_of_type(name, InameImplementationTag):
            if isinstance(tag, ConcurrentTag) and not isinstance(tag, LocalInameTag):
                raise _refusal(
                    context,
                    kernel,
                    f"the scan '{to_text(reduction)}' cannot run along '{name}', tagged '{tag}'",
                    f"leave '{name}' a loop or tag it l.0; to compute what comes before in every "
                    "group, name the loop inside of it: force_outer_iname_for_scan='...'",
                )
    lanes = [name for name in found if kernel.has_tag(name, LocalInameTag)]
    if len(lanes) > 1:
        raise _refusal(
            context,
            kernel,
            f"the scan '{to_text(reduction)}' runs along {len(lanes)} axes of work-items: "
            + ", ".join(f"'{name}'" for name in lanes),
            "join them: join_inames(...)",
        )
    return (*(name for name in found if name not in lanes), *lanes)


def _refuse_parallel_values(reduction: Reduction, context: Context, kernel: LoopKernel) -> None:
    """Refuse a scan whose own loop is parallel: it takes what is new at a step in order."""
    for name in reduction.inames:
        for tag in kernel.iname_tags_of_type(name, InameImplementationTag):
            if isinstance(tag, ConcurrentTag):
                raise _refusal(
                    context,
                    kernel,
                    f"the loop '{name}' of the scan '{to_text(reduction)}' is tagged '{tag}'",
                    f"untag_inames(kernel, '{name}', ...), and tag the loop that it runs along",
                )


def _refuse_uses_of_sweep(
    realizer: Realizer, reduction: Reduction, context: Context, sweep: tuple[str, ...]
) -> None:
    """Refuse operands that differ from step to step, and conditions that do."""
    kernel = realizer.kernel
    used = set(variable_names(*reduction.exprs)).intersection(sweep)
    if used:
        raise _not_a_scan(
            reduction,
            context,
            kernel,
            f"what it combines depends on '{min(used)}', the loop that it runs along",
        )
    changing = {*sweep, *kernel.get_written_variables(), *realizer.temporaries}
    for condition in sorted(context.predicates, key=str):
        named = changing.intersection(variable_names(condition))
        if named:
            raise _refusal(
                context,
                kernel,
                f"the scan '{to_text(reduction)}' stands under the condition "
                f"'{to_text(condition)}', which may change along '{sweep[-1]}'",
                "assign the scan to a temporary without a condition first",
            )


def _refuse_stores_inside(
    reduction: Reduction, context: Context, sweep: tuple[str, ...], kernel: LoopKernel
) -> None:
    """Refuse operands that the same loops overwrite: each value is read once, at its step."""
    before = _all_before(kernel, str(context.insn.id))
    for array in dict.fromkeys(variable_names(*reduction.exprs)):
        for name in kernel.writers.get(array, ()):
            writer = kernel.id_to_insn[name]
            if name not in before and not writer.within_inames.isdisjoint(sweep):
                raise _refusal(
                    context,
                    kernel,
                    f"instruction '{name}' writes '{array}', which the scan "
                    f"'{to_text(reduction)}' reads, in the loop that it runs along",
                    f"store to another array, or let the scan wait for '{name}': dep={name}",
                )


def _all_before(kernel: LoopKernel, insn_id: str) -> frozenset[str]:
    found: set[str] = set()
    stack = list(kernel.id_to_insn[insn_id].depends_on)
    while stack:
        name = stack.pop()
        if name not in found and name != insn_id:
            found.add(name)
            stack.extend(kernel.id_to_insn[name].depends_on)
    return frozenset(found)


def _lanes(
    realizer: Realizer, reduction: Reduction, context: Context, sweep: tuple[str, ...]
) -> tuple[tuple[int, int] | None, dict[str, tuple[int, int]]]:
    """Return the first and the last lane, and the like for the other axes of work-items."""
    kernel, lane = realizer.kernel, sweep[-1]
    if not kernel.has_tag(lane, LocalInameTag):
        return None, {}
    if context.predicates:
        raise _refusal(
            context,
            kernel,
            f"the scan '{to_text(reduction)}' over work-items stands under a condition",
            "assign it to a temporary without a condition first",
        )
    sizes: dict[str, tuple[int, int]] = {}
    for name in sorted(context.within, key=kernel.iname_order.__getitem__):
        if not kernel.has_tag(name, LocalInameTag):
            continue
        bounds = lane_bounds(kernel, name)
        if bounds is None:
            raise _refusal(
                context,
                kernel,
                f"the number of work-items along '{name}' is not fixed, which a scan over "
                "work-items needs",
                f"split_iname(kernel, '{name}', 128, inner_tag='l.0'), or fix_parameters(...)",
            )
        sizes[name] = bounds
    return sizes.pop(lane), sizes


def _refusal(
    context: Context, kernel: LoopKernel, what: str, hint: str | None = None
) -> TransformError:
    where = f"instruction '{context.insn.id}'"
    return TransformError(message(what, kernel=kernel.name, where=where, hint=hint))


def _not_a_scan(
    reduction: Reduction,
    context: Context,
    kernel: LoopKernel,
    why: str,
    hint: str | None = None,
) -> ReductionIsNotTriangularError:
    return ReductionIsNotTriangularError(
        message(
            f"the reduction '{to_text(reduction)}' is no scan",
            kernel=kernel.name,
            where=f"instruction '{context.insn.id}'",
            because=why,
            hint=hint,
        )
    )


# -- instructions -------------------------------------------------------------------------


def accumulate_scan(
    realizer: Realizer, reduction: Reduction, scan: Scan, context: Context
) -> tuple[Expr, ...]:
    """Append the instructions that compute a scan; return what holds its values.

    Along sequential loops that is an accumulator which is set before the outermost one.
    Work-items combine what is new at their steps over growing distances, in local memory.
    """
    found = realizer.typer(reduction)
    dtypes: tuple[KgenType, ...] = found if isinstance(found, tuple) else (found,)
    if scan.lanes is not None:
        return _accumulate_in_lanes(realizer, reduction, scan, context, dtypes)
    start = _before_loops(realizer, context, scan.sweep)
    values, waits = _start(realizer, reduction, start, dtypes)
    for piece in scan.pieces:
        waits = _add_piece(realizer, reduction, piece, context, values, waits)
    realizer.loops.nest(scan.sweep)
    context.updates.extend(waits)
    return tuple(values)


def _accumulate_in_lanes(
    realizer: Realizer,
    reduction: Reduction,
    scan: Scan,
    context: Context,
    dtypes: tuple[KgenType, ...],
) -> tuple[Expr, ...]:
    """Scan with a loop over lanes of its own, all of which run at every step.

    Lanes that have no step combine nothing.
    """
    assert scan.lanes is not None
    *outer, own_lane = scan.sweep
    (lane,) = realizer.loops.add((own_lane,), lane_domain(own_lane, *scan.lanes)).values()
    realizer.types[lane] = realizer.kernel.index_dtype
    inner = dataclasses.replace(context, within=context.within - {own_lane} | {lane}, updates=[])
    values, waits = _start(realizer, reduction, inner, dtypes)
    for piece in scan.pieces:
        piece = rename_dims(piece, {own_lane: lane})
        waits = _add_piece(realizer, reduction, piece, inner, values, waits)
    buffers = _Buffers(realizer, reduction, scan, dtypes)
    waits = _across_lanes(reduction, buffers, inner, lane, values, dtypes, waits)
    if outer:
        waits = _carry(reduction, buffers, inner, (tuple(outer), lane), dtypes, waits)
        realizer.loops.nest(tuple(outer))
    context.updates.extend(waits)
    return tuple(buffers.at(p.Variable(own_lane)))


def _before_loops(realizer: Realizer, context: Context, loops: tuple[str, ...]) -> Context:
    """Return the place before *loops*, which waits for what is outside of them."""
    outside = context.without(realizer.inside(frozenset(loops), context.depends_on))
    return dataclasses.replace(outside, within=context.within.difference(loops))


def _start(
    realizer: Realizer, reduction: Reduction, context: Context, dtypes: tuple[KgenType, ...]
) -> tuple[list[p.Variable], list[str]]:
    """Set accumulators to the neutral element; return them and the ids that do it."""
    suffix = "_".join(reduction.inames)
    accumulators = [realizer.temporary(f"acc_{suffix}", dtype) for dtype in dtypes]
    neutral = reduction.operation.neutral(dtypes)
    return accumulators, _assign(realizer, context, accumulators, neutral, (), f"{suffix}_init")


def _assign(
    realizer: Realizer,
    context: Context,
    places: Sequence[Expr],
    values: Sequence[Expr],
    waits: Sequence[str],
    suffix: str,
) -> list[str]:
    """Append one assignment per place, all after *waits*; return their ids."""
    ids = []
    for place, value in zip(places, values, strict=True):
        ids.append(realizer.new_id(f"{context.insn.id}_{suffix}"))
        context.out.append(context.assign(ids[-1], place, value, *waits))
        realizer.update_of[variable_names(place)[0]] = ids[-1]
    return ids


def _add_piece(
    realizer: Realizer,
    reduction: Reduction,
    piece: BasicSet,
    context: Context,
    accumulators: list[p.Variable],
    waits: list[str],
) -> list[str]:
    """Combine the accumulators with what is new at a step."""
    copies = realizer.loops.add(reduction.inames, piece)
    realizer.types.update((new, realizer.kernel.index_dtype) for new in copies.values())
    renamed = {old: p.Variable(new) for old, new in copies.items()}
    operands = tuple(substitute(part, renamed) for part in reduction.exprs)
    inner = dataclasses.replace(
        context,
        within=context.within.union(copies.values()),
        place=context.place.inside(reduction.inames, copies),
        sharers=tuple(copies.values()),
        out=[],
        updates=[],
    )
    return realizer.add_up(reduction, accumulators, operands, inner, context, waits)


class _Buffers:
    """Two sets of arrays in local memory: values before and after a step of work-items.

    One barrier between two steps is enough, since no step writes what it reads.
    """

    def __init__(
        self,
        realizer: Realizer,
        reduction: Reduction,
        scan: Scan,
        dtypes: tuple[KgenType, ...],
    ) -> None:
        assert scan.lanes is not None
        self.realizer = realizer
        self.first, last = scan.lanes
        self.count = last - self.first + 1
        self.row = tuple(_shifted(p.Variable(name), -low) for name, (low, _) in scan.rows.items())
        self.suffix = f"{'_'.join(reduction.inames)}_scan"
        self._dtypes = dtypes
        self._shape = (*(last - low + 1 for low, last in scan.rows.values()), self.count)
        self._sets: list[list[p.Variable]] = [self._allocate()]

    def _allocate(self) -> list[p.Variable]:
        local = AddressSpace.LOCAL
        return [self.realizer.temporary(self.suffix, d, self._shape, local) for d in self._dtypes]

    def at(self, lane: Expr, distance: int = 0) -> list[Expr]:
        """Return the values of a lane, or of one that is a *distance* before it."""
        index = lane - self.first if isinstance(lane, int) else _shifted(lane, -self.first)
        index = index if isinstance(index, int) else _shifted(index, -distance)
        return [p.Subscript(array, (*self.row, index)) for array in self._sets[0]]

    def step(
        self, context: Context, lane: Expr, values: Sequence[Expr], waits: list[str]
    ) -> list[str]:
        """Store new values into the other set, which counts from now on."""
        if len(self._sets) == 1:
            self._sets.append(self._allocate())
        self._sets.reverse()
        return self.store(context, lane, values, waits)

    def store(
        self, context: Context, lane: Expr, values: Sequence[Expr], waits: list[str]
    ) -> list[str]:
        """Store the values of a lane."""
        return _assign(self.realizer, context, self.at(lane), values, waits, self.suffix)


def _across_lanes(
    reduction: Reduction,
    buffers: _Buffers,
    context: Context,
    lane: str,
    values: Sequence[Expr],
    dtypes: tuple[KgenType, ...],
    waits: list[str],
) -> list[str]:
    """Combine the values of all work-items up to each one, over distances 1, 2, 4..."""
    place = p.Variable(lane)
    waits = buffers.store(context, place, values, waits)
    distance = 1
    while distance < buffers.count:
        own, other = buffers.at(place), buffers.at(place, distance)
        joined = reduction.operation.combine(other, own, dtypes)
        has_other = p.Comparison(place, ">=", buffers.first + distance)
        new = [p.If(has_other, both, mine) for both, mine in zip(joined, own, strict=True)]
        waits = buffers.step(context, place, new, waits)
        distance *= 2
    return waits


def _carry(
    reduction: Reduction,
    buffers: _Buffers,
    context: Context,
    loops: tuple[tuple[str, ...], str],
    dtypes: tuple[KgenType, ...],
    waits: list[str],
) -> list[str]:
    """Combine the results of a block of lanes with the total of the blocks before it."""
    outer, lane = loops
    realizer = buffers.realizer
    carry, starts = _start(realizer, reduction, _before_loops(realizer, context, outer), dtypes)
    place = p.Variable(lane)
    result = buffers.at(place)
    total = buffers.at(buffers.first + buffers.count - 1)
    combine = reduction.operation.combine
    waits = buffers.step(context, place, combine(carry, result, dtypes), [*waits, *starts])
    suffix = "_".join(reduction.inames)
    totals = [realizer.temporary(f"total_{suffix}", dtype) for dtype in dtypes]
    for places, new in ((totals, combine(carry, total, dtypes)), (carry, tuple(totals))):
        waits = _assign(realizer, context, places, new, waits, f"{suffix}_carry")
    return waits


def _shifted(expr: Expr, by: int) -> Expr:
    if by == 0:
        return expr
    return p.Sum((expr, by) if isinstance(expr, p.Variable) else (*expr.children, by))
