"""Intervals hold exactly the results of arithmetic on the integers in them, or more."""

from __future__ import annotations

from itertools import product

from kgen.ir.sets.interval import ANYTHING, Interval

SOME = [Interval(a, b) for a in range(-7, 8, 3) for b in range(a, 8, 4)]


def values(one: Interval) -> range:
    assert one.low is not None
    assert one.high is not None
    return range(one.low, one.high + 1)


def around(numbers: list[int]) -> Interval:
    return Interval(min(numbers), max(numbers))


def test_arithmetic_of_two_is_tight() -> None:
    for one, two in product(SOME, SOME):
        pairs = [(a, b) for a in values(one) for b in values(two)]
        assert one + two == around([a + b for a, b in pairs])
        assert one * two == around([a * b for a, b in pairs])
        assert one.minimum(two) == around([min(pair) for pair in pairs])
        assert one.maximum(two) == around([max(pair) for pair in pairs])


def test_quotients_are_tight() -> None:
    for one in SOME:
        assert one // 3 == around([a // 3 for a in values(one)])
        assert one.truncated(3) == around([int(a / 3) for a in values(one)])


def test_what_has_no_end_stays_without() -> None:
    assert Interval(2) + Interval(-5, 1) == Interval(-3)
    assert Interval(2) * Interval(3) == Interval(6)
    assert Interval(-2) * Interval(3) == ANYTHING
    assert Interval(-7).truncated(2) == Interval(-3)
    assert (Interval(2).count, Interval(2).only, Interval(2, 2).only) == (None, None, 2)
