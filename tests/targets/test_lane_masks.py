"""Random expressions of functions, choices and conditions: lanes compute what a plain loop does."""

from __future__ import annotations

import os
import random

import numpy as np
import pytest

import kgen as lp

COUNT = int(os.environ.get("KGEN_RANDOM_KERNELS", "60")) // 10
FUNCTIONS = ("exp(-abs({}))", "sin({})", "abs({})**1.5", "log(1 + abs({}))", "sqrt(abs({}))")
OPERATIONS = ("({} + {})", "{}*{}", "max({}, {})", "if({} > 0.5, {}, {})", "if(k[i] > {}, {}, {})")


def expression(draw: random.Random, depth: int) -> str:
    """Return the text of an expression, of functions in and around choices."""
    if not depth:
        return draw.choice(("x[i]", "y[i]", "k[i]", "0.25"))
    pattern = draw.choice(draw.choice((FUNCTIONS, OPERATIONS)))
    operands = [expression(draw, depth - 1) for _ in range(pattern.count("{}"))]
    return pattern.format(*operands)


def program(draw: random.Random) -> lp.TranslationUnit:
    value = expression(draw, 3)
    condition = draw.choice(("", " {if=x[i] > y[i]}", " {if=k[i] > 0 and x[i] < 0.9}"))
    total = f"out[0] = sum(i, {value})"
    code = total if draw.random() < 0.25 else f"out[i] = {value}{condition}"
    dtype = draw.choice((np.float32, np.float64))
    arrays = [lp.GlobalArg("x, y, out", dtype, "n"), lp.GlobalArg("k", np.int32, "n"), ...]
    target = lp.ExecutableCTarget()
    return lp.make_kernel("{ [i]: 0 <= i < n }", code, arrays, assumptions="n >= 1", target=target)


@pytest.mark.parametrize("seed", range(COUNT))
def test_random_masks(seed: int) -> None:
    plain = program(random.Random(f"masks {seed}"))
    lanes = lp.split_iname(plain, "i", 8, inner_tag="vec")
    for n in (1, 7, 8, 29):
        rng = np.random.default_rng(n)
        dtype = plain.default_entrypoint.arg_dict["out"].dtype.numpy_dtype
        x, y, out = rng.random((3, n)).astype(dtype)
        given = {"x": x, "y": y, "k": rng.integers(0, 3, n).astype(np.int32), "n": n}
        results = [out.copy(), out.copy()]
        for knl, result in zip((plain, lanes), results, strict=True):
            knl(**given, out=result)
        tolerance = 1e-4 if dtype == np.float32 else 1e-12
        np.testing.assert_allclose(results[1], results[0], rtol=tolerance, atol=1e-6)
