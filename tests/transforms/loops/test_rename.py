"""Renaming, fusing and duplicating loops."""

from __future__ import annotations

import numpy as np
import pytest

import kgen as lp
from kgen.transforms.loops.rename import (
    duplicate_inames,
    rename_iname,
    rename_inames,
    rename_inames_in_batch,
)
from tests.transforms.helpers import (
    assert_same_results,
    domain,
    instructions,
    kernel_of,
    same_set,
)


def triangle() -> lp.TranslationUnit:
    text = ["a[i, j] = 2*i {id=one}", "b[i] = i {id=two}"]
    return lp.make_kernel("{[i, j]: 0 <= i < n and 0 <= j < i}", text)


def test_a_copy_is_bound_as_the_original_is() -> None:
    copied = duplicate_inames(triangle(), "i", "id:one")
    assert instructions(copied) == ["i_0,j: a[i_0, j] = 2*i_0", "i: b[i] = i"]
    assert same_set(domain(copied, "i_0,j"), "[n] -> {[i_0, j]: 0 <= i_0 < n and 0 <= j < i_0}")


def test_copies_that_nothing_else_bounds_get_a_domain_of_their_own() -> None:
    copied = duplicate_inames(triangle(), "i,j", "id:one", tags={"i": "g.0"})
    assert str(kernel_of(copied).domains[1]) == (
        "[n] -> { [i_0, j_0] : 0 <= i_0 < n and 0 <= j_0 < i_0 }"
    )
    assert set(kernel_of(copied).inames) == {"i", "i_0", "j_0"}
    assert str(*kernel_of(copied).inames["i_0"].tags) == "g.0"


def test_nests_over_several_domains_are_copied_whole() -> None:
    text = ["a[i, j] = i {id=one}", "b[i, j] = j {id=two}"]
    knl = lp.make_kernel(["{[i]: 0 <= i < n}", "{[j]: 0 <= j < i}"], text)
    copied = duplicate_inames(knl, "i,j", "id:one")
    assert [str(d) for d in kernel_of(copied).domains] == [
        "[n] -> { [i] : 0 <= i < n }",
        "[n] -> { [i_0] : 0 <= i_0 < n }",
        "[i] -> { [j] : 0 <= j < i }",
        "[i_0] -> { [j_0] : 0 <= j_0 < i_0 }",
    ]
    with pytest.raises(lp.TransformError, match="bounds of loop 'j' depend on 'i'"):
        duplicate_inames(knl, "i", "id:one")
    zeros = {"a": np.zeros((5, 4), np.int32), "b": np.zeros((5, 4), np.int32)}
    assert_same_results(knl, copied, zeros)


def test_names_of_copies() -> None:
    knl = triangle()
    assert instructions(duplicate_inames(knl, "i", "id:two", suffix="_x"))[1] == "i_x: b[i_x] = i_x"
    assert instructions(duplicate_inames(knl, "i", "id:two", ["z"]))[1] == "z: b[z] = z"
    with pytest.raises(lp.TransformError, match="there are not as many new names"):
        duplicate_inames(knl, "i", "id:two", "y,z")
    with pytest.raises(lp.TransformError, match="the name 'j' is taken"):
        duplicate_inames(knl, "i", "id:two", "j")
    with pytest.raises(lp.TransformError, match="the name 'y' is taken"):
        duplicate_inames(knl, "i,j", "id:two", ["y", "y"])
    with pytest.raises(lp.TransformError, match="tag is given for 'j', which is not duplicated"):
        duplicate_inames(knl, "i", "id:two", tags={"j": "unr"})


def test_priorities_and_reductions_follow_a_copy() -> None:
    knl = lp.make_kernel("{[i, k]: 0 <= i, k < 8}", ["c[i] = sum(k, a[i, k])", "d[i] = i {id=d}"])
    copied = duplicate_inames(lp.prioritize_loops(knl, "i,k"), "i,k", "writes:c")
    assert instructions(copied)[0] == "i_0: c[i_0] = reduce(sum, [k_0], a[i_0, k_0])"
    assert kernel_of(copied).loop_priority == (("i_0", "k_0"),)


