"""Loops over boxes, whose bounds isl need not be asked for."""

from __future__ import annotations

import islpy as isl
import pytest

from kgen.ast.boxes import loops_over_box
from kgen.ast.nodes import print_tree


def lines_of(domain: str, context: str) -> list[str] | None:
    node = loops_over_box(isl.Set(domain), isl.Set(context))
    return None if node is None else [line.strip() for line in print_tree(node).splitlines()]


def test_terms_are_in_the_order_in_which_parameters_come_up() -> None:
    domain = "[l, m, n] -> { [x, y] : 0 <= x < m + n and -l <= y <= 3 + l + m + n }"
    lines = lines_of(domain, "[n] -> { : n >= 0 }")
    assert lines is not None
    assert "0 .. n + m" in lines[0]
    assert "-l .. n + m + l + 4" in lines[1]


@pytest.mark.parametrize(
    ("domain", "context"),
    [
        ("[n, m] -> { [x] : 0 <= x < n, m }", "{ : }"),
        ("[n] -> { [x] : 0 <= 2x < n }", "{ : }"),
        ("[n] -> { [x] : 0 <= x < n and x mod 2 = 0 }", "{ : }"),
        ("[n] -> { [x, y] : 0 <= x < n and 0 <= y <= x }", "{ : }"),
        ("[n] -> { [x] : 0 <= x < n or n <= x < 2 + n }", "{ : }"),
        ("[n] -> { [x] : x >= n }", "{ : }"),
        ("[n] -> { [x] : x = n }", "{ : }"),
        ("[n, m] -> { [x] : x >= 0 and m >= 3 }", "{ : }"),
        ("[n] -> { [x, y] : x = n and 0 <= y < n }", "{ : }"),
        ("[n] -> { [x] : 3*floor(x/3) <= n and x >= 0 }", "{ : }"),
    ],
)
def test_what_is_no_box_is_left_to_isl(domain: str, context: str) -> None:
    assert lines_of(domain, context) is None


@pytest.mark.parametrize(
    ("domain", "context"),
    [
        ("[n] -> { [x] : 0 <= x < n }", "[n] -> { : n = 5 }"),
        ("[n] -> { [x] : 0 <= x < n }", "[n] -> { : n <= 1 }"),
        ("[n] -> { [x] : n <= x <= n }", "{ : }"),
        ("[n] -> { [x] : 0 <= x < n }", "[n] -> { : n >= 2 and n < 2 }"),
    ],
)
def test_what_the_context_changes_is_left_to_isl(domain: str, context: str) -> None:
    assert lines_of(domain, context) is None
