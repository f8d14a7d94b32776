"""Reductions taken apart, and with loops of their own."""

from __future__ import annotations

from typing import Any

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
    with pytest.raises(lp.TransformError, match="there is no reduction over 'i'"):
        split_reduction_inward(block_sum(), "i")
    with pytest.raises(lp.TransformError, match="no iname 'q'"):
        split_reduction_outward(block_sum(), "q")


def test_a_reduction_over_all_these_loops_stays_as_it_is() -> None:
    for split in (split_reduction_inward, split_reduction_outward):
        assert instructions(split(block_sum(), "j,k")) == instructions(block_sum())


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


def fetched_per_block(tag: str) -> lp.TranslationUnit:
    """Return two sums over ``q``; a tile is fetched in the outer loop of its blocks for one."""
    text = ["x[i] = sum(q, b[q]) {id=x, inames=i}", "y[i] = sum(q, a[q]) {id=y, inames=i}"]
    data = [lp.GlobalArg(name, "int32", shape=(4,)) for name in ("a", "b")]
    domain = "{ [i, q] : 0 <= i < 5 and 0 <= q < 4 }"
    knl = lp.make_kernel(domain, text, [*data, ...], target=lp.CudaTarget())
    knl = lp.split_iname(knl, "q", 3, outer_tag=tag)
    knl = lp.add_prefetch(knl, "a", "q_inner", default_tag=None, fetch_bounding_box=True)
    return lp.split_reduction_inward(knl, "q_outer")


@pytest.mark.parametrize(
    "change",
    [
        lambda knl: knl,
        lp.realize_reduction,
        make_reduction_inames_unique,
        lambda knl: make_reduction_inames_unique(knl, "q_inner"),
    ],
)
def test_a_copied_loop_keeps_its_bounds_around_one_that_fetches(change: Any) -> None:
    """``y`` gets a copy of ``q_inner``, whose range depends on ``q_outer``, which has the tile."""
    report = lp.verify(change(fetched_per_block("ilp")))
    assert not (report.violated)
    assert not (report.unknown)
    assert not lp.verify(change(fetched_per_block("l.0"))).violated


def test_a_reduction_that_stays_is_in_the_loop_that_fetches() -> None:
    part = lp.realize_reduction(fetched_per_block("ilp"), "x,y")
    assert not lp.verify(part).violated
    part = lp.realize_reduction(fetched_per_block("unr"), "x,y")
    with pytest.raises(lp.ScheduleError, match="form a cycle: loop 'q_outer'"):
        lp.generate_code_v2(part)


def test_a_loop_that_stores_cannot_be_bounded_by_a_copied_one() -> None:
    domains = ["{ [k] : 0 <= k < 3 }", "{ [m] : 0 <= m <= k }"]
    text = ["for k, m", "t[k] = a[k, 1] {id=fill}", "end", "y = sum(k, sum(m, t[k])) {dep=fill}"]
    knl = lp.make_kernel(domains, text, [lp.TemporaryVariable("t", shape=(3,)), ...])
    with pytest.raises(lp.TransformError, match=r"in a copy of the loop 'k', and shares .* 'm'"):
        make_reduction_inames_unique(knl)


@pytest.mark.parametrize("text", ["c[i] = sum(j, sum(k, a[i, j, k]))", "c[i] = sum(j, f(i))"])
@pytest.mark.parametrize(
    "change", [lp.realize_reduction, lambda knl: make_reduction_inames_unique(knl, "j")]
)
def test_inner_loops_follow_a_copy_also_in_rules(change: Any, text: str) -> None:
    rule = "f(x) := sum(k, a[x, j, k])"
    data = [lp.GlobalArg("a", "float64", shape=(4, 4, 4)), lp.GlobalArg("b", "float64", shape=(4,))]
    domain = "{[i, j, k]: 0 <= i, j < 4 and 0 <= k <= j}"
    knl = lp.make_kernel(domain, [rule, "d = sum(j, b[j])", text], [*data, ...])
    report = lp.verify(change(knl))
    assert not (report.violated)
    assert not (report.unknown)
