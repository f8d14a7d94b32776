"""Loops around the same instructions, whose iterations depend on each other, keep their order."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import kgen as lp
from kgen.lowering import lower
from kgen.schedule.tree import loops_in

ARRAYS = [
    lp.GlobalArg("u, v", np.float64, shape="9, n + 2"),
    lp.GlobalArg("w", np.float64, shape="n + 2, 9"),
    lp.GlobalArg("d", np.float64, shape="n, n"),
    lp.GlobalArg("at", np.int32, shape="n + 2"),
    ...,
]
IN_TIME = "{ [t, i]: 0 <= t < 8 and 1 <= i <= n }"
STEP = "u[t + 1, i] = u[t, i - 1] + u[t, i + 1]"
PATHS = "d[i, j] = min(d[i, j], d[i, k] + d[k, j])"


def kernel(code: str, domain: str = IN_TIME, tags: Any = ()) -> lp.TranslationUnit:
    target = lp.ExecutableCTarget()
    knl = lp.make_kernel(domain, code, ARRAYS, target=target, silenced_warnings=["overwritten(*)"])
    return lp.tag_inames(knl, tags)


def loops(knl: lp.TranslationUnit) -> list[str]:
    (launch,) = lower(knl.default_entrypoint).schedule.launches
    return [loop.iname for loop in loops_in(launch.body)]


@pytest.mark.parametrize("tags", ["", "t:unr", "t:unr, i:unr_hint", "t:ord"])
def test_no_tag_moves_a_loop_over_time_into_another(tags: str) -> None:
    assert loops(kernel(STEP, tags=tags)) == ["t", "i"]


def test_no_stride_moves_a_loop_over_time_into_another() -> None:
    assert loops(kernel("w[i, t + 1] = w[i - 1, t] + w[i + 1, t]")) == ["t", "i"]
    assert loops(kernel(PATHS, "{ [k, i, j]: 0 <= k, i, j < n }")) == ["k", "i", "j"]


def test_strides_decide_where_only_values_from_before_the_kernel_would_be_read() -> None:
    knl = kernel(STEP, "{ [i, t]: 0 <= t < 8 and 1 <= i <= n }")
    with pytest.warns(lp.KgenWarning, match="'t,i' was chosen for its strides, not 'i,t'"):
        assert loops(knl) == ["t", "i"]
    with warnings.catch_warnings():
        warnings.simplefilter("error", lp.KgenWarning)
        assert loops(lp.prioritize_loops(knl, "t,i")) == ["t", "i"]


@pytest.mark.parametrize(
    "code",
    [
        "u[t, i] = v[t, i]",
        "u[t, i] = u[t, i] + v[t, i]",
        "u[0, i] = u[0, i] + v[t, i]",
        "u[0, i] = max(v[t, i], u[0, i])",
        "u[t, at[i]] = u[t, at[i]] + u[t, 0]",
        "<> s = v[t, i] {id=s}\nu[t, i] = s*s {dep=s}",
        "u[t + 1, i] = u[t, i]",
    ],
)
def test_unrolled_loops_are_innermost_where_no_other_order_is_needed(code: str) -> None:
    assert loops(kernel(code, tags="t:unr")) == ["i", "t"]


def test_data_may_make_iterations_depend_on_each_other() -> None:
    assert loops(kernel("u[t + 1, i] = u[t, at[i]]", tags="t:unr")) == ["t", "i"]


def test_a_priority_says_which_order_is_meant() -> None:
    knl = lp.prioritize_loops(kernel(STEP, tags="i:ord"), "i,t")
    assert loops(knl) == ["i", "t"]
    (finding,) = [found for found in lp.verify(knl).unknown if found.check == "order"]
    assert "i, t: for n = 2: 'insn' writes 'u[t + 1, i]' at t = 0, i = 2" in finding.message
    assert not lp.verify(lp.prioritize_loops(kernel(STEP), "t,i")).unknown


def test_a_loop_in_order_that_would_turn_dependences_around_is_refused() -> None:
    with pytest.raises(lp.KgenError, match="'i' is tagged 'ord', but cannot be outside 't'") as e:
        loops(kernel(STEP, tags="i:ord"))
    assert "at t = 0, i = 2; 'insn' reads 'u[t, i + 1]' at t = 1, i = 1" in str(e.value)


@pytest.mark.parametrize("tag", ["ilp", "ilp.seq", "vec"])
def test_copies_inside_of_a_loop_that_needs_them_outside_are_refused(tag: str) -> None:
    with pytest.raises(lp.KgenError, match="iterations of loop 't' depend on each other") as caught:
        loops(kernel(STEP, tags=f"t:{tag}"))
    assert "at t = 0, i = 2; 'insn' reads 'u[t, i + 1]' at t = 1, i = 1" in str(caught.value)
    assert "tag 't' as 'unr'" in str(caught.value)


def test_copies_of_what_depends_on_the_loop_around_them_are_right() -> None:
    assert loops(kernel(STEP, tags="i:ilp.seq")) == ["t", "i"]


def test_shortest_paths_have_their_lengths_however_loops_are_tagged() -> None:
    knl = kernel(PATHS, "{ [k, i, j]: 0 <= k, i, j < 6 }", "k:unr, j:vec")
    knl = lp.fix_parameters(lp.remove_unused_arguments(knl), n=6)
    given = np.random.default_rng(3).random((6, 6))
    expected = given.copy()
    for k in range(6):
        expected = np.minimum(expected, expected[:, k, None] + expected[k])
    knl(d=given)
    assert np.allclose(given, expected)
