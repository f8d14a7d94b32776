"""Loops in other coordinates."""

from __future__ import annotations

import islpy as isl
import numpy as np
import pytest

import kgen as lp
from kgen.transforms.loops.affine import affine_map_inames, map_domain
from tests.transforms.helpers import (
    assert_same_results,
    domain,
    instructions,
    kernel_of,
    same_set,
)


def matrix() -> lp.TranslationUnit:
    return lp.make_kernel("{[i, j]: 0 <= i < 5 and 0 <= j <= i}", "a[i, j] = 3*i + j")


ZEROS = {"a": np.zeros((5, 5), np.int32)}


def test_a_loop_runs_backwards() -> None:
    knl = lp.make_kernel("{[i]: 0 <= i < n}", "a[i] = i")
    turned = affine_map_inames(knl, "i", "z", "z = n - 1 - i")
    assert same_set(domain(turned, "z"), "[n] -> {[z]: 0 <= z < n}")
    assert_same_results(knl, turned, {"n": 6})


@pytest.mark.parametrize(
    ("new", "equations"),
    [
        ("p,q", ["p = i + j", "q = j"]),
        ("p,q", [("p", "j"), ("q", "i")]),
        ("p,q", ["p = 2*i", "q = j - 7"]),
        ("p,q", ["i = p + q", "j = q"]),
    ],
)
def test_mapped_loops_visit_the_same_points(new: str, equations: list[str]) -> None:
    mapped = affine_map_inames(matrix(), "i,j", new, equations)
    assert set(kernel_of(mapped).inames) == {"p", "q"}
    assert domain(mapped, "p,q").count_val().to_python() == 15
    assert_same_results(matrix(), mapped, ZEROS)


def test_reductions_are_mapped_too() -> None:
    knl = lp.make_kernel("{[i, k]: 0 <= i, k < 6}", "c[i] = sum(k, a[i, k]*k)")
    mapped = affine_map_inames(knl, "k", "z", "z = k + 3")
    assert instructions(mapped) == ["i: c[i] = reduce(sum, [z], a[i, z - 3]*(z - 3))"]
    assert_same_results(knl, mapped, {"a": np.random.default_rng(0).random((6, 6))})


@pytest.mark.parametrize(
    ("equations", "what"),
    [
        ("z = i // 2", "is not one to one"),
        ("z", "'z' is not an equation"),
        ("z = i*i", "is not affine"),
        ("z = i + w", "'w' is neither one of the inames i, z nor a parameter"),
    ],
)
def test_what_is_no_change_of_coordinates(equations: str, what: str) -> None:
    with pytest.raises(lp.TransformError, match=what):
        affine_map_inames(matrix(), "i", "z", equations)


def test_maps_of_islpy() -> None:
    relation = isl.BasicMap("{[i, j] -> [p, q]: p = j and q = i - j}")
    mapped = map_domain(matrix(), relation)
    assert instructions(mapped) == ["p,q: a[p + q, p] = 3*(p + q) + p"]
    assert_same_results(matrix(), mapped, ZEROS)
    with pytest.raises(lp.KernelError, match="dimensions without names"):
        map_domain(matrix(), "{[i] -> [i + 1]}")
    with pytest.raises(lp.TransformError, match="the name 'j' is taken"):
        map_domain(matrix(), "{[i] -> [j]: j = i}")


@pytest.mark.parametrize(
    ("old", "new", "equations"),
    [("i", "z", "2*z = i"), ("i", "", "i = 3"), ("i, j", "z", ["z = i", "z = j"])],
)
def test_no_iteration_is_lost(old: str, new: str, equations: str | list[str]) -> None:
    knl = lp.make_kernel("{[i, j]: 0 <= i, j < 5}", "a[i, j] = 3*i + j")
    with pytest.raises(
        lp.TransformError, match=r"leave iterations of i.* out\n.* corresponds to i = \d"
    ):
        affine_map_inames(knl, old, new, equations)


def test_a_stride_is_a_coordinate_where_all_iterations_have_it() -> None:
    knl = lp.make_kernel("{[i]: 0 <= i < 2*n and i mod 2 = 0}", "a[i] = i", assumptions="n >= 1")
    halved = map_domain(knl, "{[i] -> [z]: i = 2*z}")
    assert same_set(domain(halved, "z"), "[n] -> {[z]: 0 <= z < n}")


def test_a_new_loop_has_a_name() -> None:
    with pytest.raises(lp.TransformError, match="old_inames names no inames"):
        affine_map_inames(matrix(), (), "m", "m = 5")
    with pytest.raises(lp.TransformError, match="'-1' is not a name"):
        affine_map_inames(matrix(), "i", "-1", "j = i + 3")
