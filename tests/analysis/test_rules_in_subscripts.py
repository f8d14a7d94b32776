"""Substitution rules in subscripts, seen through when shapes are found."""

from __future__ import annotations

import numpy as np
import pytest

import kgen as lp


def test_shapes_see_through_nested_rules() -> None:
    rules = ["f(x) := g(x) + 1", "g(x) := 2*x"]
    knl = lp.make_kernel("{[i]: 0<=i<5}", [*rules, "a[f(i)] = b[g(i)]"])
    shapes = {name: arg.shape for name, arg in knl.default_entrypoint.array_vars.items()}
    assert shapes == {"a": (10,), "b": (9,)}


def test_a_rule_that_uses_itself_is_refused_with_the_circle() -> None:
    knl = lp.make_kernel("{[i]: 0<=i<5}", ["f(x) := f(x) + 1", "a[f(i)] = 1"])
    with pytest.raises(lp.TransformError, match="each other in a circle"):
        lp.generate_code_v2(knl)


def test_a_value_that_nothing_reads_may_be_passed() -> None:
    data = [lp.ValueArg("m"), "..."]
    knl = lp.make_kernel("{[i]: 0<=i<n}", "a[i] = b[i]", data, target=lp.ExecutableCTarget())
    _, (a,) = knl(b=np.ones(3), m=7)
    assert (a == 1).all()
