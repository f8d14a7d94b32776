"""Sequential reductions: accumulators that are initialized before a loop and updated in it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import pymbolic.primitives as p
from pytools.tag import Tag

from kgen.ir.expr import Expr, Reduction
from kgen.ir.tags import GroupInameTag, UnrollTag, VectorizeTag
from kgen.transforms.reductions.builder import Accumulated, AccumulatorBuilder, LoopRenamer
from kgen.transforms.reductions.site import Site, counted_from_zero

__all__ = ["Interleaved", "accumulate_in_loop", "loops_of_threads"]


@dataclass(frozen=True)
class Interleaved:
    """Loops whose instances each have an accumulator: ``ilp``, or loops inside that of a reduction.

    The loops *lanes* are tagged ``vec``.
    """

    inames: tuple[str, ...]
    first: tuple[int, ...]
    shape: tuple[int, ...]
    is_unrolled: bool = True
    lanes: frozenset[str] = frozenset()

    def every(
        self, builder: AccumulatorBuilder, totals: Sequence[Expr], *, are_combined: bool = False
    ) -> tuple[tuple[str, ...], tuple[Expr, ...]]:
        """Make loops over all entries; return their inames, and the entries in them.

        If they *are_combined*, the entries are combined in these loops, which run in order.
        """
        inames = tuple(
            builder.loops.new_range(f"{name}_each", 0, extent, *self._tags(name, are_combined))
            for name, extent in zip(self.inames, self.shape, strict=True)
        )
        index = tuple(map(p.Variable, inames))
        return inames, tuple(p.Subscript(total, index) for total in totals)

    def _tags(self, name: str, are_combined: bool) -> tuple[Tag, ...]:
        if name in self.lanes:
            return () if are_combined else (VectorizeTag(),)
        return (UnrollTag(),) if self.is_unrolled else ()

    def own(self, totals: Sequence[Expr], copies: Mapping[str, str]) -> tuple[Expr, ...]:
        """Return the entries that the instances of the loops update."""
        index = tuple(
            counted_from_zero(p.Variable(copies.get(name, name)), first)
            for name, first in zip(self.inames, self.first, strict=True)
        )
        return tuple(p.Subscript(total, index) for total in totals)


def accumulate_in_loop(
    builder: AccumulatorBuilder,
    reduction: Reduction,
    site: Site,
    interleaved: Interleaved | None = None,
    renamed: Mapping[str, str] = MappingProxyType({}),
) -> Accumulated:
    """Append the loops that compute *reduction*.

    The accumulators are arrays, one entry per instance, for instances that run *interleaved*.
    Enclosing loops that are *renamed* are inside its own loops.
    """
    root, suffix = str(site.insn.id), "_".join(reduction.inames)
    dtypes = builder.types_of(reduction)
    shared = "simul_reduce" if reduction.allow_simultaneous else site.sharers
    copies = builder.loops.loops_for(reduction, site.place, shared, root)
    builder.loops.run_in_order(copies.get(name, name) for name in reduction.inames)
    around = builder.loops.loops_shared(reduction, root)
    before = site.without(builder.inside(around, site.depends_on))
    before = before.hoisted(frozenset(renamed.values()))
    before = before.inside(loops_of_threads(builder, reduction, copies))
    shape = () if interleaved is None else interleaved.shape
    totals = tuple(builder.temporary(f"acc_{suffix}", dtype, shape) for dtype in dtypes)
    accumulators: tuple[Expr, ...] = totals
    places: tuple[Expr, ...] = totals
    if interleaved is not None:
        inames, places = interleaved.every(builder, totals)
        before = before.inside(inames)
        accumulators = interleaved.own(totals, {**copies, **renamed})
    neutral = builder.starts(reduction, dtypes)
    starts = builder.assign(before, places, neutral, (), f"{root}_{suffix}_init")
    inner = dataclasses.replace(
        site.inside(copies.get(name, name) for name in reduction.inames),
        place=site.place.inside(reduction.inames, copies),
        sharers=starts[0],
    )
    replaced = {old: p.Variable(new) for old, new in (*renamed.items(), *copies.items())}
    rename = LoopRenamer(replaced)
    operands = tuple(rename(part) for part in reduction.exprs) if replaced else reduction.exprs
    writers = builder.add_up(reduction, accumulators, operands, inner, starts)
    return Accumulated(totals, tuple(writers))


def loops_of_threads(
    builder: AccumulatorBuilder, reduction: Reduction, copies: Mapping[str, str]
) -> list[str]:
    """Return the loops of a reduction in which each thread has its own accumulators.

    They are the loops over work-groups, on targets that run work-items in loops.
    """
    kernel = builder.kernel
    if not (kernel.target.has_hardware_axes and kernel.target.loops_over_items):
        return []
    return [
        copies.get(name, name) for name in reduction.inames if kernel.has_tag(name, GroupInameTag)
    ]
