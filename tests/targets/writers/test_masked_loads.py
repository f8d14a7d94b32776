"""Neighbouring elements, each read under a condition: gcc 12 masks them all with one mask."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kgen as lp

PRAGMA = "no-tree-loop-if-convert"
SPLITS: dict[str, Callable[[lp.TranslationUnit], lp.TranslationUnit]] = {
    "loop": lambda knl: lp.split_iname(knl, "i", 4),
    "unrolled": lambda knl: lp.split_iname(knl, "i", 3, inner_tag="unr", slabs=(0, 1)),
    "copies": lambda knl: lp.split_iname(knl, "i", 2, inner_tag="ilp"),
    "in lanes": lambda knl: lp.tag_inames(lp.split_iname(knl, "i", 2), "i_outer:vec,i_inner:unr"),
    "buffer": lambda knl: lp.buffer_array(
        lp.split_iname(knl, "i", 4), "out", "i_inner", default_tag=None
    ),
}
BODIES = [
    "out[i] = a[i] if c[i] > 3 else 1",
    "out[i] = a[[i]] if c[i] > 3 and a[i] > 4 else c[i]",
    "if c[i] > 3\nout[i] = a[i]\nelse\nout[i] = 1\nend",
    "out[i] = a[i] {if=c[i] > 3}",
]


def of(body: str, target: lp.CTarget) -> lp.TranslationUnit:
    arrays = [lp.GlobalArg("a, out", np.float64, shape=48), lp.GlobalArg("c", np.int32, shape=48)]
    return lp.make_kernel("{ [i]: 0 <= i < 48 }", body, arrays, target=target)


@pytest.mark.parametrize("split", SPLITS.values(), ids=SPLITS)
@pytest.mark.parametrize("body", BODIES)
def test_results_are_those_of_one_loop(
    body: str, split: Callable[[lp.TranslationUnit], lp.TranslationUnit]
) -> None:
    knl = of(body, lp.ExecutableCTarget())
    steps = np.arange(48)
    given = {"a": steps + 2.0, "c": (steps * 7 % 10).astype(np.int32), "out": -1.0 * steps}
    (expected,) = knl(**{**given, "out": given["out"].copy()})[1]
    (out,) = split(knl)(**given)[1]
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize(
    ("tags", "is_slow"), [({}, False), ({"inner_tag": "vec"}, False), ({"inner_tag": "unr"}, True)]
)
def test_other_loops_stay_vectorized(tags: dict[str, Any], is_slow: bool) -> None:
    knl = of(BODIES[0], lp.CTarget())
    knl = lp.split_iname(knl, "i", 16, **tags) if tags else knl
    assert (PRAGMA in lp.generate_code_v2(knl).device_code()) == is_slow
