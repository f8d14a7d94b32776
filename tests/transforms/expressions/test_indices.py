"""Subscripts in their shortest form."""

from __future__ import annotations

import numpy as np
import pytest

import kgen as lp
from tests.transforms.helpers import assert_same_results, instructions

DOMAIN = "{ [i, j, k]: 0<=i<n and 0<=j<4 and 0<=k<j }"


def simplified(index: str, domain: str = DOMAIN) -> str:
    free = [lp.GlobalArg("a, b", shape=None), ...]
    knl = lp.make_kernel(domain, f"b[0] = a[{index}]", free)
    (text,) = instructions(lp.simplify_indices(knl))
    return text.partition(" = a[")[2].rstrip("]")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("2*i - i + 3 - 2", "i + 1"),
        ("(4*i + 2) // 4", "i"),
        ("(4*i + 2) % 4", "2"),
        ("(4*i + j) // 4", "i"),
        ("(4*i + j) % 4", "j"),
        ("j % 4", "j"),
        ("j // 4 + i", "i"),
        ("(4*i + j) // 8", "(4*i + j) // 8"),
        ("i + n*(i - i)", "i"),
        ("i*j", "i*j"),
        ("i", "i"),
    ],
)
def test_loops_decide_what_divisions_are(before: str, after: str) -> None:
    assert simplified(before) == after


def test_subscripts_in_subscripts() -> None:
    text = "b[i + 0] = a[idx[2*i - i] + 1 - 1]"
    knl = lp.make_kernel("{ [i]: 0<=i<n }", text, [lp.GlobalArg("a", shape=None), ...])
    assert instructions(lp.simplify_indices(knl)) == ["i: b[i] = a[idx[i]]"]


def test_subscripts_in_reductions_know_their_loops() -> None:
    knl = lp.make_kernel(DOMAIN, "b[i] = sum(j, a[(4*i + j) // 4, (4*i + j) % 4])")
    assert instructions(lp.simplify_indices(knl)) == ["i: b[i] = reduce(sum, [j], a[i, j])"]


def test_a_joined_loop_that_was_split_again() -> None:
    knl = lp.make_kernel("{ [i, j]: 0<=i<8 and 0<=j<4 }", "b[i, j] = 2*a[i, j]")
    again = lp.split_iname(lp.join_inames(knl, "i, j", "ij"), "ij", 4)
    after = lp.simplify_indices(again)
    assert instructions(after) == [
        "ij_inner,ij_outer: b[ij_outer, ij_inner] = 2*a[ij_outer, ij_inner]"
    ]
    assert_same_results(knl, after, {"a": np.arange(32.0).reshape(8, 4)})
