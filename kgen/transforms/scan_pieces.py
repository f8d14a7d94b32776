"""What all scans are made of: accumulators, their start, and what a step adds to them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pymbolic.primitives as p

from kgen.analysis.prefixes import domain_inside
from kgen.ir.domain import BasicSet, rename_dims
from kgen.ir.expr import Expr, Reduction, substitute, variable_names
from kgen.ir.types import KgenType

if TYPE_CHECKING:
    from kgen.transforms.reduction_context import Context
    from kgen.transforms.reduction_realizer import Realizer
    from kgen.transforms.scan import Scan

__all__ = ["Steps"]


class Steps:
    """Appends the instructions of one scan."""

    def __init__(
        self,
        realizer: Realizer,
        reduction: Reduction,
        scan: Scan,
        context: Context,
    ) -> None:
        found = realizer.typer(reduction)
        self.dtypes: tuple[KgenType, ...] = found if isinstance(found, tuple) else (found,)
        self.realizer = realizer
        self.reduction = reduction
        self.scan = scan
        self.context = context
        self.suffix = "_".join(reduction.inames)

    def combine(self, before: Sequence[Expr], after: Sequence[Expr]) -> tuple[Expr, ...]:
        """Return the values of two neighbouring pieces together."""
        return tuple(self.reduction.operation.combine(before, after, self.dtypes))

    @property
    def neutral(self) -> tuple[Expr, ...]:
        """What nothing combines to."""
        return tuple(self.reduction.operation.neutral(self.dtypes))

    # -- places -------------------------------------------------------------------------------

    def before_loops(self, context: Context, loops: tuple[str, ...]) -> Context:
        """Return the place before *loops*, which waits for what is outside of them."""
        outside = context.without(self.realizer.inside(frozenset(loops), context.depends_on))
        return dataclasses.replace(outside, within=context.within.difference(loops))

    def copy_loops(self, loops: tuple[str, ...], names: Mapping[str, str]) -> dict[str, str]:
        """Make loops like some of the scan, whose loops around them are called *names*.

        Return ``old -> new``.
        """
        if not loops:
            return {}
        realizer, sweep = self.realizer, self.scan.sweep
        others = self.context.insn.within_inames.difference(sweep)
        around = others.union(sweep[: sweep.index(loops[0])])
        domain = domain_inside(realizer.kernel, around, loops)
        copies = realizer.loops.add(loops, rename_dims(domain, names))
        realizer.loops.nest(tuple(copies.values()))
        realizer.types.update((new, realizer.kernel.index_dtype) for new in copies.values())
        return copies

    # -- instructions -------------------------------------------------------------------------

    def accumulators(
        self, context: Context, values: Sequence[Expr], waits: Sequence[str] = ()
    ) -> tuple[list[p.Variable], list[str]]:
        """Set new accumulators to *values*; return them and the ids that do it."""
        names = [self.realizer.temporary(f"acc_{self.suffix}", dtype) for dtype in self.dtypes]
        return names, self.assign(context, names, values, waits, f"{self.suffix}_init")

    def assign(
        self,
        context: Context,
        places: Sequence[Expr],
        values: Sequence[Expr],
        waits: Sequence[str],
        suffix: str,
    ) -> list[str]:
        """Append one assignment per place, all after *waits*; return their ids."""
        ids = []
        for place, value in zip(places, values, strict=True):
            ids.append(self.realizer.new_id(f"{context.insn.id}_{suffix}"))
            context.out.append(context.assign(ids[-1], place, value, *waits))
            self.realizer.update_of[variable_names(place)[0]] = ids[-1]
        return ids

    def add_new(
        self,
        context: Context,
        names: Mapping[str, str],
        accumulators: Sequence[p.Variable],
        waits: list[str],
    ) -> list[str]:
        """Combine accumulators with what is new at a step, its loops called *names*."""
        for piece in self.scan.pieces:
            waits = self._add_piece(context, rename_dims(piece, names), accumulators, waits)
        return waits

    def _add_piece(
        self,
        context: Context,
        piece: BasicSet,
        accumulators: Sequence[p.Variable],
        waits: list[str],
    ) -> list[str]:
        reduction, realizer = self.reduction, self.realizer
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
