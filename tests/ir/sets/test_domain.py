"""Examples of points in sets."""

from __future__ import annotations

import islpy as isl
import pytest

from kgen.ir.sets import domain
from kgen.ir.sets.domain import sample_point, static_bounds

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


def test_without_an_answer_there_is_no_static_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    larger = isl.PwAff("[n, m] -> { [n] : n >= m; [m] : n < m }")
    smaller = isl.Set("[n, m] -> { : n >= m + 1 }")
    assert len(list(static_bounds(larger, smaller, largest=True))) == 1
    open_ones = isl.Set("[n, m] -> { : }")
    monkeypatch.setattr(domain, "answer", lambda question: None)
    assert not list(static_bounds(larger, open_ones, largest=True))


def test_conditions_on_parameters_alone_stay_by_quotients_too() -> None:
    loops = isl.BasicSet("[n, m] -> { [i, j] : 0 <= i < m and 0 <= j < 4 and n mod 2 = 0 }")
    rows = isl.BasicSet("[n, m] -> { [i] : 0 <= i < m and n mod 2 = 0 }")
    assert domain.keep_dims(loops, ["i"]).is_equal(rows)
