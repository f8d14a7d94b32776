"""Reductions taken apart, and with loops of their own."""

from __future__ import annotations

import numpy as np
import pytest

import kgen as lp
from kgen.transforms.reductions.nesting import (
    make_reduction_inames_unique,
    split_reduction_inward,
    split_reduction_outward,
)
from tests.transforms.helpers import assert_same_results, instructions


def block_sum() -> lp.TranslationUnit:
    text = "c[i] = sum((j, k), a[i, j, k])"
    return lp.make_kernel("{[i, j, k]: 0 <= i, j < 4 and 0 <= k <= j}", text)


def test_reductions_move_inward_and_outward() -> None:
    inward = split_reduction_inward(block_sum(), "k")
    assert instructions(inward) == ["i: c[i] = reduce(sum, [j], reduce(sum, [k], a[i, j, k]))"]
    outward = split_reduction_outward(block_sum(), "k")
    assert instructions(outward) == ["i: c[i] = reduce(sum, [k], reduce(sum, [j], a[i, j, k]))"]
    data = {"a": np.random.default_rng(0).random((4, 4, 4))}
    assert_same_results(block_sum(), inward, data)
    assert_same_results(block_sum(), outward, data)


def test_there_must_be_something_to_split() -> None:
    with pytest.raises(lp.TransformError, match="no reduction over 'j', 'k' and further loops"):
        split_reduction_inward(block_sum(), "j,k")
    with pytest.raises(lp.TransformError, match="no iname 'q'"):
        split_reduction_outward(block_sum(), "q")


def test_each_reduction_gets_loops_of_its_own() -> None:
    text = ["c[i] = sum(j, a[i, j]) + sum(j, b[j])", "d[i] = sum(j, b[i + j])"]
    data = [lp.GlobalArg("b", shape="16"), ...]
    knl = lp.make_kernel("{[i, j]: 0 <= i, j < 8}", text, data)
    unique = make_reduction_inames_unique(knl)
    assert instructions(unique) == [
        "i: c[i] = reduce(sum, [j], a[i, j]) + reduce(sum, [j_0], b[j_0])",
        "i: d[i] = reduce(sum, [j_1], b[i + j_1])",
    ]
    rng = np.random.default_rng(0)
    assert_same_results(knl, unique, {"a": rng.random((8, 8)), "b": rng.random(16)})
    assert make_reduction_inames_unique(unique) is unique


def test_only_chosen_reductions_are_made_unique() -> None:
    text = ["c = sum(j, b[j]) {id=c}", "d = sum(j, b[j])*sum(k, b[k]) {id=d}", "e = sum(k, b[k])"]
    knl = lp.make_kernel("{[j, k]: 0 <= j, k < 8}", text)
    assert instructions(make_reduction_inames_unique(knl, "j", "id:d"))[1:] == [
        ": d = reduce(sum, [j_0], b[j_0])*reduce(sum, [k], b[k])",
        ": e = reduce(sum, [k], b[k])",
    ]
