"""Reads that a substitution rule must not serve, because another value may reach them."""

from __future__ import annotations

import numpy as np
import pytest

import kgen as lp
from tests.transforms.helpers import assert_same_results

RULE = "f(x) := a[i, x]"


def kernel(text: str, *args: object) -> lp.TranslationUnit:
    loops = "{ [i, j, k]: 0 <= i < 4 and 0 <= j, k < 6 }"
    part = "{ [m]: 2 <= m < 5 }"
    given = [lp.GlobalArg("a", np.float64, shape=(4, 6)), *args, "..."]
    return lp.make_kernel([loops, part], text, given)


TILE = lp.TemporaryVariable("t", np.float64, shape=(6,))


@pytest.mark.parametrize("text", ["<> t[k] = a[i, k]", RULE + "\n<> t[k] = f(k)"])
def test_a_value_of_the_previous_iteration_is_no_value_of_a_rule(text: str) -> None:
    knl = kernel(text + " {id=w}\nout[i, k] = t[5 - k] {id=r, dep=w}")
    with pytest.raises(lp.TransformError, match=r"i = 0, k = ., 't\[5 - k\]' is read before"):
        lp.assignment_to_subst(knl, "t")


def test_a_value_of_a_loop_before_is_one_of_a_rule() -> None:
    knl = kernel("<> t[j] = a[i, j] {id=w}\nout[i, k] = t[5 - k] {id=r, dep=w}")
    result = lp.assignment_to_subst(knl, "t")
    assert_same_results(knl, result, {"a": np.random.default_rng(0).random((4, 6))})


@pytest.mark.parametrize("first", ["t[j] = 0", "t[j] = a[0, j]"])
def test_elements_of_an_earlier_assignment_are_not_those_of_a_rule(first: str) -> None:
    text = f"{first} {{id=z}}\nt[m] = a[1, m] {{id=w, dep=z}}\nout[k] = t[k] {{id=r, dep=w}}"
    with pytest.raises(lp.TransformError, match=r"k = 0, 't\[k\]' may be an element that 'w'"):
        lp.assignment_to_subst(kernel(text, TILE), "t")


def test_all_elements_written_once_more_are_those_of_a_rule() -> None:
    text = "t[j] = 0 {id=z}\nt[m] = a[1, m] {id=w, dep=z}\nout[m] = t[m] {id=r, dep=w}"
    knl = kernel(text, TILE)
    result = lp.assignment_to_subst(knl, "t")
    assert_same_results(knl, result, {"a": np.random.default_rng(0).random((4, 6))})


def test_a_write_between_hides_the_value_of_a_rule() -> None:
    text = """
        t[1] = a[i, 0]           {id=z}
        t[k] = a[i, k]           {id=w, dep=z}
        out[i, k] = t[(k + 5)%6] {id=r, dep=w}
    """
    with pytest.raises(lp.TransformError, match=r"t.* is read before it is written"):
        lp.assignment_to_subst(kernel(text, TILE), "t")


def test_elements_that_the_caller_filled_are_not_those_of_a_rule() -> None:
    text = "t[m] = a[1, m] {id=w}\nout[k] = t[k] {id=r, dep=w}"
    argument = lp.GlobalArg("t", np.float64, shape=(6,))
    with pytest.raises(lp.TransformError, match=r"k = 0, 't\[k\]' may be an element that 'w'"):
        lp.assignment_to_subst(kernel(text, argument), "t")
