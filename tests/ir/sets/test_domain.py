"""Examples of points in sets."""

from __future__ import annotations

import islpy as isl

from kgen.ir.sets.domain import sample_point

#: In reverse order, isl's ``lexmin`` takes these for empty: ``c = 1, d = 3`` is implicit.
ROWS = (
    "n mod 2 = 0",
    "a >= 0",
    "20*a + 4*b <= n - 1",
    "4*c + d >= 7",
    "c <= 1",
    "0 <= b",
    "b <= 4",
    "d >= 0",
    "d <= 3",
    "d >= n - 4*c",
)


def test_a_set_has_a_least_point_whatever_isl_takes_it_for() -> None:
    points = isl.BasicSet("{ [n, a, b, c, d] : n >= 0 and c >= 0 }")
    for row in reversed(ROWS):
        points = isl.BasicSet(f"{{ [n, a, b, c, d] : {row} }}").intersect(points)
    assert sample_point(points.to_set()) == {"n": 2, "a": 0, "b": 0, "c": 1, "d": 3}
