"""Warnings of quotients of integers that are assigned to integers."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import kgen as lp


def warned(text: str) -> list[str]:
    """Return the warnings of the code of instructions on integers."""
    declared = [lp.GlobalArg("a, out", np.int32, shape=6), ...]
    unit = lp.make_kernel("{ [i, j]: 0 <= i, j < 6 }", text, declared, seq_dependencies=True)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        lp.generate_code_v2(unit)
    return [str(each.message) for each in found]


@pytest.mark.parametrize(
    "text",
    [
        "out[i] = 2*(a[i]/2)",
        "out[i] = sum(j, a[j]/2)",
        "out[i] = max(j, 1 + a[j]/2)",
        "out[i] = max(a[i]/2, 1)",
        "out[i] = a[i]/2 / 3.0",
        "<> t = a[i]/2\nout[i] = 3*t",
        "<> t[j] = a[j]/2\nout[i] = t[i]",
        "<> t = 0.0\nt = t + a[i]/2\nout[i] = abs(t)",
        "f(x) := x/2\nout[i] = f(a[i])",
        "out[i] = out[i] + a[i]/2 {atomic}",
    ],
)
def test_a_quotient_that_reaches_an_integer_is_warned_of(text: str) -> None:
    (message,) = warned(text)
    assert "'out', of type int32, is assigned a value computed from the real number" in message
    assert "/ 2'" in message


@pytest.mark.parametrize(
    "text",
    [
        "out[i] = sum(j, a[j]//2)",
        "out[i] = floor(a[i]/2)",
        "<> t = cast(np.int32, a[i]/2)\nout[i] = 3*t",
        "<> t = a[i]/2.0\nout[i] = 3*t",
        "<> t = a[i]/2\nout[i] = 1 if t > 1 else 2",
    ],
)
def test_explicit_conversions_are_not(text: str) -> None:
    assert warned(text) == []
