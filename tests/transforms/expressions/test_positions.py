"""Positions of elements in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kgen as lp
from tests.transforms.helpers import run

DOMAIN = "{ [i, j]: 0 <= i < 4 and 0 <= j < 6 }"


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("function", ["indexof", "indexof_vec"])
def test_positions_are_those_in_memory(order: Any, function: str) -> None:
    args = [lp.GlobalArg("a", np.int32, shape=(4, 6), order=order), ...]
    knl = lp.make_kernel(DOMAIN, f"a[i, j] = 2*{function}(a[i, j]) + 1", args)
    assert not knl["kgen_kernel"].arg_dict["a"].is_input
    positions = np.arange(24, dtype=np.int32).reshape(4, 6, order=order)
    np.testing.assert_array_equal(run(knl)["a"], 2 * positions + 1)


def test_positions_of_vectors_and_of_their_numbers() -> None:
    args = [lp.GlobalArg("a", np.float32, shape=(6, 4), dim_tags="c,vec"), ...]
    text = "b[j, i] = indexof(a[j, i]) {id=b}\nc[j, i] = indexof_vec(a[j, i])\na[j, i] = 0"
    found = run(lp.make_kernel(DOMAIN, text, args))
    np.testing.assert_array_equal(found["b"], np.arange(6)[:, None] + np.zeros((6, 4)))
    np.testing.assert_array_equal(found["c"], np.arange(24).reshape(6, 4))


def test_what_has_no_position_is_refused() -> None:
    args = [lp.GlobalArg("a", np.float32, shape=None), ...]
    for text in ("b[i] = indexof(i)", "b[i] = indexof(a[i], a[i])", "b[i] = indexof(c)"):
        knl = lp.make_kernel("{ [i]: 0 <= i < 4 }", text, [*args, lp.ValueArg("c", np.int32)])
        with pytest.raises(lp.CodegenError, match="has no position"):
            lp.generate_code_v2(knl)


def test_tuples_are_assigned_one_by_one() -> None:
    text = "a[i], b[i] = make_tuple(i, 2.5*i)"
    found = run(lp.make_kernel("{ [i]: 0 <= i < 4 }", text))
    np.testing.assert_array_equal(found["a"], np.arange(4))
    np.testing.assert_array_equal(found["b"], 2.5 * np.arange(4))
    knl = lp.make_kernel(
        "{ [i]: 0 <= i < 4 }",
        "a[i], b[i] = make_tuple(b[i], a[i])",
        [lp.GlobalArg("a,b", np.float32, shape=4)],
        target=lp.CTarget(),
    )
    with pytest.raises(lp.CodegenError, match=r"'a' is assigned before 'a\[i\]' is evaluated"):
        lp.generate_code_v2(knl)
