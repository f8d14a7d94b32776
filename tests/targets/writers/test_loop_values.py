"""Loops of 64 bits: calls for whose sizes their values as data would be cut are refused."""

from __future__ import annotations

import numpy as np
import pytest

import kgen as lp
from kgen.ir.expr import to_text
from kgen.lowering import generate_module


def conditions(instruction: str, dtype: type = np.float64) -> list[str]:
    args = [lp.GlobalArg("out", dtype, shape=7), lp.ValueArg("n", np.int64), ...]
    knl = lp.make_kernel("{ [i]: 0 <= i < n }", instruction, args, target=lp.CTarget())
    return [to_text(condition) for condition in generate_module(knl).conditions]


@pytest.mark.parametrize(
    "expression",
    [
        "i % 7",
        "max(i, 3)",
        "abs(i - 9)",
        "2*(i // 3)",
        "if(i < 5, 1, sin(i))",
        "cast(np.int32, i)",
        "cast(np.int64, i % 7)",
    ],
)
def test_functions_take_values_of_32_bits(expression: str) -> None:
    assert conditions(f"out[i % 7] = {expression}") == ["n < 2147483649"]


@pytest.mark.parametrize(
    "expression",
    ["i", "2*i + 1", "i / 3", "if(i < 5, i, 1)", "out[i % 7]", "3*cast(np.int64, i)"],
)
def test_arithmetic_is_right_with_64(expression: str) -> None:
    assert conditions(f"out[i % 7] = {expression}") == []


def test_what_is_stored_in_32_bits_has_to_fit() -> None:
    assert conditions("out[i % 7] = i", np.int32) == ["n < 2147483649"]
    assert conditions("<> t = i\nout[i % 7] = t") == ["n < 2147483649"]


def test_variables_that_are_data_of_64_bits_have_no_conditions() -> None:
    args = [lp.GlobalArg("a", np.int8, shape="n"), lp.GlobalArg("b", np.int64, shape="n"), ...]
    knl = lp.make_kernel(
        "{ [i]: 0 <= i < n }",
        "a[i] = i % 7\nb[i] = max(i, 3)",
        args,
        target=lp.CTarget(),
        index_dtype=np.int64,
    )
    assert generate_module(knl).conditions == ()
    assert "b[i] = kgen_max_int64(i, (int64_t) 3);" in lp.generate_body(knl)


def test_a_call_with_larger_sizes_is_refused() -> None:
    args = [lp.GlobalArg("out", np.int32, shape=7), ...]
    knl = lp.make_kernel(
        "{ [i]: 0 <= i < 2*n }", "out[i % 7] = i", args, target=lp.ExecutableCTarget()
    )
    with pytest.raises(lp.KgenError, match=r"n = 1073741825 breaks .*\n.*\n.*index_dtype"):
        knl(n=2**30 + 1)
