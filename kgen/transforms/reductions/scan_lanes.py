"""Scans across the work-items of a group: over distances 1, 2, 4..., in warps or local memory."""

from __future__ import annotations

from collections.abc import Sequence

import pymbolic.primitives as p

from kgen.ir.expr import Expr
from kgen.ir.tags import LocalInameTag, UnrollTag
from kgen.ir.types import AddressSpace
from kgen.transforms.reductions.scan_pieces import Steps
from kgen.transforms.reductions.site import Site
from kgen.transforms.reductions.warps import Lanes, WarpRow, find_row

__all__ = ["LaneScan"]


class LaneScan:
    """Appends the steps of a scan across the work-items from the *first* on, *count* of them.

    Values before and after a step are in two sets of arrays. One barrier between two steps is
    enough: no step writes what it reads. W. D. Hillis, G. L. Steele: Data parallel algorithms,
    Communications of the ACM 29 (1986). Where lanes of a warp exchange values, there are two steps:
    one within each row of lanes, one that adds the last values of the preceding rows.
    """

    def __init__(self, steps: Steps, first: int, count: int) -> None:
        self.steps = steps
        self.first = first
        self.count = count
        rows = steps.scan.rows.items()
        self._row = tuple(_shifted(p.Variable(name), -low) for name, (low, _) in rows)
        self._shape = (*(last - low + 1 for _, (low, last) in rows), count)
        self._sets: list[list[p.Variable]] = [self._allocate()]

    def _allocate(self) -> list[p.Variable]:
        steps, local = self.steps, AddressSpace.LOCAL
        name = f"{steps.suffix}_scan"
        return [steps.builder.temporary(name, d, self._shape, local) for d in steps.dtypes]

    def at(self, lane: Expr, distance: int = 0) -> list[Expr]:
        """Return the values of a lane, or of one that is a *distance* before it."""
        index = lane - self.first if isinstance(lane, int) else _shifted(lane, -self.first)
        index = index if isinstance(index, int) else _shifted(index, -distance)
        return [p.Subscript(array, (*self._row, index)) for array in self._sets[0]]

    @property
    def total(self) -> list[Expr]:
        """The values of the last lane."""
        return self.at(self.first + self.count - 1)

    def before(self, lane: Expr, start: Sequence[Expr], *, is_neutral: bool) -> list[Expr]:
        """Return *start* combined with the values of all lanes before one."""
        others = self.at(lane, 1)
        has_other = p.Comparison(lane, ">=", self.first + 1)
        joined = others if is_neutral else self.steps.combine(start, others)
        return [p.If(has_other, both, one) for both, one in zip(joined, start, strict=True)]

    def across(self, site: Site, lane: str, values: Sequence[Expr], waits: list[str]) -> list[str]:
        """Combine the values of all work-items up to each one; return the results' dependencies."""
        place = p.Variable(lane)
        row = self._warp_row(site)
        if row is not None:
            return self._across_rows(row, site, place, values, waits)
        waits = self._store(site, place, values, waits)
        distance = 1
        while distance < self.count:
            own, other = self.at(place), self.at(place, distance)
            joined = self.steps.combine(other, own)
            has_other = p.Comparison(place, ">=", self.first + distance)
            new = [p.If(has_other, both, mine) for both, mine in zip(joined, own, strict=True)]
            waits = self._step(site, place, new, waits)
            distance *= 2
        return waits

    def _warp_row(self, site: Site) -> WarpRow | None:
        """Return how many neighbours exchange values, if the lanes begin where their axis does."""
        scan, builder = self.steps.scan, self.steps.builder
        assert scan.lane is not None
        axis = builder.kernel.axes[scan.lane]
        assert isinstance(axis.tag, LocalInameTag)
        if axis.first != self.first or builder.kernel.target.exchange_width is None:
            return None
        return find_row(builder, site, Lanes(((axis.tag, self.count),)), self.steps.dtypes)

    def _across_rows(
        self, row: WarpRow, site: Site, lane: Expr, values: Sequence[Expr], waits: list[str]
    ) -> list[str]:
        """Combine within each row of lanes, then with the last values of the preceding rows."""
        own: Sequence[Expr] = values
        distance = 1
        number = p.Remainder(_shifted(lane, -self.first), row.width)
        while distance < row.width:
            others, waits = self._private(site, "other", row.earlier(own, distance), waits)
            has_other = p.Comparison(number, ">=", distance)
            joined = self.steps.combine(others, own)
            new = [p.If(has_other, both, mine) for both, mine in zip(joined, own, strict=True)]
            own, waits = self._private(site, "lane", new, waits)
            distance *= 2
        waits = self._store(site, lane, own, waits)
        if self.count == row.width:
            return waits
        before, starts = self._private(site, "before", self.steps.neutral, ())
        builder = self.steps.builder
        part = builder.loops.new_range("warp", 1, self.count // row.width, UnrollTag())
        start = p.Sum((self.first, p.Product((row.width, p.Variable(part)))))
        inside = site.inside([part]).guarded(p.Comparison(lane, ">=", start), [*waits, *starts])
        done = builder.combine(
            self.steps.reduction, before, self.at(start, 1), self.steps.dtypes, inside
        )
        is_later = p.Comparison(lane, ">=", self.first + row.width)
        joined = self.steps.combine(before, own)
        new = [p.If(is_later, both, mine) for both, mine in zip(joined, own, strict=True)]
        return self._step(site, lane, new, [*waits, *done])

    def _private(
        self, site: Site, name: str, values: Sequence[Expr], waits: Sequence[str]
    ) -> tuple[list[p.Variable], list[str]]:
        """Set new private variables to *values*; return them and the ids that do it."""
        steps = self.steps
        new = [steps.builder.temporary(f"{name}_{steps.suffix}", dtype) for dtype in steps.dtypes]
        return new, steps.assign(site, new, values, waits, f"{steps.suffix}_{name}")

    def _step(self, site: Site, lane: Expr, values: Sequence[Expr], waits: list[str]) -> list[str]:
        """Store new values into the other buffer, and switch to it."""
        if len(self._sets) == 1:
            self._sets.append(self._allocate())
        self._sets.reverse()
        return self._store(site, lane, values, waits)

    def _store(self, site: Site, lane: Expr, values: Sequence[Expr], waits: list[str]) -> list[str]:
        suffix = f"{self.steps.suffix}_scan"
        return self.steps.assign(site, self.at(lane), values, waits, suffix)


def _shifted(expr: Expr, by: int) -> Expr:
    if by == 0:
        return expr
    return p.Sum((expr, by) if isinstance(expr, p.Variable) else (*expr.children, by))
