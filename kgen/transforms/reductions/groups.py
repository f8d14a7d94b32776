"""Combining partial results of work-groups: stored in global memory, reduced by the next launch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pymbolic.primitives as p

from kgen.analysis.domains import AffineRow, replace_dims
from kgen.analysis.prefixes import domain_inside
from kgen.ir.expr import Expr, Reduction, is_zero
from kgen.ir.instruction import BarrierInstruction
from kgen.ir.sets.dims import rename_dims
from kgen.ir.tags import GroupInameTag, IlpBaseTag, LocalInameTag
from kgen.ir.types import AddressSpace
from kgen.transforms.reductions.builder import AccumulatorBuilder
from kgen.transforms.reductions.site import Site, counted_from_zero
from kgen.transforms.reductions.tree import combine_lanes, rows_of
from kgen.transforms.reductions.warps import Lanes

__all__ = ["Parts", "end_launch", "combine_groups", "store_partial_results"]


def combine_groups(
    builder: AccumulatorBuilder,
    reduction: Reduction,
    around: Site,
    groups: Mapping[str, GroupInameTag],
    lanes: Lanes | None,
    totals: Sequence[Expr],
    waits: list[str],
) -> tuple[tuple[Expr, ...], list[str]]:
    """Combine the totals of all *groups*; return the variables of the result, and their writers.

    ::

        part[g] = acc                # one work-item of each group
        ... gbarrier
        acc_0 = 0
        for q
          acc_0 = acc_0 + part[q]    # over the work-items of a group, where there are several
        end q
    """
    suffix = "_".join(reduction.inames)
    prefix = f"{around.insn.id}_{suffix}"
    dtypes = builder.accumulator_types(totals)
    parts = store_partial_results(builder, reduction, around, groups, lanes, totals, waits)
    after = around.after([parts.barrier])
    results = tuple(builder.temporary(f"acc_{suffix}", dtype) for dtype in dtypes)
    neutral = builder.starts(reduction, dtypes)
    starts = builder.assign(after, results, neutral, (), f"{prefix}_init")
    inames, own = _second_loops(builder, around, groups, lanes)
    adding = after.inside(inames).after(starts)
    operands = parts.at(own)
    done = builder.combine(reduction, results, operands, dtypes, adding)
    if lanes is not None:
        done = combine_lanes(builder, reduction, after, lanes, results, done)
    return results, done


@dataclass(frozen=True)
class Parts:
    """The partial results of groups in device memory; visible to all after a global *barrier*.

    ``rows`` are the subscripts of the enclosing hardware axes before those of the groups, ``items``
    those behind, and ``idle`` loops that run once, on the axes that are neither enclosing nor used.
    """

    arrays: tuple[p.Variable, ...]
    rows: tuple[Expr, ...]
    items: tuple[Expr, ...]
    idle: tuple[str, ...]
    barrier: str

    def at(self, groups: Sequence[Expr]) -> list[Expr]:
        """Return the partial results of one group, numbered from 0 on each axis."""
        index = (*self.rows, *groups, *self.items)
        return [p.Subscript(array, index) for array in self.arrays]


def store_partial_results(
    builder: AccumulatorBuilder,
    reduction: Reduction,
    around: Site,
    groups: Mapping[str, GroupInameTag],
    lanes: Lanes | None,
    totals: Sequence[Expr],
    waits: Sequence[str],
) -> Parts:
    """Store the *totals* of each group, which all of its work-items know, and end the launch.

    Adjacent work-items with results of their own store them in adjacent elements.
    """
    kernel, loops = builder.kernel, builder.loops
    suffix = "_".join(reduction.inames)
    prefix = f"{around.insn.id}_{suffix}"
    dtypes = builder.accumulator_types(totals)
    local = [] if lanes is None else [tag for tag, _ in lanes.axes]
    around_groups = rows_of(builder, around, list(groups.values()), GroupInameTag)
    around_items = rows_of(builder, around, local, LocalInameTag)
    axes = {name: kernel.axes[loops.origin(name)] for name in groups}
    parts = tuple(axis.length for axis in axes.values())
    are_adjacent = LocalInameTag(0) in around_items.tags
    if are_adjacent:
        # axes that privatization appends would separate the elements of adjacent work-items
        inside = _interleaved(builder, around)
        shape = (*around_groups.shape, *inside.values(), *parts, *around_items.shape)
        rows, items = (*around_groups.index, *inside), around_items.index
    else:
        shape = (*around_groups.shape, *around_items.shape, *parts)
        rows, items = (*around_groups.index, *around_items.index), ()
    arrays = tuple(
        builder.temporary(f"part_{suffix}", dtype, shape, AddressSpace.GLOBAL) for dtype in dtypes
    )
    idle = tuple(loops.lane(tag, 1) for tag in (*around_groups.idle, *around_items.idle))
    alone = [loops.lane(tag, 1) for tag in local]
    storing = around.inside([*groups, *alone, *idle])
    own = tuple(counted_from_zero(p.Variable(name), axis.first) for name, axis in axes.items())
    places = [p.Subscript(array, (*rows, *own, *items)) for array in arrays]
    stores = builder.assign(storing, places, totals, waits, f"{prefix}_part")
    barrier = end_launch(builder, reduction, around, stores)
    return Parts(arrays, rows, items, idle, barrier)


def _interleaved(builder: AccumulatorBuilder, around: Site) -> dict[Expr, Expr]:
    """Return the indices of enclosing loops with interleaved iterations, and how many there are."""
    kernel, loops = builder.kernel, builder.loops
    found: dict[Expr, Expr] = {}
    for name in sorted(around.within, key=lambda n: kernel.iname_order[loops.origin(n)]):
        if kernel.has_tag(loops.origin(name), IlpBaseTag):
            bounds = kernel.get_iname_bounds(loops.origin(name))
            found[counted_from_zero(p.Variable(name), bounds.lower)] = bounds.extent
    return found


def end_launch(
    builder: AccumulatorBuilder, reduction: Reduction, around: Site, waits: Sequence[str]
) -> str:
    """Append a global barrier after the instructions *waits*; return its id."""
    kernel, loops = builder.kernel, builder.loops
    barrier = builder.new_id(f"{around.insn.id}_{'_'.join(reduction.inames)}_barrier")
    hardware = {n for n in around.within if loops.origin(n) in kernel.axes}
    return builder.emit(
        BarrierInstruction(
            barrier,
            within_inames=around.within - hardware,
            within_inames_is_final=True,
            depends_on=around.depends_on.union(waits),
            depends_on_is_final=True,
            synchronization_kind="global",
        )
    )


def _second_loops(
    builder: AccumulatorBuilder,
    around: Site,
    groups: Mapping[str, GroupInameTag],
    lanes: Lanes | None,
) -> tuple[tuple[str, ...], tuple[Expr, ...]]:
    """Make loops over all groups; return their inames, and the index of a group in them.

    Groups of the first axis are distributed cyclically over work-items.
    """
    kernel, loops = builder.kernel, builder.loops
    origins = [loops.origin(name) for name in groups]
    domain = domain_inside(kernel, around.place.inames.difference(origins), origins)
    domain = rename_dims(domain, around.place.renamed)
    counters = [loops.new_iname(f"{name}_part") for name in origins]
    values: dict[str, Expr] = {
        name: p.Variable(counter) for name, counter in zip(origins, counters, strict=True)
    }
    firsts = {name: kernel.axes[name].first for name in origins}
    inames = list(counters)
    positive: list[AffineRow] = []
    if lanes is not None:
        terms: list[Expr] = [p.Product((lanes.count, p.Variable(counters[0])))]
        stride = 1
        for tag, size in lanes.axes:
            lane = loops.new_iname(f"lane_{tag.axis}", tag)
            own = p.Variable(lane)
            terms.append(own if stride == 1 else p.Product((stride, own)))
            positive += [{lane: 1}, {lane: -1, 1: size - 1}]
            inames.append(lane)
            stride *= size
        if not is_zero(firsts[origins[0]]):
            terms.append(firsts[origins[0]])
        values[origins[0]] = p.Sum(tuple(terms))
        positive.append({counters[0]: 1})
    loops.add_domain(replace_dims(domain, values, inames, positive=positive))
    return tuple(inames), tuple(counted_from_zero(values[name], firsts[name]) for name in origins)
