"""Divisors that are zero in an iteration of a loop."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kgen as lp


def computed(expression: str, dtype: Any = np.int32) -> Any:
    args = [lp.GlobalArg("a", dtype, shape="n"), lp.GlobalArg("b", np.int32, shape="n"), ...]
    domain = "{ [i, j]: 0 <= i < n and 0 <= j < 3 }"
    knl = lp.make_kernel(domain, f"a[i] = {expression}", args, target=lp.ExecutableCTarget())
    _, (a,) = knl(a=np.zeros(8, dtype), b=np.arange(8, dtype=np.int32))
    return a.tolist()


@pytest.mark.parametrize(
    ("expression", "divisor", "point"),
    [
        ("1 // (i - i)", "i - i", "n = 1, i = 0"),
        ("b[i] % (i - 3)", "i - 3", "n = 4, i = 3"),
        ("sum(j, 7 // (2*i - j - 2))", "2*i - j - 2", "n = 2, i = 1, j = 0"),
        ("if(i > 1, 7 // (i - 3), 7 // (i - 5))", "i - 3", "n = 4, i = 3"),
    ],
)
def test_a_divisor_that_is_zero_in_an_iteration(expression: str, divisor: str, point: str) -> None:
    with pytest.raises(lp.KernelError, match=r"' divides by zero\n") as caught:
        computed(expression)
    assert f"\n  at: {point}: '{divisor}' is 0\n" in str(caught.value)
    assert str(caught.value).endswith(f"guard it: if {divisor} != 0")


def test_a_divisor_that_is_zero_only_where_it_is_not_reached() -> None:
    assert computed("if(i > 4, 7 // (i - 3), 7 // (i - 6))") == [-2, -2, -2, -3, -4, 3, 2, 1]


@pytest.mark.parametrize(
    ("conditions", "point"),
    [
        ("if 7 % (i - 3) == 1", "i = 3: 'i - 3' is 0"),
        ("if b[i] % (i - 3) == 1", "i = 3: 'i - 3' is 0"),
        ("if i % 2 == 1 and 7 // (i - 5) > 1", "i = 5: 'i - 5' is 0"),
        ("if 7 // (i - 3) > 1\nif b[i] > 3", "i = 3: 'i - 3' is 0"),
    ],
)
def test_divisors_in_conditions(conditions: str, point: str) -> None:
    with pytest.raises(lp.KernelError, match="' divides by zero\n") as caught:
        conditional(conditions)
    assert point in str(caught.value)


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ("if i != 3 and 7 % (i - 3) == 1", [0, 0, 0, 0, 0, 1, 1, 0]),
        ("if b[i] > 3 and 7 % (i - 3) == 1", [0, 0, 0, 0, 0, 1, 1, 0]),
        ("if 7 % (i + 1) == 1", [0, 1, 1, 0, 0, 1, 0, 0]),
        ("if 7 // (i - 3) > 1\nif i % 2 == 0", [0, 0, 0, 0, 1, 0, 1, 0]),
    ],
)
def test_divisors_in_conditions_that_are_not_reached(conditions: str, expected: list[int]) -> None:
    assert conditional(conditions) == expected


def conditional(conditions: str) -> Any:
    """Return which iterations meet conditions."""
    args = [lp.GlobalArg("a, b", np.int32, shape="8"), ...]
    lines = conditions.splitlines()
    text = ["for i", *lines, "a[i] = 1", *("end" for _ in lines), "end"]
    knl = lp.make_kernel("{ [i]: 0 <= i < 8 }", text, args, target=lp.ExecutableCTarget())
    a = np.zeros(8, np.int32)
    knl(a=a, b=np.arange(8, dtype=np.int32))
    return a.tolist()


def test_divisors_with_arguments_and_data_are_not_checked() -> None:
    assert computed("i // (n - 4) + i // (b[i] + 1)") == [0, 0, 0, 0, 1, 1, 1, 1]


def test_a_number_that_is_divided_by_zero_is_infinite() -> None:
    assert computed("1.0 // (i - 7)", np.float64)[-1] == np.inf
