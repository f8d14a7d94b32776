"""Temporaries with one entry per iteration."""

from __future__ import annotations

import numpy as np
import pytest

import kgen as lp
from kgen.transforms.storage.privatize import privatize_for_ilp
from tests.transforms.helpers import assert_same_results, instructions, kernel_of


def smooth() -> lp.TranslationUnit:
    text = ["<> t = 2*a[i] {id=t}", "b[i] = t*t {id=b}"]
    return lp.make_kernel("{[i]: 0 <= i < n}", text)


def test_interleaved_instances_get_their_own_temporaries() -> None:
    knl = kernel_of(lp.split_iname(smooth(), "i", 4, inner_tag="ilp"))
    private = privatize_for_ilp(knl)
    assert instructions(private) == [
        "i_inner,i_outer: t[i_inner] = 2*a[i_inner + i_outer*4]",
        "i_inner,i_outer: b[i_inner + i_outer*4] = t[i_inner]*t[i_inner]",
    ]
    assert private.temporary_variables["t"].shape == (4,)


@pytest.mark.parametrize("tag", ["ilp", "ilp.seq", "unr"])
def test_interleaved_kernels_compute_the_same(tag: str) -> None:
    data = {"a": np.random.default_rng(0).random(11)}
    assert_same_results(smooth(), lp.split_iname(smooth(), "i", 4, inner_tag=tag), data)


def test_a_kernel_without_such_loops_is_left_alone() -> None:
    knl = kernel_of(lp.split_iname(smooth(), "i", 4))
    assert privatize_for_ilp(knl) is knl


def test_entries_count_from_the_lower_bound() -> None:
    knl = lp.make_kernel("{[i]: 3 <= i < 7}", ["<> t = 2*a[i]", "b[i] = t"])
    private = lp.privatize_temporaries_with_inames(knl, "i")
    assert instructions(private)[0] == "i: t[i - 3] = 2*a[i]"
    assert kernel_of(private).temporary_variables["t"].shape == (4,)


def test_new_axes_come_last_and_are_the_densest() -> None:
    text = ["<> t[k] = a[i, j, k] {inames=i:j:k}", "b[i, j, k] = t[k] {inames=i:j:k}"]
    knl = lp.make_kernel("{[i, j, k]: 0 <= i < 2 and 0 <= j < 3 and 0 <= k < 4}", text)
    declared = kernel_of(knl).temporary_variables["t"].copy(shape=(4,), dim_tags=None)
    knl = knl.with_kernel(kernel_of(knl).copy(temporary_variables={"t": declared}))
    private = lp.privatize_temporaries_with_inames(knl, "j,i")
    assert instructions(private)[0] == "i,j,k: t[k, i, j] = a[i, j, k]"
    variable = kernel_of(private).temporary_variables["t"]
    assert (variable.shape, variable.fixed_strides) == ((4, 2, 3), (6, 3, 1))
    assert_same_results(knl, private, {"a": np.random.default_rng(0).random((2, 3, 4))})


def test_temporaries_subscripted_by_the_loop_are_private_already() -> None:
    knl = lp.make_kernel("{[i]: 0 <= i < 4}", ["<> t[i] = a[i]", "b[i] = t[i]"])
    assert lp.privatize_temporaries_with_inames(knl, "i") is knl


def test_only_some_variables() -> None:
    text = ["<> s = a[i]", "<> t = 2*a[i]", "b[i] = s + t"]
    knl = lp.make_kernel("{[i]: 0 <= i < 4}", text)
    private = lp.privatize_temporaries_with_inames(knl, "i", only_var_names="t")
    assert instructions(private)[2] == "i: b[i] = s + t[i]"
    with pytest.raises(lp.TransformError, match="no temporary 'u'"):
        lp.privatize_temporaries_with_inames(knl, "i", only_var_names="u")


def test_rules_that_read_a_temporary() -> None:
    text = ["f(x) := t + x", "<> t = a[i]", "b[i] = f(1)"]
    private = lp.privatize_temporaries_with_inames(
        lp.make_kernel("{[i]: 0 <= i < 4}", text), "i", "t"
    )
    assert str(kernel_of(private).substitutions["f"]) == "f(x) := t[i] + x"


def test_a_use_outside_of_the_loop_is_refused() -> None:
    text = ["<> t = a[i] {id=t}", "b[0] = t {id=b, inames=}"]
    knl = lp.make_kernel("{[i, j]: 0 <= i, j < 4}", text)
    knl = lp.tag_inames(knl, "i:ilp")
    with pytest.raises(lp.TransformError, match="'b' uses temporary 't' outside loop 'i'") as info:
        privatize_for_ilp(kernel_of(knl))
    assert "tagged 'ilp.unr'" in str(info.value)


def test_a_parametric_number_of_instances_is_refused() -> None:
    with pytest.raises(lp.TransformError, match="no constant number of iterations") as info:
        privatize_for_ilp(kernel_of(lp.tag_inames(smooth(), "i:ilp")))
    assert "split_iname(kernel, 'i', 4, inner_tag='ilp.unr')" in str(info.value)


def test_axes_are_taken_back() -> None:
    private = lp.privatize_temporaries_with_inames(lp.fix_parameters(smooth(), n=6), "i")
    back = lp.unprivatize_temporaries_with_inames(private, "i")
    assert instructions(back) == ["i: t = 2*a[i]", "i: b[i] = t*t"]
    assert kernel_of(back).temporary_variables["t"].shape in ((), lp.auto)
    data = {"a": np.random.default_rng(0).random(6)}
    assert_same_results(private, back, data)


def test_an_axis_that_differs_between_uses_stays() -> None:
    text = ["<> t[i] = a[i] {id=t}", "b[i] = t[i] + t[3 - i] {dep=t}"]
    knl = lp.make_kernel("{[i]: 0 <= i < 4}", text)
    assert lp.unprivatize_temporaries_with_inames(knl, "i") is knl
    with pytest.raises(lp.TransformError, match="'t' has no axis that is always 'i'"):
        lp.unprivatize_temporaries_with_inames(knl, "i", "t")
