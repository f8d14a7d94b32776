"""isl's quasi-affine functions as expressions."""

from __future__ import annotations

import islpy as isl
import pytest
from pymbolic import evaluate

from kgen.ir.expr import to_text
from kgen.ir.sets.quasi_affine import aff_to_expr


@pytest.mark.parametrize(
    ("function", "text"),
    [
        ("m - floor((8m + 8)/9)", "m // 9"),
        ("floor((15m + 15)/16)", "m - m // 16"),
        ("floor((m + 15)/16)", "(m + 15) // 16"),
        ("floor((-m + 3)/4)", "-(m // 4)"),
        ("m - 3*floor((m + n)/3)", "m - 3*((m + n) // 3)"),
        ("floor((2*floor((7n + 3)/8) + n)/5)", "n - (2*n + 2*((n + 4) // 8) + 4) // 5"),
    ],
)
def test_whole_multiples_go_out_of_divisions(function: str, text: str) -> None:
    value = isl.PwAff(f"[m, n] -> {{ [({function})] }}")
    expr = aff_to_expr(value.get_pieces()[0][1])
    assert to_text(expr) == text
    for m in range(-20, 21, 3):
        for n in range(-20, 21, 7):
            at = value.intersect_params(isl.Set(f"[m, n] -> {{ : m = {m} and n = {n} }}"))
            assert evaluate(expr, {"m": m, "n": n}) == at.max_val().to_python()
