"""Existential variables of sets that other variables can stand for."""

from __future__ import annotations

from typing import TypeAlias

import islpy as isl

from kgen.ir.sets.dims import BasicSet, Set, n_quotients
from kgen.ir.sets.domain import ConstraintRows

__all__ = ["drop_implied", "drop_implied_in_pieces"]

_DIV = isl.dim_type.div

#: ``{coefficients: constant}``: the inequalities, an equation as two
_Inequalities: TypeAlias = dict[tuple[int, ...], int]


def drop_implied_in_pieces(values: Set) -> Set:
    """Return the result of :func:`drop_implied` for each piece of a set."""
    pieces = values.get_basic_sets()
    changed = [drop_implied(piece) for piece in pieces]
    if all(new is old for new, old in zip(changed, pieces, strict=True)):
        return values
    result = isl.Set.empty(values.get_space())
    for piece in changed:
        result = result.union(piece.to_set())
    return result


def drop_implied(domain: BasicSet) -> BasicSet:
    """Drop existential variables for which the value of another variable will do.

    Projections leave them, and intersections collect copies of them: isl keeps all, and its time
    grows steeply with their number.

    >>> values = isl.BasicSet("{ [i] : exists a, b: 1 <= i, a, b and 6*a, 6*b, 6*i <= 50 }")
    >>> print(drop_implied(values))
    { [i] : 0 < i <= 8 }
    """
    while (implied := _find_implied(domain)) is not None:
        domain = domain.drop_constraints_involving_dims(_DIV, implied, 1)
    return domain


def _find_implied(domain: BasicSet) -> int | None:
    """Return the number of an existential variable that another variable can stand for."""
    unknown = _without_value(domain)
    if not unknown:
        return None
    rows = ConstraintRows.of(domain)
    known = _inequalities(rows)
    first = len(rows.params) + len(rows.dims)
    for k in unknown:
        at = first + k
        own = {row: constant for row, constant in known.items() if row[at]}
        others = (other for other in range(first + rows.n_existential) if other != at)
        if own and any(_hold(own, at, other, known) for other in others):
            return k
    return None


def _without_value(domain: BasicSet) -> list[int]:
    """Return the existential variables for which isl has no quotient of other variables."""
    count = n_quotients(domain)
    if not count:
        return []
    space = domain.get_local_space()
    return [k for k in range(count) if not _has_value(space, k)]


def _has_value(space: isl.LocalSpace, k: int) -> bool:
    try:
        space.get_div(k)
    except isl.Error:
        return False
    return True


def _inequalities(rows: ConstraintRows) -> _Inequalities:
    opposites = (tuple(-entry for entry in row) for row in rows.equalities)
    found: _Inequalities = {}
    for row in (*rows.equalities, *opposites, *rows.inequalities):
        *coefficients, constant = row
        key = tuple(coefficients)
        found[key] = min(constant, found.get(key, constant))
    return found


def _hold(own: _Inequalities, at: int, other: int, known: _Inequalities) -> bool:
    """Tell whether inequalities of the variable *at* follow if it has the value of *other*."""
    return all(_holds(_moved(row, at, other), constant, known) for row, constant in own.items())


def _holds(row: tuple[int, ...], constant: int, known: _Inequalities) -> bool:
    if not any(row):
        return constant >= 0
    return row in known and known[row] <= constant


def _moved(row: tuple[int, ...], at: int, other: int) -> tuple[int, ...]:
    """Return a row with the coefficient of *at* moved to *other*."""
    entries = list(row)
    entries[other] += entries[at]
    entries[at] = 0
    return tuple(entries)
