"""Index-set splitting: the iterations in a set, and disjoint convex pieces of the others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import islpy as isl

from kgen.ir.sets.dims import (
    Row,
    Set,
    involved_params,
    involves_quotient,
    isl_int,
    param_coefficient,
    rows_of,
)

__all__ = ["disjoint_parts", "partition"]


def partition(domain: Set, subset: Set, order: Sequence[str]) -> tuple[list[Set], list[Set]]:
    """Return convex sets that partition the points of *domain* into those in *subset* and others.

    Both are named sets, and so are the pieces, which contain only conditions: a point of *domain*
    satisfies those of exactly one piece. The *order* of the loops, from the outside in, determines
    how the others are cut: the first and last iterations of an outer loop are pieces first. For a
    box in a box, these are its sides::

        { 0 <= i, j < n }        inside: 1 <= i, j < n - 1
        by 1 <= i, j < n - 1     others: i < 1;  i >= n - 1;  j < 1 and 1 <= i < n - 1;  ...
    """
    chosen = subset.gist(domain).coalesce().make_disjoint()
    inside = [piece for piece in _convex(chosen) if not piece.is_disjoint(domain)]
    others = [isl.Set.universe(domain.get_space())]
    for piece in inside:
        others = [
            part
            for whole in others
            for part in _without(whole, piece, order)
            if not part.is_disjoint(domain)
        ]
    return inside, others


def disjoint_parts(values: Set) -> list[Set]:
    """Return disjoint convex sets whose union is a set.

    >>> disjoint_parts(isl.Set("{ [i] : 0 <= i < 4 or i = 4 }"))
    [Set("{ [i] : 0 <= i <= 4 }")]
    """
    return _convex(values.coalesce().make_disjoint().coalesce())


def _convex(values: Set) -> list[Set]:
    return [isl.Set.from_basic_set(part) for part in values.get_basic_sets()]


def _without(whole: Set, piece: Set, order: Sequence[str]) -> Iterator[Set]:
    """Yield disjoint convex parts of *whole* that are not in the convex *piece*."""
    rows = sorted(rows_of(piece), key=lambda row: _place(row, order))
    if any(map(involves_quotient, rows)):
        yield from _convex(whole.subtract(piece).make_disjoint())
        return
    for row in rows:
        for side in _opposites(row):
            yield whole.add_constraint(side)
        whole = whole.add_constraint(row)


def _place(row: Row, order: Sequence[str]) -> tuple[int, bool, str]:
    """Order constraints by the innermost loop that they bound; lower bounds come first."""
    bounded = [name for name in order if name in involved_params(row)]
    if not bounded:
        return -1, False, str(row)
    is_upper = bool(param_coefficient(row, bounded[-1]).is_neg())
    return order.index(bounded[-1]), is_upper, str(row)


def _opposites(row: Row) -> Iterator[Row]:
    """Yield the complements of a constraint: for an equation, both sides of it."""
    value = row.get_aff()
    yield isl.Constraint.inequality_from_aff(value.neg().add_constant_val(isl_int(-1)))
    if row.is_equality():
        yield isl.Constraint.inequality_from_aff(value.add_constant_val(isl_int(-1)))
