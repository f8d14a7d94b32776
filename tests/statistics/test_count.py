"""Counts of sets: against enumeration, and in the form that people read."""

from __future__ import annotations

import os
import random

import islpy as isl
import pytest

import kgen as lp
from kgen.errors import KernelError
from kgen.statistics import Interval, chambers, count
from tests.statistics.random_sets import fix_params, random_params, random_set

NUMBER = int(os.environ.get("KGEN_RANDOM_SETS", "120"))


@pytest.mark.parametrize("seed", range(NUMBER))
def test_random_set_has_as_many_points_as_counted(seed: int) -> None:
    points = random_set(seed)
    counted = count(points)
    assert isinstance(counted, isl.PwQPolynomial)
    rng = random.Random(seed)
    for _ in range(10):
        values = random_params(points, rng)
        expected = fix_params(points, values).count_val().to_python()
        assert counted.eval_with_dict(values) == expected, values


@pytest.mark.parametrize(
    ("points", "wanted"),
    [
        ("[n, m] -> { [i, j] : 0 <= i < n and 0 <= j < m }", "n * m : n > 0 and m > 0"),
        ("[n] -> { [i, j] : 0 <= i <= j < n }", "(1/2 * n + 1/2 * n^2) : n > 0"),
        ("[n] -> { [o, i] : 0 <= i < 16 and 0 <= 16o + i < n }", "n : n > 0"),
        ("[n] -> { [o] : exists i : 0 <= i < 16 and 0 <= 16o + i < n }", "floor((15 + n)/16)"),
        ("[n] -> { [i] : 0 <= i < n and i mod 3 = 1 }", "floor((1 + n)/3) : n >= 2"),
        ("[n] -> { [i, j, k] : 0 <= i < n and i <= j < i + 4 and k = 2i }", "4 * n : n > 0"),
        ("[n] -> { [i] : 0 <= i < 10 and n > 3 }", "10 : n >= 4"),
        ("{ [i] : 3 <= i < 10 }", "{ 7 }"),
        ("[n] -> { : n > 3 }", "1 : n >= 4"),
        ("[n] -> { [i] : i > 3 and i < 2 }", "{ 0 }"),
    ],
)
def test_counts_are_short(points: str, wanted: str) -> None:
    assert wanted in str(count(isl.Set(points)))


def test_union_counts_what_is_in_both_once() -> None:
    points = isl.Set("[n] -> { [i] : 0 <= i < n; [i] : n - 5 <= i < n + 5 }")
    assert count(points).eval_with_dict({"n": 100}) == 105


def test_infinite_set_is_refused() -> None:
    with pytest.raises(KernelError, match="infinitely many points"):
        count(isl.Set("[n] -> { [i, j] : 0 <= i < n and j >= i }"))


def test_what_takes_too_long_is_an_interval_that_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chambers, "MAX_CHAMBERS", 1)
    points = isl.Set("[n, m] -> { [i, j] : 0 <= i < n and i mod 2 = 0 and i <= j < m }")
    counted = count(points)
    assert isinstance(counted, Interval)
    assert "too many pieces" in str(counted)
    for n in range(6):
        values = {"n": n, "m": 7 - n}
        exact = fix_params(points, values).count_val().to_python()
        found = counted.eval_with_dict(values)
        low, high = (found.low, found.high) if isinstance(found, Interval) else (found, found)
        assert low <= exact <= high


def test_interval_of_one_number_is_that_number() -> None:
    one, two = isl.PwQPolynomial("[n] -> { n : n < 5 }"), isl.PwQPolynomial("[n] -> { n }")
    interval = Interval(one, two, ("it is data",))
    assert interval.eval_with_dict({"n": 3}) == 3
    assert str(interval.eval_with_dict({"n": 7}) * 2) == "between 0 and 14: it is data"


def test_a_count_holds_under_the_assumptions_of_a_kernel() -> None:
    knl = lp.make_kernel("{[i]: 0 <= i < n}", "w[i] = 1", assumptions="n >= 3")
    points = isl.Set("[n] -> { [i] : 0 <= i < n }")
    found = count(knl.default_entrypoint, points)
    assert str(found) == "[n] -> { n : n >= 3 }"
    with pytest.raises(lp.KernelError, match=r"count\(kernel, points\)"):
        count(knl.default_entrypoint)
