"""Index-set splitting: pieces, their loops, names and order; errors; proofs against the origin."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kgen as lp
from tests.transforms.helpers import (
    assert_same_results,
    dependencies,
    domain,
    instructions,
    same_set,
)


def make(domains: Any, text: Any, **shapes: str) -> lp.TranslationUnit:
    args = [lp.GlobalArg(name, np.float64, shape=shape) for name, shape in shapes.items()]
    return lp.make_kernel(domains, text, [*args, "..."], name="knl", target=lp.ExecutableCTarget())


def heat() -> lp.TranslationUnit:
    return make(
        "{ [i, j]: 1 <= i, j < n - 1 }",
        "v[i, j] = u[i-1, j] + u[i+1, j] + u[i, j-1] + u[i, j+1] - 4*u[i, j]",
        u="n, n",
        v="n, n",
    )


def proved(knl: lp.TranslationUnit) -> bool:
    """Tell whether a kernel is proved to compute what its origin does, and nothing is wrong."""
    report = lp.verify(knl)
    return report.ok and not [x for x in report.unknown if x.check != "outputs"]


def square(n: int, names: str = "uv") -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {name: rng.random((n, n)) for name in names}


# -- pieces --------------------------------------------------------------------------------------


def test_a_box_leaves_its_four_sides() -> None:
    knl = lp.split_domain(heat(), "{ [i, j]: 2 <= i, j < n - 2 }")
    assert same_set(
        domain(knl, "i_interior,j_interior"),
        "[n] -> { [i_interior, j_interior]: 2 <= i_interior, j_interior < n - 2 }",
    )
    assert [insn.id for insn in knl.default_entrypoint.instructions] == [
        "insn_interior",
        *(f"insn_boundary_{k}" for k in range(4)),
    ]
    assert proved(knl)


@pytest.mark.parametrize(
    "subset",
    [
        "{ [i, j]: 2 <= i, j < n - 2 }",
        "{ [i, j]: i = j }",
        "{ [i, j]: i != 3 }",
        "{ [i, j]: (i + j) mod 2 = 0 }",
        "{ [j, i]: i + 2*j < n }",
        "{ [i]: i < 2 or i > n - 3 }",
        "{ [j]: exists k: j = 3*k + 1 and j > 4 }",
        "{ [i, j]: floor(i/4) = floor(j/4) }",
    ],
)
@pytest.mark.parametrize("into", ["instructions", "launches"])
def test_any_affine_set_splits_exactly(subset: str, into: Any) -> None:
    knl = lp.split_domain(heat(), subset, into=into)
    assert proved(knl)
    for n in (3, 4, 9):
        assert_same_results(heat(), knl, square(n))


def test_a_set_of_islpy_is_taken() -> None:
    knl = heat()
    subset = knl.default_entrypoint.domains[0]
    smaller = subset.intersect(type(subset)("[n] -> { [i, j]: i >= 3 }"))
    assert proved(lp.split_domain(knl, smaller))


def test_what_bounds_and_assumptions_say_makes_no_piece() -> None:
    knl = lp.assume(make("{ [i]: 0 <= i < n }", "a[i] = i"), "n >= 5")
    split = lp.split_domain(knl, "{ [i]: -3 <= i < n - 1 and n > 2 }")
    assert len(split.default_entrypoint.instructions) == 2


def test_the_set_may_have_arguments_as_parameters() -> None:
    knl = lp.make_kernel(
        "{ [i]: 0 <= i < n }",
        "b[i] = 2*a[i]",
        [lp.GlobalArg("a, b", np.float64, shape="n"), lp.ValueArg("w, n", np.int32)],
        target=lp.ExecutableCTarget(),
    )
    split = lp.split_domain(knl, "{ [i]: w <= i < n - w }")
    assert proved(split)
    for w in (-1, 0, 2, 5, 50):
        assert_same_results(knl, split, {"a": np.arange(9.0), "b": np.zeros(9), "w": w})


def test_numbers_that_are_no_integers_are_no_parameters() -> None:
    knl = lp.make_kernel("{ [i]: 0 <= i < n }", "b[i] = w", [lp.ValueArg("w", np.float64), ...])
    with pytest.raises(lp.TransformError, match=r"'w' in the set .* is neither"):
        lp.split_domain(knl, "{ [i]: i < w }")


def test_pieces_can_be_split_again() -> None:
    knl = make(
        "{ [i, j]: 0 <= i and 3*i < n and 0 <= j < n }", "a[i, j] = p[n-1-i]", a="n, n", p="n"
    )
    split = lp.split_domain(knl, "{ [i, j]: i != 3 }")
    split = lp.split_domain(split, "{ [i_boundary, j_boundary]: i_boundary < j_boundary }")
    assert proved(split)
    for n in (1, 10, 13):
        assert_same_results(knl, split, {"a": np.zeros((n, n)), "p": np.arange(n, dtype=float)})


def test_loops_around_some_of_the_instructions_are_copied() -> None:
    knl = make(
        "{ [t, i]: 0 <= t < 3 and 0 <= i < n }",
        ["a[i] = i {id=first}", "a[i] = a[i] + t {id=more, dep=first}"],
        a="n",
    )
    split = lp.split_domain(knl, "{ [i]: i < 2 }")
    assert "t" not in split.default_entrypoint.inames
    assert proved(split)
    assert_same_results(knl, split, {"a": np.zeros(5)})


# -- loops, names, tags --------------------------------------------------------------------------


def test_suffixes_name_loops_instructions_and_temporaries() -> None:
    knl = make("{ [i]: 0 <= i < n }", ["<> t = 2*a[i] {id=two}", "b[i] = t*t {id=sq}"])
    knl = lp.split_domain(knl, "{ [i]: i >= 1 }", suffixes=("rest", "first"))
    assert instructions(knl) == [
        "i_rest: t_rest = 2*a[i_rest]",
        "i_first: t_first = 2*a[i_first]",
        "i_rest: b[i_rest] = t_rest*t_rest",
        "i_first: b[i_first] = t_first*t_first",
    ]
    assert dependencies(knl) == {"sq_rest": "two_rest", "sq_first": "two_first"}


def test_loops_around_stay_and_loops_inside_are_copied() -> None:
    knl = make(
        "{ [t, i, k]: 0 <= t < 3 and 0 <= i, k < n }",
        "a[i] = a[i] + b[t, k] {dep=*}",
        a="n",
        b="3, n",
    )
    knl = lp.prioritize_loops(knl, "t,i,k")
    split = lp.split_domain(knl, "{ [i]: i < 2 }")
    kernel = split.default_entrypoint
    assert set(kernel.inames) == {"t", "i_interior", "k_interior", "i_boundary", "k_boundary"}
    assert set(kernel.loop_priority) == {
        ("t", "i_interior", "k_interior"),
        ("t", "i_boundary", "k_boundary"),
    }
    assert proved(split)


def test_copies_have_tags_and_slabs() -> None:
    knl = lp.split_iname(heat(), "j", 4, inner_tag="unr", slabs=(0, 1))
    kernel = lp.split_domain(knl, "{ [i]: i < 4 }").default_entrypoint
    assert kernel.iname_slab_increments == {
        "j_outer_interior": (0, 1),
        "j_outer_boundary": (0, 1),
    }
    assert kernel.iname_tags("j_inner_boundary") == knl.default_entrypoint.iname_tags("j_inner")


def test_bounds_and_reductions_inside_follow() -> None:
    knl = make(
        ["{ [i]: 0 <= i < n }", "{ [k]: 0 <= k <= i }"],
        ["f(x) := a[x]*i", "b[i] = sum(k, f(k))"],
        a="n",
        b="n",
    )
    split = lp.split_domain(knl, "{ [i]: 3 <= i < n - 2 }")
    assert same_set(
        domain(split, "i_interior,k_interior"),
        "[n] -> { [i_interior, k_interior]: 3 <= i_interior < n - 2 "
        "and 0 <= k_interior <= i_interior }",
    )
    assert proved(split)
    assert_same_results(knl, split, {"a": np.arange(9.0), "b": np.zeros(9)})


def test_loops_around_may_be_in_the_set() -> None:
    knl = make("{ [t, i]: 0 <= t, i < n }", "a[i] = a[i] + t*i {dep=*}", a="n")
    knl = lp.prioritize_loops(knl, "t,i")
    split = lp.split_domain(knl, "[t] -> { [i]: i < t }")
    assert set(split.default_entrypoint.inames) == {"t", "i_interior", "i_boundary"}
    assert proved(split)
    assert_same_results(knl, split, {"a": np.ones(7)})


def test_others_keep_the_old_loops() -> None:
    knl = make("{ [i]: 0 <= i < n }", ["a[i] = 1 {id=one}", "b[i] = 2 {id=two}"])
    split = lp.split_domain(knl, "{ [i]: i < 2 }", within="id:two")
    assert instructions(split)[0] == "i: a[i] = 1"
    assert "i" in split.default_entrypoint.inames


def test_bounds_that_are_data_go_with_the_piece() -> None:
    knl = lp.make_kernel(
        ["{ [i]: 0 <= i < n }", "[end] -> { [k]: 0 <= k < end }"],
        """
        for i
          <int32> end = ends[i]
          out[i] = sum(k, a[k])
        end
        """,
        [lp.GlobalArg("ends", np.int32, shape="n"), lp.GlobalArg("a", np.float64, shape="m"),
         lp.GlobalArg("out", np.float64, shape="n"), lp.ValueArg("m, n", np.int32)],
        target=lp.ExecutableCTarget(),
    )  # fmt: skip
    split = lp.split_domain(knl, "{ [i]: 1 <= i < n - 1 }")
    data = {"ends": np.array([3, 0, 2, 5], np.int32), "a": np.arange(5.0), "out": np.zeros(4)}
    assert_same_results(knl, split, data)


def test_tiles_are_split_with_what_they_fetch() -> None:
    knl = make("{ [i]: 0 <= i < 64 }", "b[i] = a[i] + a[i+1] + a[i+2]", a="66", b="64")
    knl = lp.add_prefetch(lp.split_iname(knl, "i", 8), "a", "i_inner", default_tag=None)
    split = lp.split_domain(knl, "{ [i_outer]: 1 <= i_outer < 7 }")
    assert sorted(split.default_entrypoint.temporary_variables) == [
        "a_fetch_boundary_0",
        "a_fetch_boundary_1",
        "a_fetch_interior",
    ]
    assert proved(split)


def test_work_items_share_pieces() -> None:
    knl = lp.tag_inames(lp.split_iname(heat(), "j", 16, inner_tag="l.0"), "i:g.0")
    knl = lp.assume(knl.copy(target=lp.OpenCLTarget()), "n >= 6")
    assert proved(lp.split_domain(knl, "{ [i]: 2 <= i < n - 2 }"))
    assert proved(lp.split_domain(knl, "{ [i]: 2 <= i < n - 2 }", into="launches"))


# -- order ---------------------------------------------------------------------------------------


def test_pieces_that_need_each_other_run_in_order() -> None:
    knl = make("{ [i]: 1 <= i < n - 1 }", "u[i] = (u[i-1] + u[i+1])/2 {dep=*}", u="n")
    split = lp.split_domain(knl, "{ [i]: 3 <= i < n - 3 }")
    assert dependencies(split) == {
        "insn_interior": "insn_boundary_0",
        "insn_boundary_1": "insn_boundary_0,insn_interior",
    }
    assert proved(split)
    assert_same_results(knl, split, {"u": np.random.default_rng(0).random(12)})


def test_gauss_seidel_in_two_dimensions_keeps_its_order() -> None:
    knl = make(
        "{ [i, j]: 1 <= i, j < n - 1 }",
        "u[i, j] = (u[i-1, j] + u[i+1, j] + u[i, j-1] + u[i, j+1])/4 {dep=*}",
        u="n, n",
    )
    split = lp.split_domain(lp.prioritize_loops(knl, "i,j"), "{ [i, j]: 2 <= i, j < n - 2 }")
    assert proved(split)
    assert_same_results(knl, split, square(8, "u"))


def test_launches_are_of_one_side_each() -> None:
    knl = make("{ [i]: 1 <= i < n - 1 }", "u[i] = (u[i-1] + u[i+1])/2 {dep=*}", u="n")
    split = lp.split_domain(knl, "{ [i]: 3 <= i < n - 3 }", into="launches")
    code = lp.generate_code_v2(split.copy(target=lp.OpenCLTarget())).device_code()
    assert code.count("__kernel") == 3
    assert proved(split)


def test_launches_in_a_time_loop_are_proved() -> None:
    knl = lp.make_kernel(
        "{ [t, i, j]: 0 <= t < nt and 0 <= i, j < n }",
        """
        for t
          for i
            v[i + 1] = u[i] + u[i + 2]  {id=step}
          end
          for j
            u[j + 1] = v[j + 1]         {id=back, dep=step}
          end
        end
        """,
        [lp.GlobalArg("u, v", np.float64, shape="n + 2"), lp.ValueArg("nt, n", np.int32)],
        seq_dependencies=True,
        target=lp.ExecutableCTarget(),
    )
    split = lp.split_domain(knl, "{ [i]: 2 <= i < n - 2 }", into="launches")
    assert dependencies(split)["back"].count("step_") == 3
    assert proved(lp.fix_parameters(split, n=12, nt=3))


def test_pieces_that_cannot_be_ordered_are_rejected() -> None:
    knl = make("{ [i]: 1 <= i < n }", "u[i] = u[i-1] {dep=*}", u="n")
    with pytest.raises(lp.TransformError, match=r"need each other's values: .* 'u\[i - 1\]'"):
        lp.split_domain(knl, "{ [i]: i mod 2 = 0 }")


def test_an_order_that_is_data_is_warned_of() -> None:
    knl = make("{ [i]: 0 <= i < n }", "u[p[i]] = i {dep=*}", u="n", p="n")
    with pytest.warns(lp.KgenWarning, match="may need each other's values"):
        lp.split_domain(knl, "{ [i]: i mod 2 = 0 }")


# -- kernels -------------------------------------------------------------------------------------


def test_kernels_of_both_sides_compute_what_one_did() -> None:
    data, n = square(11), 11
    parts = lp.split_domain(heat(), "{ [i, j]: 2 <= i, j < n - 2 }", into="kernels")
    assert parts.entrypoints == {"knl_interior", "knl_boundary"}
    expected, found = np.copy(data["v"]), np.copy(data["v"])
    heat()(u=data["u"], v=expected, n=n)
    for name in ("knl_boundary", "knl_interior"):
        parts(entrypoint=name, u=data["u"], v=found, n=n)
        assert proved(parts.with_entrypoints(name))
    assert np.array_equal(expected, found)


def test_a_kernel_of_one_side_needs_the_array_of_both() -> None:
    parts = lp.split_domain(heat(), "{ [i, j]: 2 <= i, j < n - 2 }", into="kernels")
    with pytest.raises(lp.InvocationError, match="'v'"):
        parts(entrypoint="knl_interior", u=square(9)["u"])


def test_kernels_that_need_an_order_are_rejected() -> None:
    knl = make("{ [i]: 1 <= i < n }", "u[i] = u[i-1] {dep=*}", u="n")
    with pytest.raises(lp.TransformError, match="called in any order"):
        lp.split_domain(knl, "{ [i]: i < 4 }", into="kernels")


def test_a_time_loop_needs_both_sides_in_each_step() -> None:
    knl = make("{ [t, i]: 0 <= t < 9 and 1 <= i < n }", "u[t+1, i] = u[t, i-1]", u="10, n")
    knl = lp.prioritize_loops(knl, "t,i")
    assert proved(lp.split_domain(knl, "{ [i]: i < 4 }"))
    with pytest.raises(lp.TransformError, match="called in any order"):
        lp.split_domain(knl, "{ [i]: i < 4 }", into="kernels")


# -- errors --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("subset", "text"),
    [
        ("{ [i]: i < n }", "has all of the iterations"),
        ("{ [i]: i < 0 }", "has none of the iterations"),
        ("{ [k]: k < 0 }", "there is no iname 'k'"),
        ("{ [i]: i < w }", "'w' in the set .* is neither a parameter"),
        ("{ [i]: i < < 2 }", "does not parse"),
        ("{ : n > 2 }", "names no loops"),
        ("[j] -> { [i]: i < j }", "'j' is a loop, but not around"),
        (42, "is text or a set, not 42"),
    ],
)
def test_sets_that_split_nothing_are_rejected(subset: Any, text: str) -> None:
    knl = lp.prioritize_loops(heat(), "i,j")
    with pytest.raises(lp.KgenError, match=text):
        lp.split_domain(knl, subset)


def test_an_instruction_in_some_of_the_loops_is_rejected() -> None:
    knl = make("{ [i, j]: 0 <= i, j < n }", ["a[i] = 1 {id=row}", "b[i, j] = 2"])
    with pytest.raises(lp.TransformError, match="'row' is not inside of loop 'j'"):
        lp.split_domain(knl, "{ [i, j]: i < j }")


def test_suffixes_are_two_different_names() -> None:
    with pytest.raises(lp.TransformError, match="two different suffixes of names"):
        lp.split_domain(heat(), "{ [i]: i < 4 }", suffixes=("a", "a"))


@pytest.mark.parametrize(
    ("into", "text"), [("launches", "2 device functions"), ("kernels", "2 entry points")]
)
def test_what_has_several_functions_has_no_single_body(into: Any, text: str) -> None:
    with pytest.raises(lp.KgenError, match=text):
        lp.generate_body(lp.split_domain(heat(), "{ [i]: i < 4 }", into=into))


def test_what_is_fetched_in_a_loop_that_stays_is_not_read_in_copies_of_it() -> None:
    knl = lp.make_kernel(
        ["{ [i]: 0 <= i < n }", "{ [j]: 0 <= j <= i }"],
        "twice(x) := 2*a[x]\n out[j, i] = twice(j)",
        [lp.GlobalArg("a", "float32", shape="n"), lp.GlobalArg("out", shape="n, n"), ...],
        assumptions="n >= 1",
    )
    knl = lp.split_iname(knl, "j", 2)
    fetched = lp.precompute(knl, "twice", ["j_inner"], default_tag=None)
    with pytest.raises(lp.TransformError, match="cannot get different loops for 'j_outer'"):
        lp.split_domain(fetched, "{ [i]: 1 <= i < 6 }")


@pytest.mark.parametrize("subset", ["i != 4", "i = 1", "i < 3", "i mod 2 = 0"])
def test_pieces_of_rows_have_the_iterations_of_the_rows(subset: str) -> None:
    knl = make("{ [i, r]: -2 <= i < m - 1 and i < r < n }", "a[i + 2] = sum(r, i*r) + 1", a="m + 1")
    split = lp.split_domain(knl, f"{{ [i]: {subset} }}")
    assert proved(split)
    for m, n in [(6, 4), (6, 5), (6, 6), (7, 0), (2, 3)]:
        assert_same_results(knl, split, {"m": m, "n": n, "a": np.full(m + 1, -1.0)})


def test_loops_that_nothing_uses_do_not_bind_it() -> None:
    knl = make(
        ["{ [k, i]: 0 <= k, i < n }", "{ [r]: 0 <= r <= i }"],
        "out[k, i] = sum(r, a[k, r])",
        a="n, n",
        out="n, n",
    )
    knl = lp.realize_reduction(knl, force_scan=True)
    parts = lp.split_domain(knl, "{ [k]: k mod 3 = 0 }")
    assert not lp.verify(parts).violated
    a = np.random.default_rng(3).random((5, 5))
    np.testing.assert_allclose(parts(a=a)[1][0], np.cumsum(a, axis=1))


def test_what_another_loop_implies_is_still_said_of_instructions_outside_of_it() -> None:
    knl = make(
        "{ [i, j]: -2 <= i <= n and 0 <= j and 3*j < n }",
        ["out[i + 2] = 3 {inames=i}", "b[i + 2, j] = 2*i {inames=i:j}"],
        out="n + 3",
        b="n + 3, n + 1",
    )
    split = lp.split_domain(knl, "{ [i]: i < 2 or i > 4 }")
    for n in (0, 1, 3, 7):
        assert_same_results(knl, split, {"n": n})


def test_parts_stay_on_the_work_items_that_have_their_private_values() -> None:
    knl = make(
        "{ [z, x]: 0 <= z < 8 and 0 <= x < 5 and z <= x + 3 }",
        ["<> t[z % 2] = a[z, x] {id=t}", "out[z, x] = t[z % 2] + t[(z + 1) % 2] {dep=t}"],
        a="8, 5",
        out="8, 5",
    )
    knl = lp.tag_inames(knl, "x:l.0")
    with pytest.raises(lp.TransformError, match="would run on other work-items") as rejected:
        lp.split_domain(knl, "{ [z]: z != 3 }")
    assert "'x_interior_0' begins at 1" in str(rejected.value)
    lp.split_domain(knl, "{ [z]: z >= 2 }")


def test_parts_of_a_loop_over_groups_have_its_private_values_on_one_thread() -> None:
    knl = make(
        "{ [z, x]: 0 <= z < 8 and 0 <= x < 5 }",
        "v[z, x] = u[z, x] + u[z + 2, x]",
        u="10, 5",
        v="8, 5",
    )
    knl = lp.tag_inames(knl.copy(target=lp.ExecutableCTarget(threads=1)), "x:g.0")
    whole = lp.add_prefetch(knl, "u", (), window="z", default_tag=None)
    split = lp.split_domain(whole, "{ [z]: z != 3 }")
    assert len(split.default_entrypoint.axes) == 4
    assert_same_results(whole, split, {"u": np.random.default_rng(0).random((10, 5))})


def test_an_empty_sum_is_zero_also_in_pieces_of_loops_in_two_domains() -> None:
    """In one domain with the loop of the sum, iterations without terms would not run."""
    knl = make(
        ["{ [i]: 0 <= i < n }", "{ [j, r]: 0 <= j < n and 0 <= r < i }"],
        "v[i, j] = sum(r, u[r])",
        u="n",
        v="n, n",
    )
    split = lp.split_domain(knl, "{ [i, j]: i <= j }", into="instructions")
    assert proved(split)
    assert_same_results(knl, split, {"u": np.arange(5.0)})
