"""Linear normal form of integer expressions."""

from __future__ import annotations

import operator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pymbolic import evaluate, parse

from kgen.ir.affine import move_to_sides, simplify
from kgen.ir.expr import TruncQuotient, TruncRemainder, to_text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("j + 16*(i + 1) + 1", "16*i + j + 17"),
        ("(n + 2)*(i + 1) + j + 1", "(n + 2)*(i + 1) + j + 1"),
        ("n*i + j + i*n", "2*n*i + j"),
        ("-1 + n + -16*io + -ii", "n - 16*io - ii - 1"),
        ("i - i", "0"),
        ("15 - i", "15 - i"),
        ("(16*io + ii) // 16", "io + ii // 16"),
        ("(16*io + ii + 3) % 16", "(ii + 3) % 16"),
        ("(n - 1) // 16", "(n + 15) // 16 - 1"),
        ("(8*i) % 4", "0"),
        ("1*a[i + 0] + 0", "a[i + 0]"),
        ("2*((i + 0*j) ^ (4*k)) + 1", "2*(i ^ 4*k) + 1"),
        ("(i ^ 0) + (6 ^ 3)", "i + 5"),
    ],
)
def test_merges_terms(text: str, expected: str) -> None:
    assert to_text(simplify(parse(text))) == expected


def test_replaces_variables_on_the_way() -> None:
    values = {"ii": 2, "i": parse("16*io + i")}
    assert to_text(simplify(parse("(4*i + ii) % 4 + a[i] + i"), values)) == (
        "16*io + a[16*io + i] + i + 2"
    )


@pytest.mark.parametrize(("top", "quotient", "rest"), [(7, 1, 3), (-7, -1, -3)])
def test_folds_division_of_c(top: int, quotient: int, rest: int) -> None:
    assert simplify(TruncQuotient(top, 4)) == quotient
    assert simplify(TruncRemainder(top, 4)) == rest


@pytest.mark.parametrize(
    ("lhs", "op", "rhs", "expected"),
    [
        ("n - 1 - 16*io - ii", ">=", "0", "16*io + ii < n"),
        ("i", "<=", "n - 1", "i < n"),
        ("i", "<=", "n", "i <= n"),
        ("i", ">=", "1", "i >= 1"),
        ("15 - i", ">=", "0", "i < 16"),
        ("4*io + 3", "<", "n", "4*io + 3 < n"),
        ("2*i", ">=", "3", "i >= 2"),
        ("4 + 4*i - n", "==", "0", "4*i + 4 == n"),
        ("-i", "!=", "-3", "i != 3"),
    ],
)
def test_moves_negative_terms_over(lhs: str, op: str, rhs: str, expected: str) -> None:
    assert to_text(move_to_sides(parse(lhs), op, parse(rhs))) == expected


@pytest.mark.parametrize(
    ("lhs", "op", "expected"),
    [("i - i - 1", ">=", False), ("2*i + 1", "==", False), ("2*i + 1", "!=", True)],
)
def test_decides_what_holds_always_or_never(lhs: str, op: str, expected: bool) -> None:
    assert move_to_sides(parse(lhs), op, 0) is expected


_OPS = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
_NUMBERS = st.integers(-20, 20)


def _texts() -> st.SearchStrategy[str]:
    leaves = st.sampled_from("ijn") | _NUMBERS.map(lambda v: f"({v})")
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.builds("({} {} {})".format, inner, st.sampled_from("+-*"), inner),
            st.builds("({} {} {})".format, inner, st.sampled_from(["//", "%"]), st.integers(1, 9)),
        ),
        max_leaves=10,
    )


@given(_texts(), _texts(), st.sampled_from(sorted(_OPS)), _NUMBERS, _NUMBERS, _NUMBERS)
def test_keeps_values(left: str, right: str, op: str, i: int, j: int, n: int) -> None:
    at = {"i": i, "j": j, "n": n}
    lhs, rhs = parse(left), parse(right)
    assert evaluate(simplify(lhs), at) == evaluate(lhs, at)
    moved = move_to_sides(lhs, op, rhs)
    holds = moved if isinstance(moved, bool) else evaluate(moved, at)
    assert holds == _OPS[op](evaluate(lhs, at), evaluate(rhs, at))
