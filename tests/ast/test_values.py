"""Names of values: replaced where subscripts cancel them."""

from __future__ import annotations

import numpy as np
import pytest

import kgen as lp


def shifted(text: str) -> lp.TranslationUnit:
    return lp.make_kernel(
        "{ [g, l, j]: 0 <= g < 4 and 0 <= l < 16 and j = 16*g + l }",
        text,
        [lp.GlobalArg("a", np.float64, shape=(4, 64)), "..."],
        target=lp.ExecutableCTarget(),
    )


def test_a_subscript_cancels_a_name() -> None:
    knl = shifted("out[g, l] = sum(j, 2*a[g, j - 16*g])")
    code = lp.generate_body(knl)
    assert "j" not in code.replace("acc_j", "")
    assert "acc_j += 2.0 * a[64 * g + l];" in code
    a = np.arange(256.0).reshape(4, 64)
    _, (out,) = knl(a=a)
    np.testing.assert_array_equal(out, 2 * a[:, :16])


@pytest.mark.parametrize(
    "term",
    [
        "j*a[g, j - 16*g]",  # a value
        "a[g, j]",  # a longer subscript
        "a[g, j - 16*g] + a[g, j]",  # longer in one of them
    ],
)
def test_other_names_stay(term: str) -> None:
    knl = shifted(f"out[g, l] = sum(j, {term})")
    assert "int const j = 16 * g + l;" in lp.generate_body(knl)
    a = np.arange(256.0).reshape(4, 64)
    _, (out,) = knl(a=a)
    _, (expected,) = lp.tag_inames(knl, "l:unr")(a=a)
    np.testing.assert_array_equal(out, expected)
