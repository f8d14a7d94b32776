"""Scans across work-groups in one launch: each group looks back at the totals of earlier groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pymbolic.primitives as p

from kgen.analysis.prefixes import domain_inside
from kgen.ir.expr import Expr, is_constant
from kgen.ir.sets.dims import dims_to_params, project_out_params, rename_dims
from kgen.ir.sets.text import parse_domain, parse_set
from kgen.ir.tags import GroupInameTag, LocalInameTag, LookBackTag, PublishTag
from kgen.ir.target import WARP_SIZE
from kgen.ir.types import AddressSpace, NumpyType
from kgen.transforms.reductions.builder import AccumulatorType, known_types
from kgen.transforms.reductions.scan_pieces import Steps
from kgen.transforms.reductions.site import Site, counted_from_zero
from kgen.transforms.reductions.tree import rows_of

__all__ = ["can_publish", "entries_of", "look_back", "looks_back", "widest"]

#: The bytes of numbers that can be published, and of a word, half of which is a status.
_SIZES: Final = (1, 2, 4, 8, 16)
_WORD: Final = 8


def entries_of(dtype: NumpyType) -> int:
    """Return how many elements of a type fit in a row of published words.

    >>> import kgen as lp
    >>> names = ("int8", "float16", "float32", "float64", "complex128")
    >>> [entries_of(lp.to_kgen_type(name)) for name in names]
    [8, 4, 2, 2, 2]
    """
    words = -(-2 * dtype.itemsize // _WORD)
    return words * _WORD // dtype.itemsize


def can_publish(dtype: AccumulatorType) -> bool:
    """Tell whether groups can publish values of a type: numbers of up to 16 bytes."""
    return dtype is not None and dtype.kind in "biufc" and dtype.itemsize in _SIZES


def widest(count: int) -> int:
    """Return how many of *count* work-items look back together: all warps, or a part of one.

    >>> [widest(count) for count in (1, 7, 48, 96, 256)]
    [1, 4, 32, 96, 256]
    """
    return min(WARP_SIZE, 1 << count.bit_length() - 1) if count % WARP_SIZE else count


def looks_back(steps: Steps) -> bool:
    """Tell whether the groups of a scan can wait for each other in one launch.

    The target must allow it, all work-items of a group must work on the scan, and groups must be
    on one axis, with one group for each value.
    """
    scan, builder, site = steps.scan, steps.builder, steps.site
    kernel = builder.kernel
    if not kernel.target.looks_back or len(scan.groups) != 1:
        return False
    if not all(map(can_publish, steps.dtypes)):
        return False
    around = site.insn.within_inames.difference(scan.sweep)
    on = (GroupInameTag, LocalInameTag) if scan.lane is None else GroupInameTag
    if not all(kernel.has_tag(name, on) for name in around):
        return False
    lane = None if scan.lane is None else kernel.axes[scan.lane].tag.axis
    return lane in (None, 0) and _follow_each_other(steps, scan.groups[0], around)


def _follow_each_other(steps: Steps, group: str, around: frozenset[str]) -> bool:
    """Tell whether there is a group for each index from the first one of the axis on."""
    kernel = steps.builder.kernel
    first = kernel.axes[group].first
    if not is_constant(first):
        return False
    domain = domain_inside(kernel, around, (group,)).to_set()
    q = "kgen_before"
    before = parse_set(f"[{group}] -> {{ [{q}] : {first} <= {q} < {group} }}")
    before = before.intersect_params(dims_to_params(domain, (group,)).params())
    before = project_out_params(before, (group,))
    return bool(before.is_subset(rename_dims(domain, {group: q})))


def look_back(
    steps: Steps, site: Site, totals: Sequence[Expr], waits: Sequence[str]
) -> tuple[list[Expr], list[str]]:
    """Append the computation of the total of all groups before each one; *site* is in their loop.

    All work-items of a group know the *totals* of the group. Return the preceding totals, which all
    of them then know, and the dependencies. In a loop over work-items, each of them has its own
    totals, and looks back separately.

    ::

        total = ...
        part[g + 1, 0] = total              {tags=publish}    # by one work-item
        before = 0
        for q                                                 # 0 <= q < g
          other = part[q + 1, 0]            {tags=look_back}  # waits for group q
          before = before + other           {tags=look_back}
        end q
        upto = before + total
        part[g + 1, 1] = upto               {tags=publish}    # by one work-item
        start = before                                        # in local memory

    In the generated code, the lanes of a warp read the parts of as many groups at a time, nearest
    first, until one of these has published the total of all groups up to it. Row 0 counts the
    groups that have begun: groups are numbered in this order, so each group waits only for groups
    that already run. D. Merrill, M. Garland: Single-pass parallel prefix scan with decoupled
    look-back, NVIDIA NVR-2016-002.
    """
    return _LookBack(steps, site).append(totals, waits)


class _LookBack:
    """Appends the instructions of one look-back."""

    def __init__(self, steps: Steps, site: Site) -> None:
        self.steps = steps
        self.builder = steps.builder
        kernel, loops = self.builder.kernel, self.builder.loops
        (self.group,) = steps.scan.groups
        axis = kernel.axes[self.group]
        self.first = axis.first
        self.number = counted_from_zero(p.Variable(self.group), axis.first)
        self.name = str(self.builder.new_id(f"{site.insn.id}_{steps.suffix}"))
        lane = None if steps.scan.lane is None else kernel.axes[steps.scan.lane].tag
        self.rows = rows_of(self.builder, site.outside([self.group]), (axis.tag,), GroupInameTag)
        others = rows_of(self.builder, site, () if lane is None else (lane,), LocalInameTag)
        # warps can wait for each other only if no others are idle meanwhile
        count, is_alone = steps.scan.count, kernel.grid.locals == (steps.scan.count,)
        self.width = widest(count) if is_alone else min(widest(count), WARP_SIZE)
        #: whether all work-items know the result of their look-back
        self.is_known = is_alone and self.width == count
        alone = site.inside(loops.lane(tag, 1) for tag in others.idle)
        self.warp = alone.inside(() if lane is None else [loops.lane(lane, self.width)])
        self.one = alone.inside(() if lane is None else [loops.lane(lane, 1)])
        self.storing = self.one.inside(loops.lane(tag, 1) for tag in self.rows.idle)
        self.own = others.index
        shape = (*self.rows.shape, p.Sum((axis.length, 1)), *others.shape)
        self.parts = [
            self.builder.temporary(
                f"part_{steps.suffix}", dtype, (*shape, entries_of(dtype)), AddressSpace.GLOBAL
            )
            for dtype in known_types(steps.dtypes)
        ]

    def append(self, totals: Sequence[Expr], waits: Sequence[str]) -> tuple[list[Expr], list[str]]:
        """Append all; return the totals of preceding groups, and the dependencies for their use."""
        steps, mine = self.steps, self._private("total")
        found = self._assign(self.warp, mine, totals, waits, "total")
        published = self._publish(mine, found, is_total=True)
        before, done = self._combine(published)
        upto = self._private("upto")
        sums = self._assign(self.warp, upto, steps.combine(before, mine), done, "upto")
        self._publish(upto, [*sums, *published], is_total=False)
        if self.own or self.is_known:
            return list(before), done
        name = f"start_{steps.suffix}"
        start = [self.builder.temporary(name, d, (), AddressSpace.LOCAL) for d in steps.dtypes]
        return list(start), self._assign(self.one, start, before, done, "start")

    def _publish(
        self, values: Sequence[Expr], waits: Sequence[str], *, is_total: bool
    ) -> list[str]:
        """Publish the totals of this group to other groups."""
        with self.builder.tagged(PublishTag(self.name, is_total)):
            places = self._parts_of(self.number, 0 if is_total else 1)
            return self._assign(self.storing, places, values, waits, "publish")

    def _combine(self, waits: Sequence[str]) -> tuple[list[p.Variable], list[str]]:
        """Combine the published totals of preceding groups."""
        steps, builder = self.steps, self.builder
        before, others = self._private("before"), self._private("other")
        starts = self._assign(self.warp, before, steps.neutral, (), "before")
        q, group = builder.loops.new_iname(f"{self.group}_before"), self.group
        bounds = f"0 <= {q} < {group} - {self.first}"
        builder.loops.add_domain(parse_domain(f"[{group}] -> {{ [{q}] : {bounds} }}"))
        inside = self.warp.inside([q])
        with builder.tagged(LookBackTag(self.name, self.width)):
            parts = self._parts_of(p.Variable(q), 0)
            reads = self._assign(inside, others, parts, [*waits, *starts], "look_back")
            adding = inside.after(reads)
            return before, builder.combine(steps.reduction, before, others, steps.dtypes, adding)

    def _parts_of(self, group: Expr, entry: int) -> list[Expr]:
        index = (*self.rows.index, p.Sum((group, 1)), *self.own, entry)
        return [p.Subscript(part, index) for part in self.parts]

    def _private(self, name: str) -> list[p.Variable]:
        name = f"{name}_{self.steps.suffix}"
        return [self.builder.temporary(name, dtype) for dtype in self.steps.dtypes]

    def _assign(
        self,
        site: Site,
        places: Sequence[Expr],
        values: Sequence[Expr],
        waits: Sequence[str],
        suffix: str,
    ) -> list[str]:
        return self.steps.assign(site, places, values, waits, f"{self.steps.suffix}_{suffix}")
