"""Examples of points in sets."""

from __future__ import annotations

import islpy as isl
import pytest

from kgen.ir.sets import domain
from kgen.ir.sets.domain import dim_min, sample_point, static_bounds
from kgen.ir.sets.quasi_affine import aff_to_expr

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


def test_a_set_has_a_least_point_whatever_isl_takes_its_minimum_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    minimum = isl.Set.dim_min_val
    monkeypatch.setattr(isl.Set, "dim_min_val", lambda points, k: minimum(points, k).sub(2))
    points = isl.Set("{ [a, b] : 3 <= a < 9 and a mod 4 = 1 and a < b < 9 }")
    assert sample_point(points) == {"a": 5, "b": 6}


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


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("[n] -> { [i]: n mod 4 = 0 and n <= 4i and i <= n }", "n // 4"),
        ("[n] -> { [i]: n mod 2 = 1 and n - 2 <= 2i <= n + 9 }", "(n + 1) // 2 + -1"),
    ],
)
def test_static_bounds_are_whole_numbers(text: str, wanted: str) -> None:
    domain = isl.Set(text)
    (low,) = static_bounds(dim_min(domain, "i"), isl.Set("[n] -> { : n >= 0 }"), largest=False)
    assert str(aff_to_expr(low)) == wanted
