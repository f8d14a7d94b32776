"""Splitting loops into two, into chunks, and joining them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymbolic.primitives as p
import pytest

import kgen as lp
from kgen.transforms.loops.rename import duplicate_inames
from tests.transforms.helpers import (
    assert_same_results,
    domain,
    instructions,
    kernel_of,
    same_set,
)

TWO = ["a[i] = 2*i {id=one}", "b[i] = i + 1 {id=two}"]


def vector_fill() -> lp.TranslationUnit:
    return lp.make_kernel("{[i]: 0 <= i < n}", "a[i] = 2*i", assumptions="n >= 1")


def test_inner_and_outer_take_the_place_of_the_old_loop() -> None:
    knl = lp.split_iname(vector_fill(), "i", 16)
    assert instructions(knl) == [
        "i_inner,i_outer: a[i_inner + i_outer*16] = 2*(i_inner + i_outer*16)"
    ]
    assert set(kernel_of(knl).inames) == {"i_inner", "i_outer"}
    expected = "[n] -> {[i_outer, i_inner]: 0 <= i_inner < 16 and 0 <= i_inner + 16*i_outer < n}"
    assert same_set(domain(knl, "i_outer,i_inner"), expected)


def test_names_and_tags_are_given() -> None:
    knl = lp.split_iname(
        vector_fill(), "i", 8, outer_iname="b", inner_iname="t", outer_tag="g.0", inner_tag="l.0"
    )
    assert {name: str(*iname.tags) for name, iname in kernel_of(knl).inames.items()} == {
        "b": "g.0",
        "t": "l.0",
    }


def test_new_names_avoid_those_that_are_taken() -> None:
    knl = lp.make_kernel("{[i, i_inner]: 0 <= i, i_inner < 4}", "a[i, i_inner] = 0")
    assert instructions(lp.split_iname(knl, "i", 2)) == [
        "i_inner,i_inner_0,i_outer: a[i_inner_0 + i_outer*2, i_inner] = 0"
    ]


def test_a_joint_domain_keeps_its_other_loops_and_their_bounds() -> None:
    knl = lp.make_kernel("{[i, j]: 0 <= i < n and 0 <= j < i}", "a[i, j] = 0")
    split = lp.split_iname(knl, "i", 16)
    assert kernel_of(split).iname_order == {"i_outer": 0, "i_inner": 1, "j": 2}
    expected = "[n] -> {[o, k, j]: 0 <= k < 16 and k + 16*o < n and 0 <= j < k + 16*o}"
    renamed = expected.replace("o,", "i_outer,").replace("k,", "i_inner,")
    renamed = renamed.replace("16*o", "16*i_outer").replace("k ", "i_inner ")
    assert same_set(domain(split, "i_outer,i_inner,j"), renamed)


def test_the_bounds_of_a_nested_domain_follow() -> None:
    knl = lp.make_kernel(["{[i]: 0 <= i < n}", "{[j]: 0 <= j < i}"], "a[i, j] = 0")
    split = lp.split_iname(knl, "i", 4)
    assert str(kernel_of(split).domains[1]) == (
        "[i_outer, i_inner] -> { [j] : 0 <= j < 4i_outer + i_inner }"
    )


def test_within_leaves_the_old_loop_to_the_others() -> None:
    knl = lp.make_kernel("{[i]: 0 <= i < n}", TWO)
    split = lp.split_iname(knl, "i", 4, within="id:two")
    assert instructions(split) == [
        "i: a[i] = 2*i",
        "i_inner,i_outer: b[i_inner + i_outer*4] = i_inner + i_outer*4 + 1",
    ]
    assert same_set(domain(split, "i"), "[n] -> {[i]: 0 <= i < n}")
    assert same_set(
        domain(split, "i_outer,i_inner"),
        "[n] -> {[i_outer, i_inner]: 0 <= i_inner < 4 and 0 <= i_inner + 4*i_outer < n}",
    )
    assert_same_results(knl, split, {"n": 10})


def test_old_and_new_loops_are_independent_of_each_other() -> None:
    # Linked as i == i_inner + 4*i_outer they would describe the points of one loop only.
    knl = lp.make_kernel("{[i]: 0 <= i < 8}", TWO)
    split = lp.split_iname(knl, "i", 4, within="id:two")
    assert domain(split, "i,i_outer,i_inner").count_val().to_python() == 64


def test_a_shared_inner_loop_whose_bounds_would_need_both_is_refused() -> None:
    text = ["a[i, j] = 0 {id=one}", "b[i, j] = 1 {id=two}"]
    knl = lp.make_kernel(["{[i]: 0 <= i < n}", "{[j]: 0 <= j < i}"], text)
    with pytest.raises(lp.TransformError, match="bounds of loop 'j' depend on 'i'") as info:
        lp.split_iname(knl, "i", 4, within="id:two")
    assert "duplicate_inames(kernel, 'j', within='id:two')" in str(info.value)
    apart = duplicate_inames(knl, "j", "id:two")
    zeros = {"a": np.zeros((6, 5), np.int32), "b": np.zeros((6, 5), np.int32)}
    assert_same_results(knl, lp.split_iname(apart, "i", 4, within="id:two"), zeros)


def test_within_that_selects_nothing_is_refused() -> None:
    knl = lp.make_kernel("{[i]: 0 <= i < n}", TWO)
    with pytest.raises(lp.TransformError, match="'within' selects no instruction"):
        lp.split_iname(knl, "i", 4, within="id:three")


def test_reduction_loops_are_split_too() -> None:
    knl = lp.make_kernel("{[i, k]: 0 <= i, k < n}", "c[i] = sum(k, a[i, k])")
    split = lp.split_iname(knl, "k", 8)
    assert instructions(split) == [
        "i: c[i] = reduce(sum, [k_outer, k_inner], a[i, k_inner + k_outer*8])"
    ]


def test_rules_used_on_both_sides_are_copied() -> None:
    text = ["f(x) := a[x + i]", "b[i] = f(1) {id=one}", "c[i] = f(2) {id=two}"]
    knl = lp.make_kernel("{[i]: 0 <= i < 8}", text, [lp.GlobalArg("a", shape="16"), ...])
    split = lp.split_iname(knl, "i", 4, within="id:two")
    assert [str(rule) for rule in kernel_of(split).substitutions.values()] == [
        "f(x) := a[x + i]",
        "f_0(x) := a[x + (i_inner + i_outer*4)]",
    ]
    assert_same_results(knl, split, {"a": np.arange(16.0)})


def test_an_argument_of_a_rule_is_no_iname() -> None:
    text = ["f(i) := 2*i", "b[i] = f(i + 1)"]
    split = lp.split_iname(lp.make_kernel("{[i]: 0 <= i < 8}", text), "i", 4)
    assert str(kernel_of(split).substitutions["f"]) == "f(i) := 2*i"


def test_priorities_and_slabs_are_kept() -> None:
    knl = lp.make_kernel("{[i, j]: 0 <= i, j < n}", "a[i, j] = 0")
    knl = lp.prioritize_loops(knl, "j,i")
    split = kernel_of(lp.split_iname(knl, "i", 4, slabs=(0, 1)))
    assert split.loop_priority == (("j", "i_outer", "i_inner"),)
    assert dict(split.iname_slab_increments) == {"i_outer": (0, 1)}


def test_a_parametric_length_is_refused_with_the_reason() -> None:
    with pytest.raises(lp.TransformError, match="not a fixed integer from 1") as info:
        lp.split_iname(vector_fill(), "i", p.Variable("m"))
    assert "would not be affine" in str(info.value)
    with pytest.raises(lp.TransformError, match="inner_length=0"):
        lp.split_iname(vector_fill(), "i", 0)


def test_a_wrong_name_lists_the_near_ones() -> None:
    knl = lp.split_iname(vector_fill(), "i", 4)
    with pytest.raises(lp.TransformError, match="no iname 'i_iner'") as info:
        lp.split_iname(knl, "i_iner", 2)
    assert "did you mean 'i_inner'" in str(info.value)


def test_a_tagged_loop_is_split_on_demand_only() -> None:
    knl = lp.tag_inames(vector_fill(), "i:g.0")
    with pytest.raises(lp.TransformError, match=r"implemented as 'g\.0'"):
        lp.split_iname(knl, "i", 4)
    split = kernel_of(lp.split_iname(knl, "i", 4, do_tagged_check=False))
    assert not split.inames["i_outer"].tags


def test_other_tags_replace_an_automatic_one() -> None:
    knl = lp.make_kernel("{[i, k]: 0 <= i, k < 8}", "c[i] = sum(k, a[k + 4])")
    knl = lp.add_prefetch(knl, "a", "k", default_tag="l.auto")
    split = lp.split_iname(knl, "a_dim_0", 4, inner_tag="unr")
    assert str(kernel_of(split).inames["a_dim_0_inner"].tags) == "frozenset({UnrollTag()})"
    assert_same_results(knl, split, {"a": np.arange(12.0)})


def test_one_loop_is_joined_to_itself() -> None:
    joined = lp.join_inames(vector_fill(), ["i"], "k")
    assert instructions(joined) == ["k: a[k] = 2*k"]
    with pytest.raises(lp.TransformError, match="no inames to join"):
        lp.join_inames(vector_fill(), [])


def test_a_taken_name_is_refused() -> None:
    with pytest.raises(lp.TransformError, match="the name 'n' is taken"):
        lp.split_iname(vector_fill(), "i", 4, outer_iname="n")


@pytest.mark.parametrize("length", [1, 3, 16])
def test_split_kernels_compute_the_same(length: int) -> None:
    knl = lp.make_kernel("{[i, j]: 0 <= i < n and 0 <= j <= i}", "a[i, j] = 3*i + j")
    arguments = {"n": 7, "a": np.zeros((7, 7))}
    knl = lp.add_dtypes(knl, {"a": np.float64})
    assert_same_results(knl, lp.split_iname(knl, "i", length), arguments)
    both = lp.split_iname(lp.split_iname(knl, "i", length), "j", length, inner_tag="unr")
    assert_same_results(knl, both, arguments)


# -- chunks --------------------------------------------------------------------------------------


@pytest.mark.parametrize("domain", ["n >= 2 and 0 <= j < 3", "0 <= j < n - 1"])
def test_chunks_run_for_the_sizes_for_which_the_loop_ran(domain: str) -> None:
    knl = lp.make_kernel(f"{{ [i, j]: 0 <= i < 2 and {domain} }}", "a[i] = 1 {inames=i}")
    knl = lp.chunk_iname(lp.add_dtypes(knl, {"a": "int32"}), "i", 3)
    assert not lp.verify(knl).violated


@pytest.mark.parametrize("condition", ["i >= 2", "i mod 2 = 0", "i >= 2 and n >= 4"])
def test_chunks_run_in_the_iterations_around_in_which_the_loop_ran(condition: str) -> None:
    domains = ["{ [i]: 0 <= i < n }", f"[i, n] -> {{ [j]: 0 <= j < 4 and {condition} }}"]
    knl = lp.make_kernel(domains, "a[i, j] = 1", [lp.GlobalArg("a", "int32", shape="n, 4"), "..."])
    assert not lp.verify(lp.chunk_iname(knl, "j", 3)).violated


def test_chunks_of_one_length() -> None:
    chunked = lp.chunk_iname(lp.make_kernel("{[i]: 3 <= i < 23}", "a[i] = i"), "i", 4)
    assert instructions(chunked) == [
        "i_inner,i_outer: a[i_inner + i_outer*5 + 3] = i_inner + i_outer*5 + 3"
    ]
    assert same_set(
        domain(chunked, "i_outer,i_inner"),
        "{[i_outer, i_inner]: 0 <= i_outer < 4 and 0 <= i_inner < 5}",
    )


def test_the_first_chunks_are_longer_by_one() -> None:
    chunked = lp.chunk_iname(lp.make_kernel("{[i]: 3 <= i < 21}", "a[i] = 0"), "i", 4)
    assert instructions(chunked) == [
        "i_inner,i_outer: a[i_inner + i_outer*4 + min(i_outer, 2) + 3] = 0"
    ]
    assert same_set(
        domain(chunked, "i_outer,i_inner"),
        "{[i_outer, i_inner]: 0 <= i_outer < 2 and 0 <= i_inner < 5 "
        "or 2 <= i_outer < 4 and 0 <= i_inner < 4}",
    )


def test_chunks_of_a_parametric_loop() -> None:
    chunked = lp.chunk_iname(vector_fill(), "i", 3)
    assert same_set(
        domain(chunked, "i_outer,i_inner"),
        "[n] -> {[i_outer, i_inner]: 0 <= i_outer < 3 and 0 <= i_inner < (n - i_outer + 2)//3}",
    )


def test_chunks_of_a_loop_that_others_depend_on() -> None:
    knl = lp.make_kernel("{[i, j]: 0 <= i < 10 and 0 <= j <= i}", "a[i, j] = 0")
    assert instructions(lp.chunk_iname(knl, "i", 4))[0].endswith("a[i_inner + i_outer*3, j] = 0")
    knl = lp.make_kernel("{[i, j]: 0 <= i < n and 0 <= j <= i}", "a[i, j] = 0")
    with pytest.raises(lp.TransformError, match="no constant number of iterations for 4 chunks"):
        lp.chunk_iname(knl, "i", 4)


def reversed_squares() -> Any:
    """Use the loop in subscripts, conditions and values, with a dependency between accesses."""
    return lp.make_kernel(
        "{[i, j]: 2 <= i < n + 2 and 0 <= j < 3}",
        """
        for i
            a[i - 2] = i*i                                {id=square}
            if i < 9
                b[n + 1 - i, j] = a[i - 2] + 10*j         {dep=square}
            end
        end
        """,
        [
            lp.GlobalArg("a", np.float64, shape="n"),
            lp.GlobalArg("b", np.float64, shape="n, 3"),
            ...,
        ],
        assumptions="n >= 0 and n < 100",
    )


@pytest.mark.parametrize("count", [1, 2, 3, 5])
@pytest.mark.parametrize("tags", [("for", "for"), ("unr", "for"), ("g.0", "for"), ("l.0", "for")])
def test_chunks_compute_the_same(count: int, tags: tuple[str, str], opencl_queue: Any) -> None:
    on_host = tags[0] in ("for", "unr")
    knl = lp.chunk_iname(reversed_squares(), "i", count, outer_tag=tags[0], inner_tag=tags[1])
    knl = knl.copy(target=lp.ExecutableCTarget() if on_host else lp.PyOpenCLTarget())
    for n in range(1, 21):
        a, b = np.zeros(n), np.zeros((n, 3))
        knl(*(() if on_host else (opencl_queue,)), a=a, b=b, n=n)
        i = np.arange(2.0, n + 2)
        wanted = np.where(i[:, None] < 9, (i * i)[:, None] + 10 * np.arange(3), 0)
        np.testing.assert_array_equal(a, i * i)
        np.testing.assert_array_equal(b, wanted[::-1], err_msg=f"n={n}")


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5])
def test_chunks_of_fixed_loops_compute_the_same(count: int) -> None:
    for n in range(21):
        knl = lp.make_kernel(
            f"{{[i]: 0 <= i < {n}}}",
            "a[i] = a[i] + i + 1",
            [lp.GlobalArg("a", np.float64, shape=20)],
            target=lp.ExecutableCTarget(),
        )
        pieces = domain(lp.chunk_iname(knl, "i", count), "i_outer,i_inner")
        assert pieces.count_val().to_python() == n
        if n % 7 == 3:  # a few sizes are enough to compile
            a = np.zeros(20)
            lp.chunk_iname(knl, "i", count, outer_tag="unr")(a=a)
            i = np.arange(20)
            np.testing.assert_array_equal(a, np.where(i < n, i + 1, 0))


def test_chunks_against_the_reference(opencl_queue: Any) -> None:
    ref = lp.make_kernel("{[i]: 0 <= i < n}", "out[i] = 2*a[i]", assumptions="n >= 1")
    ref = lp.add_dtypes(ref, {"a": np.float32})
    knl = lp.chunk_iname(ref, "i", 3, outer_tag="g.0")
    lp.auto_test_vs_ref(ref, opencl_queue.context, knl, parameters={"n": 130})


def test_chunks_within_some_instructions() -> None:
    knl = lp.make_kernel("{[i]: 0 <= i < n}", "a[i] = 1 {id=one}\nb[i] = 2 {id=two}")
    chunked = lp.chunk_iname(knl, "i", 2, within="id:two")
    assert instructions(chunked) == [
        "i: a[i] = 1",
        "i_inner,i_outer: b[i_inner + ((n + 1) // 2 if i_outer >= 1 else 0)] = 2",
    ]


# -- joining -------------------------------------------------------------------------------------


def test_joined_loops_run_over_all_pairs() -> None:
    knl = lp.make_kernel("{[i, j]: 0 <= i < n and 2 <= j < 10}", "a[i, j] = i*j")
    joined = lp.join_inames(knl, ["i", "j"])
    assert instructions(joined) == [
        "j_and_i: a[j_and_i // 8, j_and_i % 8 + 2] = (j_and_i // 8)*(j_and_i % 8 + 2)"
    ]
    assert same_set(domain(joined, "j_and_i"), "[n] -> {[j_and_i]: 0 <= j_and_i < 8*n}")


def test_joining_reverses_splitting() -> None:
    knl = lp.make_kernel("{[i]: 0 <= i < n}", "a[i] = i", assumptions="n >= 1")
    back = lp.join_inames(lp.split_iname(knl, "i", 4), "i_outer,i_inner", "z", tag="g.0")
    assert same_set(domain(back, "z"), "[n] -> {[z]: 0 <= z < n}")
    assert str(*kernel_of(back).inames["z"].tags) == "g.0"


def test_three_loops_and_a_triangle() -> None:
    knl = lp.make_kernel(
        "{[i, j, k]: 0 <= i, k < 4 and 0 <= j <= i}", "a[i, j, k] = i + 10*j + 100*k"
    )
    joined = lp.join_inames(knl, "i,j,k", "z")
    assert domain(joined, "z").count_val().to_python() == 40
    arguments = {"a": np.zeros((4, 4, 4), np.int32)}
    assert_same_results(knl, joined, arguments)


def test_loops_of_two_domains_are_joined() -> None:
    knl = lp.make_kernel(["{[i]: 0 <= i < 3}", "{[j]: 0 <= j < 5}"], "a[i, j] = 7*i + j")
    joined = lp.join_inames(knl, "i,j")
    assert len(kernel_of(joined).domains) == 1
    assert_same_results(knl, joined, {})


def test_an_instruction_in_one_of_the_loops_only_is_refused() -> None:
    knl = lp.make_kernel("{[i, j]: 0 <= i, j < 4}", ["a[i, j] = 0 {id=one}", "b[i] = 1 {id=two}"])
    with pytest.raises(lp.TransformError, match="instruction 'two' has iname 'i' but not 'j'"):
        lp.join_inames(knl, "i,j")
    joined = lp.join_inames(knl, "i,j", within="id:one")
    assert instructions(joined)[1] == "i: b[i] = 1"


def test_what_is_outside_of_a_loop_that_may_be_empty_runs_in_the_joined_loop() -> None:
    knl = lp.make_kernel(
        ["{[i]: 0<=i<4}", "{[j,k]: 0<=j<m and i<k<n}"],
        "c[j, i] = 1 {id=c}\n c[j, i] = c[j, i] + 1 {inames=i:j:k, dep=c}",
        [lp.GlobalArg("c", "int32", shape="m, 4"), lp.ValueArg("n, m", "int32")],
        target=lp.ExecutableCTarget(),
    )
    joined = lp.join_inames(knl, "j,i")
    assert not [f for f in lp.verify(joined).findings if f.status.value == "violated"]
    assert_same_results(knl, joined, {"m": 3, "n": 3, "c": np.zeros((3, 4), np.int32)})


def test_loops_apart_in_their_domain_are_joined_for_some_instructions() -> None:
    # k, which i bounds, stays between i and j for the instructions that keep them.
    knl = lp.make_kernel(
        "{ [i,k,j]: 0<=i<4 and 0<=k<5+i and 0<=j<6 }",
        ["a[i,k,j] = i + 10*k {id=one}", "b[i,k,j] = 2*k + j {id=two}"],
    )
    assert_same_results(knl, lp.join_inames(knl, "i,j", within="id:two"), {})


def test_an_unbounded_inner_loop_is_refused() -> None:
    knl = lp.make_kernel("{[i, j]: 0 <= i, j < n}", "a[i, j] = 0")
    with pytest.raises(lp.TransformError, match="iname 'j' has no constant number"):
        lp.join_inames(knl, "i,j")


def test_slabs_are_two_numbers() -> None:
    with pytest.raises(lp.TransformError, match=r"'slabs' is a list of .*, not 1"):
        lp.split_iname(vector_fill(), "i", 4, slabs=1)  # type: ignore[arg-type]
    with pytest.raises(lp.TransformError, match="is not two numbers of iterations"):
        lp.split_iname(vector_fill(), "i", 4, slabs=[1])
    last = lp.split_iname(vector_fill(), "i", 4, slabs=[0, 1])
    assert kernel_of(last).iname_slab_increments == {"i_outer": (0, 1)}


def test_joined_loops_of_two_domains_do_not_hold_back_what_is_around() -> None:
    text = """
        a[i, j] = 1  {id=inner, inames=i:j}
        b[i] = 2  {id=outer, inames=i}
        """
    domains = ["{[i]: 0 <= i < m}", "{[j]: 0 <= j < n - i}"]
    arrays = [lp.GlobalArg("a", np.int32, shape="m, n"), lp.GlobalArg("b", np.int32, shape="m")]
    knl = lp.make_kernel(domains, text, [*arrays, ...], target=lp.ExecutableCTarget())
    knl = lp.duplicate_inames(lp.split_iname(knl, "i", 4), "i_inner", within="id:outer")
    knl = lp.join_inames(knl, ("j", "i_inner"))
    _, (_, b) = knl(a=np.zeros((6, 3), np.int32), b=np.zeros(6, np.int32))
    assert (b == 2).all()
