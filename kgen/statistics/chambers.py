"""Sums and products of piecewise quasi-polynomials, as disjoint chambers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from kgen.ir.sets.dims import Set
from kgen.statistics.quasi import Poly, add, times

__all__ = ["Chambers", "TooManyPieces", "added", "multiplied"]

#: The maximum number of chambers of an exact formula.
MAX_CHAMBERS = 200


class TooManyPieces(Exception):
    """Ends a calculation whose exact result would have too many pieces."""


#: Sets of parameters, with the polynomial that is valid in each; zero elsewhere.
Chambers: TypeAlias = list[tuple[Set, Poly]]


def added(pieces: Iterable[tuple[Set, Poly]]) -> Chambers:
    """Return the sum of pieces that may overlap, as chambers that do not."""
    chambers: Chambers = []
    for domain, poly in pieces:
        rest, split = domain, []
        for chamber, known in chambers:
            both = chamber.intersect(rest)
            if both.is_empty():
                split.append((chamber, known))
                continue
            outside = chamber.subtract(rest)
            if not outside.is_empty():
                split.append((outside.coalesce(), known))
            split.append((both, add(known, poly)))
            rest = rest.subtract(chamber)
        if not rest.is_empty():
            split.append((rest.coalesce(), poly))
        chambers = split
        if len(chambers) > MAX_CHAMBERS:
            raise TooManyPieces
    return _joined(chambers)


def multiplied(left: Chambers, right: Chambers) -> Chambers:
    """Return the product of two sums, each of disjoint chambers."""
    products = [(first.intersect(second), times(a, b)) for first, a in left for second, b in right]
    return _joined((domain, poly) for domain, poly in products if not domain.is_empty())


def _joined(chambers: Iterable[tuple[Set, Poly]]) -> Chambers:
    """Unite the chambers with equal polynomials, and drop those with zero."""
    by_poly: dict[frozenset[object], tuple[Set, Poly]] = {}
    for domain, poly in chambers:
        if poly:
            key = frozenset(poly.items())
            known = by_poly.get(key)
            by_poly[key] = (domain if known is None else known[0].union(domain), poly)
    return [(domain.coalesce(), poly) for domain, poly in by_poly.values()]
