"""Work-items that exchange values without memory: lanes of a warp, and their masks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import pymbolic.primitives as p

from kgen.ir.expr import Expr, variable_names
from kgen.ir.functions import EXCHANGE, LANE_BEFORE, LANES_OF_ROW
from kgen.ir.tags import AutoFitLocalInameTag, LocalInameTag
from kgen.transforms.reductions.builder import AccumulatorBuilder, AccumulatorType
from kgen.transforms.reductions.site import Site

__all__ = ["Lanes", "WarpRow", "find_row", "group_sizes"]


@dataclass(frozen=True)
class Lanes:
    """The axes of the work-items that cooperate, with their sizes.

    They are counted along the first axis first.
    """

    axes: tuple[tuple[LocalInameTag, int], ...]

    @property
    def count(self) -> int:
        """The number of work-items."""
        return math.prod(size for _, size in self.axes)


@dataclass(frozen=True)
class WarpRow:
    """Neighbouring work-items in one warp: how many, and the distance of their lanes.

    ``mask`` has a bit for each lane that runs the same instructions.
    """

    width: int
    stride: int
    mask: Expr

    def partners(self, values: Sequence[Expr], distance: int) -> list[Expr]:
        """Return the values of the work-item whose number is that of this one xor *distance*."""
        return self._calls(EXCHANGE.name, values, distance)

    def earlier(self, values: Sequence[Expr], distance: int) -> list[Expr]:
        """Return the values of the work-item a *distance* before; undefined if there is none."""
        return self._calls(LANE_BEFORE.name, values, distance)

    def _calls(self, name: str, values: Sequence[Expr], distance: int) -> list[Expr]:
        lanes = distance * self.stride
        return [p.Call(p.Variable(name), (self.mask, value, lanes)) for value in values]


def find_row(
    builder: AccumulatorBuilder, around: Site, lanes: Lanes, dtypes: Sequence[AccumulatorType]
) -> WarpRow | None:
    """Find how many neighbours of *lanes* may exchange values; ``None`` for none.

    All of them must run the same steps, and no row may cross a warp boundary: the length of a row
    times the distance is a power of two, and the counts along all later axes are multiples of it.
    """
    kernel = builder.kernel
    warp = kernel.target.exchange_width
    kinds = kernel.target.exchanged_kinds
    if warp is None or any(d is None or d.kind not in kinds for d in dtypes):
        return None
    if _may_diverge(builder, around):
        return None
    sizes = group_sizes(builder)
    first = lanes.axes[0][0].axis
    for k, (tag, size) in enumerate(lanes.axes):
        if tag.axis != first + k or (k < len(lanes.axes) - 1 and size != sizes[tag.axis]):
            return None
    stride = math.prod(sizes.get(k, 1) for k in range(first))
    row = math.prod(sizes.get(k, 1) for k in range(first + len(lanes.axes)))
    is_only = math.prod(sizes.values()) == row
    width = _power_of_two(lanes.count)
    while width > 1 and (stride * width > warp or not (is_only or row % (stride * width) == 0)):
        width //= 2
    if width == 1 or stride & (stride - 1):
        return None
    is_alone = is_only and stride == 1 and row == lanes.count
    if is_alone and (row <= warp or row % warp == 0):
        return WarpRow(width, 1, 2 ** min(row, warp) - 1)
    return WarpRow(width, stride, _mask(width, stride, warp))


def _may_diverge(builder: AccumulatorBuilder, around: Site) -> bool:
    """Tell whether data, or axes of unknown size, decide which work-items run a step."""
    kernel = builder.kernel
    if any(kernel.has_tag(name, AutoFitLocalInameTag) for name in kernel.inames):
        return True
    data = {*kernel.array_vars, *builder.temporaries}
    origins = frozenset(map(builder.loops.origin, around.within))
    outer = kernel.with_outer_inames(origins.intersection(kernel.inames))
    read = {
        *variable_names(*around.predicates),
        *(name for iname in outer for name in kernel.domain_parameters(iname)),
    }
    return not data.isdisjoint(read)


def _mask(width: int, stride: int, warp: int) -> Expr:
    """Return the mask of a lane's own row: the first row's, shifted by the other indices."""
    first_row = sum(1 << stride * lane for lane in range(width))
    others = (warp - 1) & ~(stride * (width - 1))
    return p.Call(p.Variable(LANES_OF_ROW.name), (first_row, others)) if others else first_row


def _power_of_two(number: int) -> int:
    """Return the largest power of two that divides a number."""
    return number & -number


def group_sizes(builder: AccumulatorBuilder) -> dict[int, int]:
    """Return the number of work-items along each axis of the kernel."""
    sizes: dict[int, int] = {}
    for axis in builder.kernel.axes.values():
        if isinstance(axis.tag, LocalInameTag):
            sizes[axis.tag.axis] = max(sizes.get(axis.tag.axis, 1), axis.size)
    return sizes
