"""Every instance has code, also where isl's AST builder leaves some out."""

from __future__ import annotations

from typing import Any

import islpy as isl
import numpy as np
import pytest

import kgen as lp
from kgen.ast import complete
from kgen.ast.nodes import print_tree
from kgen.lowering import lower
from tests.oracle import Oracle


def check(unit: lp.TranslationUnit, *sizes: int) -> None:
    lowered = lower(unit.default_entrypoint)
    for size in sizes:
        Oracle(lowered.kernel, {"n": size}).check(lowered.functions)


def strided(tag: str | None = None, slabs: tuple[int, int] = (0, 0)) -> lp.TranslationUnit:
    args = [lp.GlobalArg("a", "int32", shape="n"), "..."]
    domain = "{[i]: 0 <= i < n and i mod 3 = 0}"
    knl = lp.make_kernel(domain, "a[i] = i", args, target=lp.CTarget(), assumptions="n >= 0")
    return lp.split_iname(knl, "i", 5, inner_tag=tag, slabs=slabs)


def test_a_slab_of_a_strided_loop_is_whole() -> None:
    # the last i_outer is n // 5, and isl takes i_inner = n // 5 mod 3 to be all of it
    check(strided(slabs=(0, 1)), *range(14))


def test_an_unrolled_loop_with_a_stride_from_a_varying_start_is_whole() -> None:
    check(strided("unr"), *range(14))


def test_a_single_trip_is_not_written_in_terms_of_loops_inside() -> None:
    knl = strided(slabs=(0, 1))
    knl = lp.split_iname(knl, "i_inner", 2)
    check(lp.prioritize_loops(knl, "i_outer,i_inner_outer,i_inner_inner"), *range(16))


def test_a_stride_of_many_loops_is_a_guard() -> None:
    knl, iname = strided(), "i_outer"
    for length in (4, 2, 2, 2):
        knl = lp.split_iname(knl, iname, length)
        iname += "_outer"
    (function,) = lower(knl.default_entrypoint).functions
    assert "% 3 == 0" in print_tree(function.body)
    check(knl, 0, 7, 40)


def test_a_strided_loop_around_work_items_is_no_guard() -> None:
    text = "for i\n t[j] = a[i + j] {id=t}\n b[i, k] = t[3 - k] {dep=t}\n end"
    local = lp.TemporaryVariable("t", shape=4, address_space=lp.AddressSpace.LOCAL)
    domain = "{[i, j, k]: 0 <= i < n and i mod 3 = 1 and 0 <= j, k < 4}"
    data = [local, lp.GlobalArg("b", shape=("n", 4)), lp.GlobalArg("a", shape="n + 3"), "..."]
    knl = lp.make_kernel(domain, text, data, target=lp.CudaTarget())
    knl = lp.tag_inames(lp.add_dtypes(knl, {"a": "float32"}), "j:l.0, k:l.0")
    (function,) = lower(knl.default_entrypoint).functions
    assert print_tree(function.body).startswith("for i = 1 .. n by 3\n  barrier")
    check(knl, 0, 1, 7)


def test_slabs_that_isl_has_no_code_for_stay_among_the_others() -> None:
    args = [*(lp.GlobalArg(x, "int32", shape="n + 2") for x in "ab"), "..."]
    text = "a[i + 2] = i {id=s}\nb[n - 1 - i] = a[i + 2] {dep=s}"
    knl = lp.make_kernel("{[i]: -2 <= i < n}", text, args, target=lp.CTarget())
    knl = lp.split_iname(lp.assume(knl, "n >= 0"), "i", 2, inner_tag="unr")
    knl = lp.split_iname(knl, "i_outer", 2, inner_tag="ilp", slabs=(1, 0))
    knl = lp.split_iname(knl, "i_outer_outer", 2, slabs=(0, 1))
    inner = "i_outer_outer_inner"
    knl = lp.split_iname(knl, inner, 2, inner_tag="unr", slabs=(1, 1), within="writes:b")
    check(lp.split_iname(knl, inner, 2, inner_tag="ilp.seq", slabs=(1, 1)), 0, 3, 17)


