"""Loops in which work-items take turns: few trips, with conditions in them."""

from __future__ import annotations

import textwrap
from typing import Any

import numpy as np
import pytest

import kgen as lp
from kgen.ast.nodes import print_tree
from kgen.lowering import lower
from tests.oracle import Oracle


def neighbours(size: int, **kwargs: Any) -> lp.TranslationUnit:
    """Add the neighbours of inner elements, with those of a group in local memory."""
    text = "out[i] = a[i - 1] + a[i + 1]"
    knl = lp.make_kernel("{[i]: 1 <= i < n - 1}", text, assumptions="n >= 3", **kwargs)
    knl = lp.split_iname(knl, "i", size, outer_tag="g.0", inner_tag="l.0")
    return lp.add_prefetch(knl, "a", "i_inner", fetch_bounding_box=True)


def trees(unit: lp.TranslationUnit, *sizes: int) -> str:
    lowered = lower(unit.default_entrypoint, {"a": "float32"})
    for n in sizes or (3, 8, 9, 17):
        Oracle(lowered.kernel, {"n": n}).check(lowered.functions)
    return "\n".join(print_tree(function.body) for function in lowered.functions)


def test_strides_that_start_at_one_have_a_condition_instead_of_a_maximum() -> None:
    fetch = """
        if 8*gid(0) + lid(0) <= n and 8*gid(0) + lid(0) >= 1
          a_fetch_rule(i_outer=gid(0), a_dim_0_start=lid(0), a_dim_0=lid(0))
        if lid(0) < 2 and 8*gid(0) + lid(0) + 7 < n
          a_fetch_rule(i_outer=gid(0), a_dim_0_start=lid(0), a_dim_0=lid(0) + 8)
        barrier"""
    assert trees(neighbours(8)).startswith(textwrap.dedent(fetch).strip())


def test_so_have_strides_inside_of_loops() -> None:
    domains = ["{ [t]: 0 <= t < 3 }", "{ [i]: 1 <= i < n - 1 }"]
    knl = lp.make_kernel(domains, "out[t, i] = a[t, i - 1] + a[t, i + 1]", assumptions="n >= 3")
    knl = lp.split_iname(knl, "i", 8, outer_tag="g.0", inner_tag="l.0")
    knl = lp.add_prefetch(lp.prioritize_loops(knl, "t"), "a", "i_inner", fetch_bounding_box=True)
    assert "  if 8*gid(0) + lid(0) <= n and 8*gid(0) + lid(0) >= 1\n    a_fetch_rule(" in trees(knl)


@pytest.mark.parametrize("n", [3, 8, 9, 10, 40])
def test_a_stencil_without_its_border(device: Any, n: int) -> None:
    a = np.random.default_rng(n).random(n)
    _, (out,) = device(neighbours(8), a=a)
    np.testing.assert_array_equal(out[1:], a[:-2] + a[2:])


def test_turns_that_come_out_even_have_no_condition() -> None:
    knl = lp.make_kernel("{[i]: 0 <= i < 64}", "out[i] = a[63 - i]")
    knl = lp.split_iname(knl, "i", 64, outer_tag="g.0")
    knl = lp.split_iname(knl, "i_inner", 16, inner_tag="l.0")
    knl = lp.add_prefetch(knl, "a", "i_inner_inner, i_inner_outer")
    turns = "for a_dim_0_outer = 0 .. 4\n  let a_dim_0 = 16*a_dim_0_outer + lid(0)\n  a_fetch_rule("
    assert turns in trees(knl)


def test_what_all_do_is_a_loop_and_the_rest_a_copy() -> None:
    text, sizes = "out[i] = a[i] + a[i + 2]", "n mod 16 = 0"
    knl = lp.make_kernel("{[i]: 0 <= i < n}", text, assumptions=sizes)
    knl = lp.split_iname(knl, "i", 16, outer_tag="g.0")
    knl = lp.split_iname(knl, "i_inner", 8, inner_tag="l.0")
    sweep = "i_inner_inner, i_inner_outer"
    code = trees(lp.add_prefetch(knl, "a", sweep, fetch_bounding_box=True), 16, 32)
    assert code.startswith("for a_dim_0_outer = 0 .. 2\n  let a_dim_0 = 8*a_dim_0_outer + lid(0)\n")
    assert "\nif lid(0) < 2\n  a_fetch_rule(" in code


def test_many_turns_are_a_loop_in_strides() -> None:
    knl = lp.make_kernel("{[i, j]: 0 <= i < 2 and 0 <= j < 200}", "out[i, j] = a[j]*i")
    knl = lp.tag_inames(knl, {"i": "l.0"})
    knl = lp.add_prefetch(knl, "a", "j", default_tag="l.auto")
    assert "for a_dim_0 = lid(0) .. 200 by 2" in trees(knl)
