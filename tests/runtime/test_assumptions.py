"""Assumptions are promises: a call that breaks one is refused, never computed wrong."""

from __future__ import annotations

import numpy as np
import pytest

import kgen as lp


def fill(assumptions: str) -> lp.TranslationUnit:
    return lp.make_kernel(
        "{[i]: 0 <= i < n}",
        "out[i] = a[i]",
        target=lp.ExecutableCTarget(),
        assumptions=assumptions,
    )


def test_a_size_that_keeps_to_the_assumption_runs() -> None:
    _, (out,) = fill("n mod 4 = 0 and n >= 4")(a=np.arange(8.0))
    assert (out == np.arange(8.0)).all()


@pytest.mark.parametrize(
    ("assumptions", "size"),
    [("n mod 4 = 0", 7), ("n >= 9", 8), ("n <= 5", 6), ("n = 1 or n >= 5", 3)],
)
def test_a_size_that_breaks_it_is_named(assumptions: str, size: int) -> None:
    with pytest.raises(lp.InvocationError, match=f"n = {size} breaks the assumption"):
        fill(assumptions)(a=np.zeros(size))
