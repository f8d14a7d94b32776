"""Negated unsigned integers wrap in their own type, however they come into a sum."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymbolic.primitives as p
import pytest

import kgen as lp
from kgen.ir.expr import substitute, to_text
from kgen.ir.language.expressions import parse


class LongSum(lp.ScalarReductionOperation):
    def neutral_element(self, *dtypes: Any, callables_table: Any, target: Any) -> Any:
        return 0, callables_table

    def __call__(self, dtypes: Any, a: Any, b: Any, callables_table: Any, target: Any) -> Any:
        return a + b, callables_table


def long_sum(name: str) -> lp.ReductionOperation | None:
    return LongSum(lp.to_kgen_type(np.int64)) if name == "long_sum" else None


lp.register_reduction_parser(long_sum)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint32])
def test_rules_temporaries_and_sums(dtype: Any) -> None:
    text = """
        f(x) := -x
        <int64> total = 0                  {id=start}
        for j
            total += -u[j]                 {id=add, dep=start}
            by_rule[j] = 5l + f(u[j])
            <> t = -u[j]                   {id=t}
            by_temporary[j] = 5l + t       {dep=t}
        end
        by_loop = total                    {dep=add}
        by_reduction = long_sum(j, -u[j])
        """
    knl = lp.make_kernel(
        "{ [j]: 0 <= j < 3 }", text, [lp.GlobalArg("u", dtype), ...], target=lp.ExecutableCTarget()
    )
    knl = lp.set_options(lp.assignment_to_subst(knl, "t"), return_dict=True)
    u = np.array([3, 0, 200], dtype)
    out = knl(u=u)[1]
    wrapped = (-u).astype(np.int64)
    np.testing.assert_array_equal(out["by_rule"], 5 + wrapped)
    np.testing.assert_array_equal(out["by_temporary"], 5 + wrapped)
    assert out["by_loop"] == out["by_reduction"] == wrapped.sum()


@pytest.mark.parametrize("text", ["x + (-u)", "x - (-u)", "x - u", "-(2*u*x) - 2*u*x", "x*(-(-u))"])
def test_negations_are_not_subtractions(text: str) -> None:
    assert to_text(parse(text)) == text
    knl = lp.make_kernel("{ [i]: 0 <= i < n }", f"out[i] = i + {text}", ["u", "x", ...])
    assert str(lp.fold_constants(knl)) == str(knl)


def test_values_of_variables_are_negated_first() -> None:
    values = {"v": -p.Variable("u")}
    assert to_text(substitute(parse("x + v - v - 2*u"), values)) == "x + (-u) - (-u) - 2*u"
