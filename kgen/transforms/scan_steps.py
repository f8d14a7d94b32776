"""Scans as instructions: an accumulator along loops, log steps across work-items."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pymbolic.primitives as p

from kgen.analysis.prefixes import lane_domain
from kgen.ir.domain import BasicSet, rename_dims
from kgen.ir.expr import Expr, Reduction, substitute, variable_names
from kgen.ir.types import AddressSpace, KgenType
from kgen.transforms.scan import Scan

if TYPE_CHECKING:
    from kgen.transforms.reduction_context import Context
    from kgen.transforms.reduction_realizer import Realizer

__all__ = ["accumulate_scan"]


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
    carry: list[p.Variable] = []
    starts: list[str] = []
    if outer:
        carry, starts = _start(
            realizer, reduction, _before_loops(realizer, inner, tuple(outer)), dtypes
        )
        realizer.loops.nest(tuple(outer))
    values, waits = _start(realizer, reduction, inner, dtypes)
    for piece in scan.pieces:
        piece = rename_dims(piece, {own_lane: lane})
        waits = _add_piece(realizer, reduction, piece, inner, values, waits)
    buffers = _Buffers(realizer, reduction, scan, dtypes)
    waits = _across_lanes(reduction, buffers, inner, lane, values, dtypes, waits)
    if outer:
        waits = _carry(reduction, buffers, inner, lane, carry, dtypes, [*waits, *starts])
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
    lane: str,
    carry: list[p.Variable],
    dtypes: tuple[KgenType, ...],
    waits: list[str],
) -> list[str]:
    """Combine the results of a block of lanes with the total of the blocks before it."""
    realizer = buffers.realizer
    place = p.Variable(lane)
    result = buffers.at(place)
    total = buffers.at(buffers.first + buffers.count - 1)
    combine = reduction.operation.combine
    waits = buffers.step(context, place, combine(carry, result, dtypes), waits)
    suffix = "_".join(reduction.inames)
    totals = [realizer.temporary(f"total_{suffix}", dtype) for dtype in dtypes]
    for places, new in ((totals, combine(carry, total, dtypes)), (carry, tuple(totals))):
        waits = _assign(realizer, context, places, new, waits, f"{suffix}_carry")
    return waits


def _shifted(expr: Expr, by: int) -> Expr:
    if by == 0:
        return expr
    return p.Sum((expr, by) if isinstance(expr, p.Variable) else (*expr.children, by))
