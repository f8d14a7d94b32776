"""All points of a set without parameters, up to a limit."""

from __future__ import annotations

from collections.abc import Collection

import islpy as isl

from kgen.ir.sets.dims import (
    Set,
    dim_names,
    dims_to_params,
    in_order,
    largest_value,
    least_value,
    params_to_dims,
    point_values,
)

__all__ = ["TooManyPointsError", "first_points", "points_of"]


class TooManyPointsError(ValueError):
    """The reason why the points of a set are not listed."""


def points_of(domain: Set, most: int, *, slack: int = 8) -> list[tuple[int, ...]]:
    """Return the points of a set whose parameters have values.

    Raises :class:`TooManyPointsError` if there are more than *most*, or infinitely many; and
    if their bounding box, which isl searches, has more than *slack* times as many.
    """
    names = dim_names(domain)
    if not names or domain.is_empty():
        return [] if domain.is_empty() else [()]
    box = 1
    for name in names:
        low, high = least_value(domain, name), largest_value(domain, name)
        if not (low.is_int() and high.is_int()):
            raise TooManyPointsError(f"the loop '{name}' has no end")
        box *= high.to_python() - low.to_python() + 1
        if box > slack * most:
            raise TooManyPointsError("there are too many instances")
    found: list[tuple[int, ...]] = []

    def note(point: isl.Point) -> None:
        found.append(point_values(point, len(names)))

    domain.foreach_point(note)
    if len(found) > most:
        raise TooManyPointsError("there are too many instances")
    return found


def first_points(domain: Set, names: Collection[str]) -> Set:
    """Return, for each value of the dimensions *names*, the first point of the others.

    >>> print(first_points(isl.Set("{ [i, j]: 0 <= i < 2 and 1 - i <= j < 9 }"), ("i",)))
    { [i, j = 1 - i] : 0 <= i <= 1 }
    """
    every = dim_names(domain)
    first = params_to_dims(dims_to_params(domain, names).lexmin(), names)
    return in_order(first, every)
