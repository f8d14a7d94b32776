"""Common parts of all scans: accumulators, their initialization and update."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import pymbolic.primitives as p

from kgen.analysis.prefixes import domain_inside
from kgen.ir.expr import Expr, Reduction, substitute
from kgen.ir.sets.dims import BasicSet, rename_dims
from kgen.transforms.reductions.builder import AccumulatorBuilder, known_types
from kgen.transforms.reductions.scan import Scan
from kgen.transforms.reductions.site import Site

__all__ = ["Steps"]


class Steps:
    """Appends the instructions of one scan."""

    def __init__(
        self,
        builder: AccumulatorBuilder,
        reduction: Reduction,
        scan: Scan,
        site: Site,
    ) -> None:
        self.dtypes = builder.types_of(reduction)
        self.builder = builder
        self.reduction = reduction
        self.scan = scan
        self.site = site
        self.suffix = "_".join(reduction.inames)

    def combine(self, before: Sequence[Expr], after: Sequence[Expr]) -> tuple[Expr, ...]:
        """Return the combined values of two adjacent pieces."""
        return self.reduction.operation.combine(before, after, known_types(self.dtypes))

    @property
    def neutral(self) -> tuple[Expr, ...]:
        """The neutral elements."""
        return self.builder.starts(self.reduction, self.dtypes)

    # -- places -------------------------------------------------------------------------------

    def before_loops(self, site: Site, loops: tuple[str, ...]) -> Site:
        """Return the place before *loops*, with the dependencies outside them."""
        inside = self.builder.inside(frozenset(loops), site.depends_on)
        return site.without(inside).outside(loops)

    def copy_loops(self, loops: tuple[str, ...], names: Mapping[str, str]) -> dict[str, str]:
        """Make loops like some of the scan, whose enclosing loops are called *names*.

        Return ``old -> new``.
        """
        if not loops:
            return {}
        builder, sweep = self.builder, self.scan.sweep
        others = self.site.insn.within_inames.difference(sweep)
        around = others.union(sweep[: sweep.index(loops[0])])
        domain = domain_inside(builder.kernel, around, loops)
        copies = builder.loops.add(loops, rename_dims(domain, names))
        builder.loops.nest(tuple(copies.values()))
        builder.loops.run_in_order(copies.values())
        return copies

    # -- instructions -------------------------------------------------------------------------

    def accumulators(
        self, site: Site, values: Sequence[Expr], waits: Sequence[str] = ()
    ) -> tuple[list[p.Variable], list[str]]:
        """Set new accumulators to *values*; return them and the ids that do it."""
        names = [self.builder.temporary(f"acc_{self.suffix}", dtype) for dtype in self.dtypes]
        return names, self.assign(site, names, values, waits, f"{self.suffix}_init")

    def assign(
        self,
        site: Site,
        places: Sequence[Expr],
        values: Sequence[Expr],
        waits: Sequence[str],
        suffix: str,
    ) -> list[str]:
        """Append one assignment per place, all after *waits*; return their ids."""
        ids = self.builder.assign(site, places, values, waits, f"{site.insn.id}_{suffix}")
        self.builder.note_writers(places, ids)
        return ids

    def add_new(
        self,
        site: Site,
        names: Mapping[str, str],
        accumulators: Sequence[p.Variable],
        waits: list[str],
    ) -> list[str]:
        """Combine accumulators with the new elements of a step, whose loops are called *names*."""
        for piece in self.scan.pieces:
            waits = self._add_piece(site, rename_dims(piece, names), accumulators, waits)
        return waits

    def _add_piece(
        self,
        site: Site,
        piece: BasicSet,
        accumulators: Sequence[p.Variable],
        waits: list[str],
    ) -> list[str]:
        reduction, builder = self.reduction, self.builder
        copies = builder.loops.add(reduction.inames, piece)
        renamed = {old: p.Variable(new) for old, new in copies.items()}
        operands = tuple(substitute(part, renamed) for part in reduction.exprs)
        inner = dataclasses.replace(
            site,
            within=site.within.union(copies.values()),
            place=site.place.inside(reduction.inames, copies),
            sharers=tuple(copies.values()),
        )
        return builder.add_up(reduction, accumulators, operands, inner, waits)