def test_a_tag_that_does_not_fit_a_copy_is_refused() -> None:
    knl = lp.make_kernel("{[i, k, l]: 0 <= i, k, l < 8}", "c[i] = sum((k, l), a[i, k, l])")
    knl = lp.tag_inames(knl, "k:l.0")
    with pytest.raises(lp.TransformError, match=r"both on the hardware axis .l\.0."):
        duplicate_inames(knl, "l", None, tags={"l": "l.0"})


def test_renaming_keeps_tags_slabs_and_priorities() -> None:
    knl = lp.prioritize_loops(lp.tag_inames(triangle(), "i:unr"), "i,j")
    renamed = kernel_of(rename_iname(knl, "i", "row"))
    assert instructions(renamed)[0] == "j,row: a[row, j] = 2*row"
    assert str(*renamed.inames["row"].tags) == "unr"
    assert renamed.loop_priority == (("row", "j"),)
    assert same_set(domain(renamed, "row,j"), "[n] -> {[row, j]: 0 <= row < n and 0 <= j < row}")
    assert not kernel_of(rename_iname(knl, "i", "row", preserve_tags=False)).inames["row"].tags


def two_loops(second: str) -> lp.TranslationUnit:
    text = ["a[i] = 0 {id=one}", "b[j] = 1 {id=two}"]
    return lp.make_kernel(["{[i]: 0 <= i < n}", second], text)


def test_equal_loops_are_fused() -> None:
    fused = rename_iname(two_loops("{[j]: 0 <= j < n}"), "j", "i", existing_ok=True)
    assert instructions(fused) == ["i: a[i] = 0", "i: b[i] = 1"]
    assert len(kernel_of(fused).domains) == 1
    with pytest.raises(lp.TransformError, match="the name 'i' is taken"):
        rename_iname(two_loops("{[j]: 0 <= j < n}"), "j", "i")


def test_fusing_different_loops_is_refused_at_a_point_where_they_differ() -> None:
    knl = two_loops("{[j]: 0 <= j < n - 1}")
    with pytest.raises(
        lp.TransformError, match="'j' cannot become 'i': their bounds differ"
    ) as info:
        rename_iname(knl, "j", "i", existing_ok=True)
    assert "instruction 'two'" in str(info.value)
    assert "at: n=1, i=0" in str(info.value)
    loose = rename_iname(knl, "j", "i", existing_ok=True, raise_on_domain_mismatch=False)
    assert instructions(loose)[1] == "i: b[i] = 1"


def test_loops_that_only_bound_others_are_compared_too() -> None:
    domains = ["{[i, j]: 0 <= i < 4 and 0 <= j < 2}", "{[k]: 0 <= k <= i + 4*j}"]
    knl = lp.make_kernel(domains, "b = sum(k, x[k])")
    with pytest.raises(lp.TransformError, match="'i' cannot become 'j': their bounds differ"):
        rename_iname(knl, "i", "j", existing_ok=True)


def test_assumptions_may_make_loops_equal() -> None:
    knl = lp.assume(two_loops("{[j]: 0 <= j < n and 2*j < n + m}"), "m >= n")
    assert instructions(rename_iname(knl, "j", "i", existing_ok=True))[1] == "i: b[i] = 1"


def test_nested_loops_are_not_fused() -> None:
    with pytest.raises(lp.TransformError, match="'one' uses both 'j' and 'i'"):
        rename_iname(triangle(), "j", "i", existing_ok=True)


def test_a_reduction_does_not_take_the_loop_around_it() -> None:
    knl = lp.make_kernel("{[i, k]: 0 <= i, k < 4}", "b[i] = sum(k, a[i, k])")
    with pytest.raises(lp.TransformError, match="'insn' uses both 'k' and 'i'"):
        rename_iname(knl, "k", "i", existing_ok=True)


