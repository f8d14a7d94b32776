"""Reductions over the lanes of vectors: a partial result for each, joined in their order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kgen as lp


def total(operation: str, target: Any = None) -> lp.TranslationUnit:
    knl = lp.make_kernel(
        "{ [i]: 0 <= i < n }",
        f"out[0] = {operation}(i, a[i])",
        [lp.GlobalArg("a", np.float32, "n"), lp.GlobalArg("out", np.float32, 1), ...],
        target=target or lp.ExecutableCTarget(),
    )
    return lp.split_iname(knl, "i", 8, inner_tag="vec")


def test_sums_of_lanes() -> None:
    text = lp.generate_body(lp.assume(total("sum"), "n >= 0 and n mod 8 = 0"))
    assert text.split("for (int i_outer")[1].splitlines()[1:5] == [
        "  {",
        "    #pragma omp simd simdlen(8)",
        "    for (int i_inner = 0; i_inner < 8; ++i_inner)",
        "      acc_i_outer_i_inner[i_inner] += a[8 * i_outer + i_inner];",
    ]


@pytest.mark.parametrize("n", [0, 1, 8, 19, 100])
def test_the_order_of_a_sum_is_fixed(n: int) -> None:
    a = np.random.default_rng(n).random(n, np.float32)
    padded = np.append(a, np.zeros(-n % 8, np.float32)).reshape(-1, 8)
    lanes = np.add.accumulate(padded, 0, np.float32)[-1] if n else np.zeros(8, np.float32)
    expected = np.float32(0)
    for lane in lanes:
        expected = expected + lane
    _, (out,) = total("sum")(a=a)
    assert out[0] == expected


@pytest.mark.parametrize(("operation", "expected"), [("max", np.max), ("product", np.prod)])
def test_other_operations(operation: str, expected: Any) -> None:
    a = np.random.default_rng(1).random(45, np.float32) + np.float32(0.5)
    np.testing.assert_allclose(total(operation)(a=a)[1][0][0], expected(a), rtol=1e-5)


def test_sums_of_rows_in_registers() -> None:
    knl = lp.make_kernel(
        "{ [i, k]: 0 <= i, k < n }",
        "out[i] = sum(k, a[i, k])",
        [lp.GlobalArg("a", np.float32, "n, n"), ...],
        target=lp.ExecutableCTarget(),
        assumptions="n mod 8 = 0",
    )
    knl = lp.split_iname(lp.split_iname(knl, "i", 2, inner_tag="ilp"), "k", 8, inner_tag="vec")
    assert "acc_k_outer_k_inner[k_inner + 8] += " in lp.generate_body(knl)
    a = np.arange(256, dtype=np.float32).reshape(16, 16)
    np.testing.assert_array_equal(knl(a=a)[1][0], a.sum(1))


def test_lanes_of_opencl(device: Any) -> None:
    a = np.arange(50, dtype=np.float32)
    assert device(total("sum", lp.PyOpenCLTarget()), a=a)[1][0][0] == a.sum()