@pytest.mark.parametrize("stride", ["", " and i mod 2 = 0"])
def test_loops_of_one_value_each_that_share_a_band_are_whole(stride: str) -> None:
    # of j_outer_inner, isl takes one of its two values to be all
    domains = [f"{{[i]: 0 <= i <= n{stride}}}", "{[j]: i <= j < i + 3}"]
    args = [lp.GlobalArg("a", "int32", shape=("n + 1", "n + 3")), "..."]
    knl = lp.make_kernel(domains, "a[i, j] = i", args, assumptions="n >= 0", target=lp.CTarget())
    knl = lp.split_iname(knl, "j", 3)
    knl = lp.split_iname(knl, "j_outer", 2)
    knl = lp.split_iname(knl, "j_outer_outer", 2)
    knl = lp.split_iname(knl, "j_outer_outer_outer", 2)
    outer = "j_outer_outer_outer"
    order = f"i,{outer}_outer,j_inner,{outer}_inner,j_outer_outer_inner,j_outer_inner"
    check(lp.prioritize_loops(knl, order), 2, 5, 27)


def test_a_loop_in_strides_of_work_items_still_bounds_those_around_it() -> None:
    # the buffer's loop begins at max(0, k - n + 3), of which a condition is made
    data = [lp.GlobalArg("out", "int32", shape=(3, "n")), "..."]
    domain = "{[i, k]: 0 <= i < 3 and 0 <= k < n - i}"
    text = "out[2 - i, n - 1 - k] = 4"
    knl = lp.make_kernel(domain, text, data, assumptions="n >= 1", target=lp.CudaTarget())
    knl = lp.split_iname(knl, "i", 2, outer_tag="g.0", inner_tag="l.0")
    check(lp.buffer_array(knl, "out", ("i_inner",), default_tag="l.auto"), 1, 2, 5)


def test_strides_that_cost_isl_too_much_are_guards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(complete, "MAX_OPERATIONS", 100)
    (function,) = lower(strided(slabs=(0, 1)).default_entrypoint).functions
    assert "% 3 == 0" in print_tree(function.body)
    check(strided(slabs=(0, 1)), *range(14))


def test_no_loop_is_bounded_by_its_own_variable() -> None:
    # isl ends the loop over i_inner in the slab at n - 5*floor((n - i_inner + 4)/5) + 3
    args = [lp.GlobalArg("a", "int32", shape="n + 3"), "..."]
    assumptions = "n >= 0 and n mod 3 = 0"
    knl = lp.make_kernel(
        "{[i]: 0 <= i < n + 3}", "a[i] = i {if=i >= n}", args, assumptions=assumptions
    )
    check(lp.split_iname(knl, "i", 5, slabs=(0, 1)), *range(0, 31, 3))


class GivenUp:
    """What isl hands to a callback when it has used up its operations."""

    def get_schedule(self) -> isl.UnionMap:
        raise isl.Error("maximal number of operations exceeded")


def test_isl_may_give_up_while_it_reports() -> None:
    # an error that leaves a callback would end the process
    leaves: list[isl.UnionMap] = []
    node: Any = object()
    build: Any = GivenUp()
    assert complete._record(leaves, node, build) is node
    assert not leaves


def test_boxes_have_no_quotients() -> None:
    """With those of projections, isl looked for code for minutes."""
    domain = isl.Set(
        "[n] -> { S[i, a, b, c] : i < 12*a + 7*b + 5*c <= i + 2 and 0 <= i, a < n and 0 <= b <= 3 "
        "and 0 <= c <= 2 }"
    )
    box = complete._box(domain)
    assert domain.is_subset(box)
    assert not complete._has_strides(box)


def test_strides_beside_rounded_sizes_do_not_divide_by_zero() -> None:
    knl = lp.make_kernel(
        "{ [i]: m <= i < n and i mod 3 = 1 }",
        "out[i - m] = a[i - m]",
        [lp.GlobalArg("a, out", np.int32, shape=13), lp.ValueArg("n, m", np.int32)],
        assumptions="0 <= m <= n <= m + 12",
        target=lp.ExecutableCTarget(),
    )
    knl = lp.split_iname(knl, "i", 7, outer_tag="g.0")
    knl = lp.split_iname(knl, "i_inner", 2, inner_tag="unr", slabs=(1, 0))
    knl = lp.split_iname(knl, "i_inner_outer", 2, slabs=(1, 1))
    out = np.zeros(13, np.int32)
    knl(a=np.arange(1, 14, dtype=np.int32), out=out, n=14, m=2)
    assert np.flatnonzero(out).tolist() == [2, 5, 8, 11]