def test_bounds_that_depend_on_a_loop_through_others_are_not_cut_off() -> None:
    # The sum over k ends at some j <= i: it needs j bounded by the loop of 'two'.
    domains = ["{[i]: 0 <= i < n}", "{[j]: 0 <= j <= i}", "{[k]: 0 <= k <= j}"]
    knl = lp.make_kernel(domains, ["a[i, j] = j {id=one}", "b[i] = sum(k, x[i, k]) {id=two}"])
    with pytest.raises(lp.TransformError, match="bounds of loop 'j' depend on 'i'") as info:
        rename_iname(knl, "i", "z", within="id:two")
    assert "bound the loops of 'two' without 'j'" in str(info.value)


def test_the_bounds_inside_follow_a_fused_loop() -> None:
    domains = ["{[i]: 0 <= i < n}", "{[j]: 0 <= j < n}", "{[k]: 0 <= k < j}"]
    knl = lp.make_kernel(domains, ["a[i] = i", "b[j, k] = k"])
    fused = rename_iname(knl, "j", "i", existing_ok=True)
    assert str(kernel_of(fused).domains[1]) == "[i] -> { [k] : 0 <= k < i }"
    assert_same_results(knl, fused, {"b": np.zeros((6, 5), np.int32)})


def test_several_loops_become_one() -> None:
    text = ["a[i] = 0", "b[j] = 1", "c[k] = 2"]
    knl = lp.make_kernel("{[i, j, k]: 0 <= i, j, k < 8}", text)
    assert instructions(rename_inames(knl, ["i", "j"], "z")) == [
        "z: a[z] = 0",
        "z: b[z] = 1",
        "k: c[k] = 2",
    ]
    batch = rename_inames_in_batch(knl, {"x": ["i", "j"], "y": ["k"]})
    assert set(kernel_of(batch).inames) == {"x", "y"}


@pytest.mark.parametrize(("barrier", "is_refused"), [("gbarrier", False), ("nop", True)])
def test_a_global_barrier_between_loops_separates_their_iterations(
    barrier: str, is_refused: bool
) -> None:
    lines = [
        "a[i] = b[i]        {id=a}",
        f"... {barrier}      {{id=bar, dep=a}}",
        "c[i] = a[7 - i]    {id=c, dep=bar:a}",
    ]
    knl = lp.make_kernel("{ [i]: 0 <= i < 8 }", lines, [lp.GlobalArg("a, b, c", shape=8)])
    if is_refused:
        with pytest.raises(lp.TransformError, match="cannot get different loops"):
            lp.duplicate_inames(knl, "i", "id:c")
    else:
        assert "c[i_0] = a[7 - i_0]" in str(lp.duplicate_inames(knl, "i", "id:c"))


def test_loops_with_data_dependent_subscripts_are_fused_with_a_warning() -> None:
    data = [lp.GlobalArg("at", np.int32, shape="n"), lp.GlobalArg("b", shape="n"), ...]
    knl = lp.make_kernel(
        "{[i, j]: 0 <= i, j < n}", "b[at[i]] = a[i]\nb[at[j]] = 2*a[j]", data, seq_dependencies=True
    )
    with pytest.warns(lp.KgenWarning, match=r"(?s)may depend on later.*reordered_access\(b\)"):
        fused = rename_iname(knl, "j", "i", existing_ok=True)
    at, a = np.array([3, 0, 1, 2], np.int32), np.arange(4.0)
    assert_same_results(knl, fused, {"at": at, "a": a, "b": np.zeros(4)})


def test_reads_of_later_iterations_are_rejected_beside_data_dependent_ones() -> None:
    data = [lp.GlobalArg("at", np.int32, shape=8), lp.GlobalArg("b", shape=8), ...]
    text = "b[i] = a[i]\nc[j] = b[at[j]] + b[7 - j]"
    knl = lp.make_kernel("{[i, j]: 0 <= i, j < 8}", text, data, seq_dependencies=True)
    with pytest.raises(lp.TransformError, match="iterations of 'insn_0' depend on later"):
        rename_iname(knl, "j", "i", existing_ok=True)
