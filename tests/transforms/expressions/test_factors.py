"""Factors of sums over loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kgen as lp
from tests.transforms.helpers import assert_same_results, instructions

hoist = lp.hoist_invariant_multiplicative_terms_in_sum_reduction
extract = lp.extract_multiplicative_terms_in_sum_reduction_as_subst


def sums(text: str, dtype: Any = np.int64) -> lp.TranslationUnit:
    sizes = [lp.GlobalArg("a", dtype, shape=(4, 4)), lp.GlobalArg("x, w, y", dtype, shape=4), ...]
    return lp.make_kernel("{ [i, j, k]: 0<=i,j,k<4 }", text, sizes)


DATA: dict[str, Any] = {
    "a": np.arange(16).reshape(4, 4),
    "x": np.arange(4),
    "w": np.arange(4) - 2,
}


@pytest.mark.parametrize(
    ("text", "loops", "expected"),
    [
        ("y[i] = sum(j, x[i]*a[i, j])", "j", "x[i]*reduce(sum, [j], a[i, j])"),
        ("y[i] = sum(j, a[i, j]*x[i]*2) + 1", "j", "x[i]*2*reduce(sum, [j], a[i, j]) + 1"),
        ("y[i] = sum((j, k), x[i]*a[j, k])", "j,k", "x[i]*reduce(sum, [j, k], a[j, k])"),
        ("r := w[j]*x[i]\ny[i] = sum(j, x[i]*r)", "j", "x[i]*reduce(sum, [j], r)"),
        (
            "y[i] = sum(j, w[j]*sum(k, x[j]*a[j, k]))",
            "k",
            "reduce(sum, [j], w[j]*(x[j]*reduce(sum, [k], a[j, k])))",
        ),
    ],
)
def test_factors_are_taken_out(text: str, loops: str, expected: str) -> None:
    knl = sums(text)
    hoisted = hoist(knl, loops)
    assert instructions(hoisted) == [f"i: y[i] = {expected}"]
    assert_same_results(knl, hoisted, DATA)


@pytest.mark.parametrize(
    "text", ["y[i] = sum(j, w[j]*a[i, j])", "y[i] = sum(j, x[i]*w[i])", "y[i] = max(j, x[i]*w[j])"]
)
def test_other_factors_stay(text: str) -> None:
    with pytest.raises(lp.TransformError, match="no sum over j has a factor that is the same"):
        hoist(sums(text), "j")


def test_sums_are_chosen() -> None:
    knl = sums("y[i] = sum(j, x[i]*w[j]) + sum(j, x[i]*a[i, j])")
    hoisted = hoist(knl, "j", lambda one: "a[" in str(one))
    assert instructions(hoisted) == [
        "i: y[i] = reduce(sum, [j], x[i]*w[j]) + x[i]*reduce(sum, [j], a[i, j])"
    ]


def test_what_is_added_up_keeps_its_type() -> None:
    arrays = [lp.GlobalArg("n", np.int32, shape=4), lp.GlobalArg("x", np.float64, shape=4), ...]
    knl = lp.make_kernel("{ [i, j]: 0<=i,j<4 }", "y[i] = sum(j, x[i]*n[j])", arrays)
    data = {"n": np.full(4, 2**30, np.int32), "x": np.arange(4.0)}
    assert_same_results(knl, hoist(knl, "j"), data)


def test_what_is_equal_is_not_called_violated() -> None:
    knl = sums("y[i] = sum(j, x[i]*a[i, j])")
    assert not lp.verify(hoist(knl, "j")).violated
    assert not lp.verify_equivalent(knl, hoist(knl, "j")).violated
    assert not lp.verify_equivalent(knl, sums("y[i] = w[i]*sum(j, a[i, j])")).ok


def test_factors_become_a_rule() -> None:
    knl = sums("y[i] = sum(j, a[i, j]*x[i]*w[j])")
    ruled = extract(
        knl, "writes:y", "f", ["i", "w[j]"], lambda term: "a[" in str(term) or "w[" in str(term)
    )
    (rule,) = ruled.default_entrypoint.substitutions.values()
    assert str(rule) == "f(i, arg) := a[i, j]*arg"
    assert instructions(ruled) == ["i: y[i] = reduce(sum, [j], f(i, w[j])*x[i])"]
    assert_same_results(knl, ruled, DATA)


@pytest.mark.parametrize(
    ("text", "arguments", "chosen", "message"),
    [
        ("y[i] = x[i]", ["i"], True, "there are 0 sums"),
        ("y[i] = sum(j, a[i, j]) + sum(k, a[i, k])", ["i"], True, "there are 2 sums"),
        ("y[i] = sum(j, a[i, j]*w[j])", ["i"], False, "terms_filter chooses none"),
        ("y[i] = sum(j, a[i, j]*w[j])", ["k"], True, "the argument 'k' is not in"),
    ],
)
def test_what_makes_no_rule(text: str, arguments: list[str], chosen: bool, message: str) -> None:
    with pytest.raises(lp.TransformError, match=message):
        extract(sums(text), None, "f", arguments, lambda term: chosen)
