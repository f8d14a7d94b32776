"""Minima and maxima of negated integers, whose signs ptxas loses where it recognizes them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import kgen as lp
from tests.backends import Backend

LETTERS = {
    name: np.arange(48, dtype=np.int32) * k % 13 - 6
    for name, k in zip("abc", (5, 7, 11), strict=True)
}


@pytest.mark.parametrize("extremum", ["min", "max"])
def test_no_operand_loses_its_sign(device: Backend, extremum: str) -> None:
    a, b, c = LETTERS.values()
    values = {
        "a[i]": a,
        "-b[i]": -b,
        "-4*c[i]": -4 * c,
        "-a[i] - c[i]": -a - c,
        "-b[i] + i": np.arange(48) - b,
    }
    triples = list(itertools.permutations(values, 3))
    calls = [f"{extremum}({extremum}({x}, {y}), {z})" for x, y, z in triples]
    code = "\n".join(f"out[i, {k}] = {call}" for k, call in enumerate(calls))
    unit = lp.make_kernel("{ [i]: 0 <= i < 48 }", code, target=device.target())
    unit = lp.tag_inames(lp.split_iname(unit, "i", 16, outer_tag="g.0"), "i_inner:l.0")
    _, (out,) = device(unit, **LETTERS)
    pick = np.minimum if extremum == "min" else np.maximum
    expected = [pick(pick(values[x], values[y]), values[z]) for x, y, z in triples]
    assert np.array_equal(out, np.stack(expected, axis=1))


@pytest.mark.parametrize("reduction", ["max", "argmin"])
def test_reductions_keep_signs_of_their_operands(device: Backend, reduction: str) -> None:
    code = (
        "out[i] = max(j, -a[8*i + j])"
        if reduction == "max"
        else "low[i], place[i] = argmin(j, -a[8*i + j], j)"
    )
    unit = lp.make_kernel("{ [i, j]: 0 <= i < 6 and 0 <= j < 8 }", code, target=device.target())
    unit = lp.tag_inames(unit, "i:l.0, j:unr")
    _, (out, *_) = device(unit, a=LETTERS["a"])
    rows = -LETTERS["a"].reshape(6, 8)
    assert np.array_equal(out, rows.max(1) if reduction == "max" else rows.min(1))


def test_bounds_of_loops_keep_signs(device: Backend) -> None:
    code = "out[i] = sum(j, j)"
    domain = "{ [i, j]: 0 <= i < 9 and -m <= j and -n <= j and -i <= j <= 0 }"
    unit = lp.make_kernel(domain, code, target=device.target())
    unit = lp.tag_inames(lp.assume(unit, "m >= 0 and n >= 0"), "i:l.0")
    _, (out,) = device(unit, m=np.int32(3), n=np.int32(7))
    assert np.array_equal(out, [-sum(range(min(i, 3) + 1)) for i in range(9)])
