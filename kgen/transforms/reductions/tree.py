"""Tree reductions: in local memory, or between the lanes of a warp."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import pymbolic.primitives as p

from kgen.ir.expr import Expr, Reduction
from kgen.ir.tags import AxisTag, LocalInameTag
from kgen.ir.types import AddressSpace
from kgen.transforms.reductions.builder import AccumulatorBuilder, AccumulatorType, known_types
from kgen.transforms.reductions.site import Site, counted_from_zero
from kgen.transforms.reductions.warps import Lanes, WarpRow, find_row, group_sizes

__all__ = ["Rows", "combine_lanes", "rows_of"]


@dataclass(frozen=True)
class Rows:
    """The hardware axes around a reduction: each of their indices has its own result.

    ``idle`` are axes of the kernel that do not enclose it; one index of each suffices.
    """

    index: tuple[Expr, ...]
    shape: tuple[Expr, ...]
    tags: tuple[AxisTag, ...]
    idle: tuple[AxisTag, ...]


def rows_of(
    builder: AccumulatorBuilder, around: Site, used: Collection[AxisTag], kind: type[AxisTag]
) -> Rows:
    """Find the axes of *kind* around a reduction that itself runs on the axes *used*."""
    kernel, loops = builder.kernel, builder.loops
    index, shape, tags = [], [], []
    for name in sorted(around.within, key=lambda n: kernel.iname_order[loops.origin(n)]):
        axis = kernel.axes.get(loops.origin(name))
        if axis is not None and isinstance(axis.tag, kind):
            index.append(counted_from_zero(p.Variable(name), axis.first))
            shape.append(axis.length)
            tags.append(axis.tag)
    idle = {axis.tag for axis in kernel.axes.values() if isinstance(axis.tag, kind)}
    ordered = sorted(idle.difference(used, tags), key=lambda tag: tag.axis)
    return Rows(tuple(index), tuple(shape), tuple(tags), tuple(ordered))


def combine_lanes(
    builder: AccumulatorBuilder,
    reduction: Reduction,
    around: Site,
    lanes: Lanes,
    totals: Sequence[Expr],
    waits: list[str],
) -> list[str]:
    """Combine the *totals* of all work-items; all of them then have the result.

    The number of barriers is the minimum for a tree: the logarithm of the number of work-items,
    with none to broadcast the result. Each level has separate memory, so an enclosing loop needs no
    further barrier. Return the ids that write the result.
    """
    joined = _TreeReduction(builder, reduction, around, lanes, totals)
    is_free = reduction.operation.is_commutative
    row = find_row(builder, around, lanes, joined.dtypes) if is_free else None
    return joined.tree(waits) if row is None else joined.exchange(row, waits)


class _TreeReduction:
    """Appends the steps of one reduction over work-items."""

    def __init__(
        self,
        builder: AccumulatorBuilder,
        reduction: Reduction,
        around: Site,
        lanes: Lanes,
        totals: Sequence[Expr],
    ) -> None:
        self.builder = builder
        self.reduction = reduction
        self.around = around
        self.lanes = lanes
        self.totals = totals
        self.suffix = "_".join(reduction.inames)
        self.prefix = f"{around.insn.id}_{self.suffix}"
        self.dtypes: list[AccumulatorType] = builder.accumulator_types(totals)
        self.rows = rows_of(builder, around, [tag for tag, _ in lanes.axes], LocalInameTag)
        inames = [builder.loops.lane(tag, size) for tag, size in lanes.axes]
        idle = [builder.loops.lane(tag, 1) for tag in self.rows.idle]
        self.everywhere = around.inside(inames)
        self.once = around.inside([*inames, *idle])
        self.lane = _counted(inames, [size for _, size in lanes.axes])
        self.step = 0

    # -- in local memory ----------------------------------------------------------------------

    def tree(self, waits: list[str]) -> list[str]:
        """Combine by halves, in local memory."""
        keeps_order = not self.reduction.operation.is_commutative
        count = self.lanes.count
        arrays = self._arrays(_slots(count, keeps_order))
        offset = 0
        while count > 2:
            half = (count + 1) // 2
            if keeps_order:
                waits = self._store(arrays, _plus(self.lane, offset), (0, count), waits)
                waits = self._combine_neighbours(arrays, offset, count, waits)
                offset += count
            else:
                upper = _plus(self.lane, offset - half)
                waits = self._store(arrays, upper, (half, count), waits)
                other = self._at(arrays, _plus(self.lane, offset))
                waits = self._combine(self._between(0, count - half), other, waits)
                offset += count - half
            count = half
        waits = self._store(arrays, _plus(self.lane, offset), (0, count), waits)
        last = [self._at(arrays, offset + k) for k in range(count)]
        return self._set(self.around, last, waits)

    def _combine_neighbours(
        self, arrays: Sequence[p.Variable], offset: int, count: int, waits: list[str]
    ) -> list[str]:
        """Let each work-item combine two neighbours; an odd last one stays as it is."""
        first = _plus(p.Product((2, self.lane)), offset)
        both = [self._at(arrays, first), self._at(arrays, _plus(first, 1))]
        done = self._set(self._between(0, count // 2), both, waits)
        if count % 2:
            alone = [self._at(arrays, offset + count - 1)]
            done = self._set(self._between(count // 2, count // 2 + 1), alone, [*done, *waits])
        return done

    # -- between the lanes of a warp ------------------------------------------------------------

    def exchange(self, row: WarpRow, waits: list[str]) -> list[str]:
        """Combine the lanes of each row in a warp, then one value of each through local memory."""
        others = [self.builder.temporary(f"other_{self.suffix}", dtype) for dtype in self.dtypes]
        distance = row.width // 2
        while distance:
            values = row.partners(self.totals, distance)
            waits = self._assign(self.everywhere, others, values, waits, "lanes")
            waits = self._combine(self.everywhere, others, waits)
            distance //= 2
        count = self.lanes.count // row.width
        sizes = group_sizes(self.builder)
        is_whole = all(sizes[tag.axis] == size for tag, size in self.lanes.axes)
        if count == 1 and is_whole:
            return waits
        arrays = self._arrays(count)
        leads = p.Comparison(p.Remainder(self.lane, row.width), "==", 0)
        one_each = self._under(self.once, [leads])
        slot = p.FloorDiv(self.lane, row.width)
        waits = self._assign(one_each, self._at(arrays, slot), self.totals, waits, "store")
        waits = self._set(self.around, [self._at(arrays, 0)], waits)
        if count == 1:
            return waits
        part = self.builder.loops.new_range("warp", 1, count)
        inside = self.around.inside([part])
        return self._combine(inside, self._at(arrays, p.Variable(part)), waits)

    # -- steps ---------------------------------------------------------------------------------

    def _arrays(self, slots: int) -> list[p.Variable]:
        shape = (*self.rows.shape, slots)
        return [
            self.builder.temporary(f"red_{self.suffix}", dtype, shape, AddressSpace.LOCAL)
            for dtype in self.dtypes
        ]

    def _at(self, arrays: Sequence[p.Variable], slot: Expr) -> list[Expr]:
        return [p.Subscript(array, (*self.rows.index, slot)) for array in arrays]

    def _between(self, first: int, stop: int) -> Site:
        """Return the place of the work-items from *first* to *stop*, exclusive."""
        conditions = []
        if first > 0:
            conditions.append(p.Comparison(self.lane, ">=", first))
        if stop < self.lanes.count:
            conditions.append(p.Comparison(self.lane, "<", stop))
        return self._under(self.once, conditions)

    def _under(self, site: Site, conditions: Sequence[Expr]) -> Site:
        return dataclasses.replace(site, predicates=site.predicates.union(conditions))

    def _store(
        self,
        arrays: Sequence[p.Variable],
        slot: Expr,
        lanes: tuple[int, int],
        waits: Sequence[str],
    ) -> list[str]:
        return self._assign(
            self._between(*lanes), self._at(arrays, slot), self.totals, waits, "store"
        )

    def _combine(self, site: Site, operands: Sequence[Expr], waits: Sequence[str]) -> list[str]:
        """Combine the totals with *operands*."""
        self.step += 1
        return self.builder.combine(
            self.reduction, self.totals, operands, self.dtypes, site.after(waits), self.step
        )

    def _set(self, site: Site, values: Sequence[Sequence[Expr]], waits: list[str]) -> list[str]:
        """Set the totals to one value, or to two combined."""
        operation = self.reduction.operation
        if len(values) > 1 and operation.arg_count == 1:
            values = [operation.combine(values[0], values[1], known_types(self.dtypes))]
        ids = self._assign(site, self.totals, values[0], waits, "update")
        return ids if len(values) == 1 else self._combine(site, values[1], ids)

    def _assign(
        self,
        site: Site,
        places: Sequence[Expr],
        values: Sequence[Expr],
        waits: Sequence[str],
        suffix: str,
    ) -> list[str]:
        """Append the next step."""
        self.step += 1
        name = f"{self.prefix}_{suffix}"
        return self.builder.assign(site, places, values, waits, name, self.step)


def _slots(count: int, keeps_order: bool) -> int:
    """Return the number of elements that a tree over *count* work-items needs."""
    if not keeps_order:
        return count
    slots = 0
    while count > 2:
        slots, count = slots + count, (count + 1) // 2
    return slots + count


def _counted(inames: Sequence[str], sizes: Sequence[int]) -> Expr:
    """Return the number of a work-item, counted along the first axis first."""
    terms: list[Expr] = []
    stride = 1
    for name, size in zip(inames, sizes, strict=True):
        if size > 1 or len(inames) == 1:
            lane = p.Variable(name)
            terms.append(lane if stride == 1 else p.Product((stride, lane)))
        stride *= size
    if len(terms) > 1:
        return p.Sum(tuple(terms))
    return terms[0] if terms else 0


def _plus(expr: Expr, number: int) -> Expr:
    return p.Sum((expr, number)) if number else expr
