"""The first value and the number of values of a loop, in all forms."""

from __future__ import annotations

import islpy as isl
import pytest

from kgen.errors import StaticValueFindingError
from kgen.ir.expr import to_text
from kgen.ir.sets.interval import Interval
from kgen.ir.sets.loop_range import LoopRange
from kgen.ir.sets.text import parse_assumptions


def test_bounds_are_numbers_where_they_can_be() -> None:
    domain = isl.Set("[n, o] -> {[k]: 2 <= k < 6 and k < n - 4*o}")
    bounds = LoopRange(domain, "k", parse_assumptions(None), ("o",))
    assert (bounds.lower, bounds.extent, bounds.is_constant) == (2, 4, True)


def test_bounds_do_not_mention_outer_loops() -> None:
    domain = isl.Set("[n, o] -> {[k]: 0 <= k < o and 0 < o < n}")
    bounds = LoopRange(domain, "k", parse_assumptions("n >= 2"), ("o",))
    assert (bounds.lower, to_text(bounds.extent), bounds.is_constant) == (0, "n - 1", False)


def test_ends_in_pieces_have_the_parameters_of_assumptions_too() -> None:
    text = """[n] -> { [i]: i >= 0 and 3*floor((1 - i)/3) <= -i
        and 3*floor((1 - i)/3) <= n - 2 - 3*i }"""
    bounds = LoopRange(isl.Set(text), "i", parse_assumptions("m >= 0 and n > 0"))
    assert bounds.lower == 0
    assert to_text(bounds.extent) == "(n + 1) // 2"


def test_bounds_without_one_expression_are_refused() -> None:
    domain = isl.Set("[n, m] -> {[k]: 0 <= k < n or 0 <= k < m}")
    bounds = LoopRange(domain, "k", parse_assumptions(None))
    assert not bounds.is_constant
    with pytest.raises(StaticValueFindingError, match="the bounds of iname 'k'"):
        _ = bounds.extent


def test_assumptions_bound_the_interval_only() -> None:
    bounds = LoopRange(isl.Set("[n] -> {[i]: 2 <= i < n}"), "i", parse_assumptions("n <= 9"))
    assert bounds.interval == Interval(2, 8)
    assert to_text(bounds.extent) == "n - 2"
