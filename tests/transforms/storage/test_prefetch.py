"""Elements of arrays that are fetched before they are used."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymbolic.primitives as p
import pytest

import kgen as lp
from kgen.ir.types import AddressSpace
from kgen.lowering import lower
from tests.oracle import Oracle
from tests.transforms.helpers import assert_same_results, dependencies, instructions, kernel_of, run


def tiled(knl: lp.TranslationUnit) -> lp.TranslationUnit:
    knl = lp.split_iname(knl, "i", 16, outer_tag="g.1", inner_tag="l.1")
    return lp.split_iname(knl, "j", 16, outer_tag="g.0", inner_tag="l.0")


def laplacian(**options: Any) -> lp.TranslationUnit:
    text = """
        out[i + 1, j + 1] = u[i + 1, j + 1]**2 - 4*u[i + 1, j + 1]
            + u[i + 2, j + 1] + u[i, j + 1] + u[i + 1, j + 2] + u[i + 1, j]
        """.replace("\n            +", " +")
    knl = tiled(lp.make_kernel("{[i, j]: 0 <= i, j < n}", text))
    return lp.add_prefetch(knl, "u", ["i_inner", "j_inner"], **options)


def stencil() -> lp.TranslationUnit:
    return laplacian(fetch_bounding_box=True)


def matmul() -> lp.TranslationUnit:
    text = "out[i, j] = sum(k, a[i, k]*b[k, j])"
    knl = lp.split_iname(tiled(lp.make_kernel("{[i, j, k]: 0 <= i, j, k < n}", text)), "k", 16)
    knl = lp.add_prefetch(knl, "a", ["i_inner", "k_inner"])
    return lp.add_prefetch(knl, "b", ["j_inner", "k_inner"])


def transpose() -> lp.TranslationUnit:
    knl = tiled(lp.make_kernel("{[i, j]: 0 <= i, j < n}", "out[i, j] = a[j, i]"))
    return lp.add_prefetch(knl, "a", ["i_inner", "j_inner"])


def copied() -> lp.TranslationUnit:
    """The tutorial's kernel, which sums one element sixteen times."""
    knl = lp.make_kernel(
        "{[i_outer, i_inner, k]: 0 <= 16*i_outer + i_inner < n and 0 <= i_inner, k < 16}",
        "out[16*i_outer + i_inner] = sum(k, a[16*i_outer + i_inner])",
    )
    return lp.tag_inames(knl, {"i_outer": "g.0", "i_inner": "l.0"})


def body(knl: lp.TranslationUnit, *arrays: str) -> str:
    return lp.generate_body(lp.add_dtypes(knl, dict.fromkeys(arrays, np.float32)))


STENCIL = """\
  __local float u_fetch[324];

  if (16 * gid(1) + lid(1) < n + 2)
  {
    if (16 * gid(0) + lid(0) < n + 2)
      u_fetch[18 * lid(1) + lid(0)] = \
u[((long) n + 2) * (16 * gid(1) + lid(1)) + 16 * gid(0) + lid(0)];
    if (lid(0) < 2 && 16 * gid(0) + lid(0) + 14 < n)
      u_fetch[18 * lid(1) + lid(0) + 16] = \
u[((long) n + 2) * (16 * gid(1) + lid(1)) + 16 * gid(0) + lid(0) + 16];
  }
  if (lid(1) < 2 && 16 * gid(1) + lid(1) + 14 < n)
  {
    if (16 * gid(0) + lid(0) < n + 2)
      u_fetch[18 * lid(1) + lid(0) + 288] = \
u[((long) n + 2) * (16 * gid(1) + lid(1) + 16) + 16 * gid(0) + lid(0)];
    if (lid(0) < 2 && 16 * gid(0) + lid(0) + 14 < n)
      u_fetch[18 * lid(1) + lid(0) + 304] = \
u[((long) n + 2) * (16 * gid(1) + lid(1) + 16) + 16 * gid(0) + lid(0) + 16];
  }
  barrier(CLK_LOCAL_MEM_FENCE);  // for u_fetch (insn depends on u_fetch_rule)
  if (16 * gid(0) + lid(0) < n && 16 * gid(1) + lid(1) < n)
"""

MATMUL = """\
  for (int k_outer = 0; k_outer < (n + 15) / 16; ++k_outer)
  {
    barrier(CLK_LOCAL_MEM_FENCE);  // for a_fetch (a_fetch_rule rev-depends on \
insn_k_outer_k_inner_update)
    if (16 * gid(1) + lid(1) < n && 16 * k_outer + lid(0) < n)
      a_fetch[16 * lid(1) + lid(0)] = a[(long) n * (16 * gid(1) + lid(1)) + 16 * k_outer + lid(0)];
    if (16 * gid(0) + lid(0) < n && 16 * k_outer + lid(1) < n)
      b_fetch[16 * lid(1) + lid(0)] = b[(long) n * (16 * k_outer + lid(1)) + 16 * gid(0) + lid(0)];
    barrier(CLK_LOCAL_MEM_FENCE);  // for b_fetch (insn_k_outer_k_inner_update depends on \
b_fetch_rule)
    if (16 * gid(0) + lid(0) < n && 16 * gid(1) + lid(1) < n)
      for (int k_inner = 0; k_inner < min(16, n - 16 * k_outer); ++k_inner)
        acc_k_outer_k_inner += a_fetch[16 * lid(1) + k_inner] * b_fetch[16 * k_inner + lid(0)];
  }
"""


def test_code_of_a_stencil() -> None:
    assert body(stencil(), "u").startswith(STENCIL)


def test_code_of_a_matrix_product() -> None:
    text = body(matmul(), "a", "b")
    assert MATMUL in text
    assert text.count("barrier(") == 2


def test_code_of_a_transpose_has_one_barrier() -> None:
    text = body(transpose(), "a")
    assert text.count("barrier(") == 1
    assert "if (16 * gid(0) + lid(1) < n && 16 * gid(1) + lid(0) < n)\n    a_fetch[" in text


@pytest.mark.parametrize("n", [1, 15, 16, 17, 33])
def test_results_on_a_device(device: Any, n: int) -> None:
    generator = np.random.default_rng(n)
    u, a, b = generator.random((n + 2, n + 2)), generator.random((n, n)), generator.random((n, n))
    _, (out,) = device(stencil(), u=u)
    c = u[1:-1, 1:-1]
    expected = c**2 - 4 * c + u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2]
    np.testing.assert_allclose(out[1:, 1:], expected)
    _, (out,) = device(matmul(), a=a, b=b)
    np.testing.assert_allclose(out, a @ b)
    _, (out,) = device(transpose(), a=a)
    np.testing.assert_array_equal(out, a.T)


@pytest.mark.parametrize("make", [stencil, matmul, transpose])
@pytest.mark.parametrize("n", [3, 17])
def test_code_trees_run_each_instance_once(make: Any, n: int) -> None:
    kernel = kernel_of(make())
    arrays = {"a", "b", "u"} & kernel.arg_dict.keys()
    lowered = lower(kernel, dict.fromkeys(arrays, np.dtype(np.float32)))
    Oracle(lowered.kernel, {"n": n}).check(lowered.functions)


def test_corners_that_nothing_reads_are_fetched_where_they_exist(device: Any) -> None:
    assert body(laplacian(), "u").startswith(STENCIL)
    u = np.random.default_rng(1).random((35, 35))
    _, (expected,) = device(stencil(), u=u)
    _, (out,) = device(laplacian(), u=u)
    np.testing.assert_array_equal(out[1:, 1:], expected[1:, 1:])


def test_what_several_reads_touch_has_no_holes() -> None:
    knl = tiled(lp.make_kernel("{[i, j]: 0 <= i, j < n}", "out[i, j] = u[i + 40, j] + u[i, j]"))
    with pytest.raises(lp.KgenError, match=r"have gaps[\s\S]* lies between the others") as err:
        lp.add_prefetch(knl, "u", ["i_inner", "j_inner"])
    assert "fetch_bounding_box=True" in str(err.value)


def test_what_isl_finds_no_end_for_is_fetched_as_a_box() -> None:
    # i != j makes two pieces; isl works for hours on what the splits of i leave of each
    knl = lp.make_kernel(
        ["{[i]: 0 <= i < n and i mod 3 = 1}", "{[j, k]: 3 <= j < m - 1 and 0 <= k < 2}"],
        "out[i, j, k] = a[k, j] {if=i != j}",
        [
            lp.GlobalArg("a", "int32", shape="2, m"),
            lp.GlobalArg("out", "int32", shape="n, m, 2"),
            ...,
        ],
        assumptions="n >= 0 and m >= 0 and n mod 4 = 0",
        target=lp.ExecutableCTarget(),
    )
    knl = lp.split_iname(lp.split_iname(knl, "i", 7), "i_outer", 5)
    fetched = lp.add_prefetch(knl, "a", "k", default_tag=None)
    a = np.arange(18, dtype=np.int32).reshape(2, 9)
    assert_same_results(knl, fetched, {"a": a, "out": np.zeros((8, 9, 2), np.int32)})


def test_reads_besides_the_given_footprint_stay() -> None:
    text = "out[i, j] = x[i] - x[j] + x$far[9]"
    knl = lp.make_kernel("{[i, j]: 0 <= i < 9 and 0 <= j < 8}", text)
    fetched = lp.add_prefetch(knl, "x[j]", "j", default_tag=None)
    assert instructions(fetched)[1] == "i,j: out[i, j] = x[i] - x_fetch[j] + x$far[9]"


def bodies() -> tuple[lp.TranslationUnit, lp.TranslationUnit]:
    """The potential of bodies, and that with one part of them at a time in local memory."""
    seq = lp.make_kernel(
        "[N] -> {[i, j, k]: 0 <= i, j < N and 0 <= k < 3}",
        [
            "axdist(k) := x[i, k] - x[j, k]",
            "invdist := rsqrt(sum(k, axdist(k)**2))",
            "pot[i] = sum(j, if(i != j, invdist, 0))",
        ],
        [
            lp.GlobalArg("x", np.float32, shape="N, 3", order="C"),
            lp.GlobalArg("pot", np.float32, shape="N"),
            lp.ValueArg("N", np.int32),
        ],
        name="nbody",
        assumptions="N >= 1",
    )
    knl = lp.split_iname(seq, "i", 256, outer_tag="g.0", inner_tag="l.0", slabs=(0, 1))
    knl = lp.split_iname(knl, "j", 256, slabs=(0, 1))
    knl = lp.add_prefetch(knl, "x[i, k]", ["k"], default_tag=None)
    names = ["x_fetch_j", "x_fetch_k"]
    knl = lp.add_prefetch(knl, "x[j, k]", ["j_inner", "k"], names, default_tag=None)
    knl = lp.tag_inames(knl, {"x_fetch_k": "unr", "x_fetch_j": "l.0"})
    knl = lp.add_inames_for_unused_hw_axes(knl)
    return seq, lp.prioritize_loops(knl, ["j_outer", "j_inner"])


@pytest.mark.parametrize("n", [1, 700, 1024])
def test_bodies_in_local_memory(device: Any, n: int) -> None:
    knl = bodies()[1]
    code = body(knl)
    assert "(x_fetch[k] - x_fetch_0[3 * j_inner + k])" in code
    assert "x_fetch_0[3 * lid(0) + 2] = x[768 * (long) j_outer + 3 * lid(0) + 2];" in code
    x = np.random.default_rng(n).random((n, 3), np.float32)
    _, (pot,) = device(knl, x=x)
    distance = np.linalg.norm(x[:, None] - x[None], axis=2) + np.diag(np.full(n, np.inf))
    np.testing.assert_allclose(pot, (1 / distance).sum(1), rtol=1e-3)


def test_a_single_element_needs_no_array(device: Any) -> None:
    knl = lp.add_prefetch(copied(), "a")
    assert "float const a_fetch = a[16 * gid(0) + lid(0)];" in body(knl, "a")
    _, (out,) = device(knl, a=np.arange(37.0))
    np.testing.assert_array_equal(out, 16 * np.arange(37.0))


def test_each_work_item_fetches_its_own_element(device: Any) -> None:
    knl = lp.add_prefetch(copied(), "a", ["i_inner"], default_tag="l.0")
    text = body(knl, "a")
    assert "a_fetch[lid(0)] = a[16 * gid(0) + lid(0)];" in text
    assert "barrier" not in text
    _, (out,) = device(knl, a=np.arange(37.0))
    np.testing.assert_array_equal(out, 16 * np.arange(37.0))


def test_too_few_axes_are_a_race() -> None:
    knl = tiled(lp.make_kernel("{[i, j]: 0 <= i, j < n}", "out[i, j] = a[j, i]"))
    knl = lp.add_prefetch(knl, "a", "i_inner", default_tag="l.auto")
    with pytest.warns(lp.WriteRaceConditionWarning, match="iname.s. 'j_inner' would emerge"):
        body(knl, "a")


def plain(text: str = "out[i, j] = a[i, j]") -> lp.TranslationUnit:
    given = [lp.GlobalArg("a", np.float64, shape=(4, 5)), ...]
    return lp.make_kernel("{[i, j]: 0 <= i < 4 and 0 <= j < 5}", text, given)


@pytest.mark.parametrize(
    ("what", "sweep", "fetch"),
    [
        ("a[:, j]", "", "a_dim_0,j: a_fetch[a_dim_0] = a[a_dim_0, j]"),
        ("a[i, :]", "", "a_dim_1,i: a_fetch[a_dim_1] = a[i, a_dim_1]"),
        ("a", "i, j", "a_dim_0,a_dim_1: a_fetch[a_dim_0, a_dim_1] = a[a_dim_0, a_dim_1]"),
    ],
)
def test_subscripts_say_what_to_fetch(what: str, sweep: str, fetch: str) -> None:
    knl = lp.add_prefetch(plain(), what, sweep, default_tag=None)
    assert instructions(knl)[0] == fetch
    assert_same_results(plain(), knl, {"a": np.arange(20.0).reshape(4, 5)})


def test_footprint_subscripts_are_clipped_to_the_shape() -> None:
    knl = plain("out[i] = a[i, 2]")
    fetched = lp.add_prefetch(
        knl, "a", "j", footprint_subscripts=[("i", "j - 1"), ("i", "j + 1")], default_tag=None
    )
    assert kernel_of(fetched).temporary_variables["a_fetch"].shape == (5,)
    assert_same_results(knl, fetched, {"a": np.arange(20.0).reshape(4, 5)})


def test_names_and_places_can_be_given() -> None:
    knl = lp.add_prefetch(
        plain(),
        "a",
        "i",
        dim_arg_names=["p", "q"],
        default_tag=None,
        rule_name="load",
        temporary_name="tile",
        temporary_address_space=AddressSpace.LOCAL,
        fetch_outer_inames="j",
    )
    assert instructions(knl)[0] == "j,p: tile[p] = a[p, j]"
    assert dependencies(knl) == {"insn": "load"}
    assert kernel_of(knl).temporary_variables["tile"].address_space == AddressSpace.LOCAL


def test_the_fetch_waits_for_who_writes() -> None:
    text = ["<> t[i] = 2*a[i] {id=w}", "out[k] = t[k] + t[3 - k] {id=r, dep=w}"]
    knl = lp.make_kernel("{[i, k]: 0 <= i, k < 4}", text)
    fetched = lp.add_prefetch(knl, "t", "k", default_tag=None, prefetch_insn_id="load")
    assert dependencies(fetched) == {"load": "w", "r": "load,w"}
    assert_same_results(knl, fetched, {"a": np.arange(4.0)})


def test_in_place_in_a_sequential_loop_is_refused() -> None:
    knl = lp.make_kernel("{[i]: 0 <= i < 4}", "a[i + 1] = a[i]")
    with pytest.raises(lp.KgenError, match="'insn' writes 'a' in the loop over 'i'"):
        lp.add_prefetch(knl, "a", "i")


def test_accesses_are_picked_by_tag_and_place() -> None:
    knl = lp.make_kernel("{[i]: 0 <= i < 4}", ["b[i] = a$x[i] + a[i]", "c[i] = a$x[i]"])
    fetched = lp.add_prefetch(knl, "a$x", "i", default_tag=None, within="writes:b")
    assert instructions(fetched)[1:] == ["i: b[i] = a_x_fetch[i] + a[i]", "i: c[i] = a$x[i]"]
    with pytest.raises(lp.KgenError, match="there is no read of 'a' to prefetch"):
        lp.add_prefetch(knl, "a$z", "i")


def test_reads_in_rules_are_fetched_too() -> None:
    text = ["f(x) := a[x] + a[x + 1]", "out[i] = f(i)"]
    knl = lp.make_kernel("{[i]: 0 <= i < 4}", text)
    fetched = lp.add_prefetch(knl, "a", "i", default_tag=None)
    assert instructions(fetched)[1] == "i: out[i] = f(i)"
    assert str(kernel_of(fetched).substitutions["f"]) == "f(x) := a_fetch[x] + a_fetch[x + 1]"
    assert_same_results(knl, fetched, {"a": np.arange(5.0)})


def test_one_read_may_touch_a_triangle() -> None:
    knl = lp.make_kernel("{[i, j]: 0 <= j <= i < 4}", "out[i, j] = a[i, j]")
    fetched = lp.add_prefetch(knl, "a", "i, j", default_tag=None)
    assert instructions(fetched)[0].startswith("a_dim_0,a_dim_1: a_fetch")
    lowered = lower(kernel_of(fetched), {"a": np.dtype(np.float32)})
    Oracle(lowered.kernel, {}).check(lowered.functions)
    found = lowered.kernel.domain_of(("a_dim_0", "a_dim_1"))
    assert found.count_val().to_python() == 10


def test_elements_apart_keep_their_distance() -> None:
    knl = lp.make_kernel("{[i]: 0 <= i < 4}", "out[i] = a[3*i + 1]")
    fetched = lp.add_prefetch(knl, "a", "i", default_tag=None)
    assert kernel_of(fetched).temporary_variables["a_fetch"].shape == (10,)
    assert kernel_of(fetched).domain_of(("a_dim_0",)).count_val().to_python() == 4
    assert_same_results(knl, fetched, {"a": np.arange(11.0)})


def test_a_sum_shares_the_loop_that_fills_what_it_reads() -> None:
    text = ["<> t = a[i, k] {id=t, inames=i:k}", "out[i] = sum(k, t) {dep=t, inames=i}"]
    knl = lp.make_kernel("{[i, k]: 0 <= i, k < 4}", text)
    (out,) = run(knl, a=np.arange(16.0).reshape(4, 4)).values()
    np.testing.assert_array_equal(out, np.arange(16.0).reshape(4, 4).sum(axis=1))


def test_a_sum_of_what_is_ready_keeps_its_own_loop() -> None:
    text = ["<> t = 0 {id=z}", "t = t + a[k] {id=t, dep=z}", "out = sum(k, t) {dep=t}"]
    knl = lp.make_kernel("{[k]: 0 <= k < 4}", text)
    code = body(knl.copy(target=lp.CTarget()), "a")
    assert code.count("for (int k") == 2


def test_loops_without_a_common_axis_stay_loops(device: Any) -> None:
    knl = lp.make_kernel("{[i, j]: 0 <= i < n and 0 <= j < 40}", "out[i] = sum(j, a[i, j]*x[j])")
    knl = lp.split_iname(knl, "i", 32, outer_tag="g.0", inner_tag="l.0")
    knl = lp.add_prefetch(lp.add_prefetch(knl, "a", ["i_inner", "j"]), "x", "j")
    generator = np.random.default_rng(1)
    a, x = generator.random((50, 40)), generator.random(40)
    _, (out,) = device(knl, a=a, x=x)
    np.testing.assert_allclose(out, a @ x)


def planes() -> lp.TranslationUnit:
    text = """
        out[k, i, j] = u[k, i + 1, j + 1] + u[k + 2, i + 1, j + 1] + u[k + 1, i, j + 1]
            + u[k + 1, i + 2, j + 1] + u[k + 1, i + 1, j] + u[k + 1, i + 1, j + 2]
        """.replace("\n            +", " +")
    knl = lp.make_kernel("{[i, j, k]: 0 <= i, j, k < n}", text)
    knl = lp.split_iname(knl, "i", 8, outer_tag="g.1", inner_tag="l.1")
    knl = lp.split_iname(knl, "j", 16, outer_tag="g.0", inner_tag="l.0")
    return lp.add_prefetch(knl, "u", ["i_inner", "j_inner"], fetch_bounding_box=True)


def test_axes_go_to_the_loops_that_keep_most_work_items_busy() -> None:
    fetch = """
    for (int u_dim_0 = 0; u_dim_0 < 3; ++u_dim_0)
    {
      if (8 * gid(1) + lid(1) < n + 2)
      {
        if (16 * gid(0) + lid(0) < n + 2)
          u_fetch[180 * u_dim_0 + 18 * lid(1) + lid(0)] = u["""
    assert fetch in body(planes(), "u")


def test_a_stencil_in_three_dimensions(device: Any) -> None:
    u = np.random.default_rng(2).random((19, 19, 19))
    _, (out,) = device(planes(), u=u)
    c = slice(1, -1)
    expected = u[:-2, c, c] + u[2:, c, c] + u[c, :-2, c] + u[c, 2:, c] + u[c, c, :-2] + u[c, c, 2:]
    np.testing.assert_allclose(out, expected)


def test_a_fetch_in_the_loop_of_a_sum_is_in_the_loops_around_it() -> None:
    knl = lp.make_kernel("{[i, j, k]: 0 <= i, j, k < n}", "out[i, j] = sum(k, a[i, k]*b[k, j])")
    knl = lp.split_iname(knl, "k", 4)
    fetched = lp.add_prefetch(knl, "b", "k_inner", default_tag=None)
    assert instructions(fetched)[0].startswith("b_dim_0,i,j,k_outer: ")
    a = np.random.default_rng(4).random((7, 7))
    assert_same_results(knl, fetched, {"a": a, "b": a + 1})


def test_a_footprint_may_be_written_in_inames_of_before_a_split() -> None:
    knl = lp.make_kernel("{ [i, k]: 0 <= i < 32 and 0 <= k < 3 }", "b[i] = sum(k, a[i, k])")
    knl = lp.split_iname(knl, "i", 16, outer_tag="g.0", inner_tag="l.0")
    knl = lp.add_prefetch(knl, "a[i, k]", ["k"], default_tag=None)
    (fetch,) = lp.find_instructions(knl, "writes:a_fetch")
    assert str(fetch).startswith("a_fetch[a_dim_1] = a[i_inner + 16*i_outer, a_dim_1]")


def test_a_size_with_a_bound_is_room_enough() -> None:
    knl = lp.make_kernel("{[i, j]: 0 <= i < n and 0 <= j < m}", "out[i, j] = 2*a[i, j]")
    with pytest.raises(lp.StaticValueFindingError, match=r"assume\(kernel, 'm <= 16'\)"):
        lp.add_prefetch(knl, "a", "j", default_tag=None)
    knl = lp.assume(knl, "1 <= m <= 16")
    fetched = lp.add_prefetch(knl, "a", "j", default_tag=None)
    assert kernel_of(fetched).temporary_variables["a_fetch"].shape == (16,)
    assert_same_results(knl, fetched, {"a": np.random.default_rng(5).random((3, 7))})


def test_a_matrix_product_in_blocks_on_the_host() -> None:
    text = "out[i, j] = sum(k, a[i, k]*b[k, j]) {id=m}"
    knl = lp.make_kernel("{[i, j, k]: 0 <= i, j, k < n}", text)
    knl = lp.add_dtypes(knl, {"a": np.float64, "b": np.float64})
    for iname in "ijk":
        knl = lp.split_iname(knl, iname, 8)
    for name, sweep in (("a", "i_inner, k_inner"), ("b", "j_inner, k_inner")):
        outer = "i_outer, j_outer, k_outer"
        knl = lp.add_prefetch(knl, name, sweep, default_tag=None, fetch_outer_inames=outer)
    knl = lp.realize_reduction(knl)
    knl = lp.privatize_temporaries_with_inames(knl, "i_inner, j_inner", "acc_k_outer_k_inner")
    for part in ("init", "update"):
        within = f"id:m_k_outer_k_inner_{part}"
        knl = lp.duplicate_inames(knl, "i_inner, j_inner", within)
    a, b = np.random.default_rng(6).random((2, 20, 20))
    np.testing.assert_allclose(run(knl, a=a, b=b)["out"], a @ b)


def test_a_stencil_inside_of_its_array_is_fetched_in_tiles(device: Any) -> None:
    knl = lp.make_kernel(
        "{ [i]: 1 <= i < n - 1 }",
        "b[i] = a[i - 1] + a[i + 1]",
        [lp.GlobalArg("a, b", np.float64, shape="n"), ...],
        assumptions="n >= 3",
    )
    knl = lp.split_iname(knl, "i", 8, outer_tag="g.0", inner_tag="l.0")
    knl = lp.add_prefetch(knl, "a", ["i_inner"], fetch_bounding_box=True)
    for n in (3, 9, 10, 11, 40):
        a, b = np.random.default_rng(n).random(n), np.zeros(n)
        device(knl, a=a, b=b)
        np.testing.assert_array_equal(b[1:-1], a[:-2] + a[2:])


def test_a_footprint_of_remainders_below_zero_is_fetched() -> None:
    # isl tells it, inside of what is known of i_outer, by two sets
    domain = "{[i]: -2 <= i < n}"
    knl = lp.make_kernel(domain, "out[i + 2] = a[i % 4]", assumptions="n >= 0")
    knl = lp.split_iname(knl, "i", 6)
    fetched = lp.add_prefetch(knl, "a", "i_inner", default_tag=None)
    assert_same_results(knl, fetched, {"a": np.arange(4), "n": 11})


@pytest.mark.parametrize(
    ("domain", "text", "arguments"),
    [
        (
            "{[i]: 0 <= i <= n and i mod 2 = 0}",
            "out[i] = a[i]",
            {"a": np.arange(1.0, 10), "out": np.zeros(9), "n": 9},
        ),
        (
            "[n] -> {[i, j]: 0 <= i < 4 and 0 <= j < 5}",
            "out[j, i] = a[i] + a[j]",
            {"a": np.arange(1.0, 6), "n": 1},
        ),
    ],
)
def test_a_box_ends_with_the_array_also_where_its_shape_is_inferred(
    domain: str, text: str, arguments: dict[str, Any]
) -> None:
    knl = lp.make_kernel(domain, text, assumptions="n >= 1")
    knl = lp.split_iname(knl, "i", 3)
    fetched = lp.add_prefetch(knl, "a", "i_inner", fetch_bounding_box=True, default_tag=None)
    assert_same_results(knl, fetched, arguments)


def test_what_isl_counts_in_fractions_is_fetched() -> None:
    domain = "{[i, j]: 1 <= i < n and i - 1 <= j <= i + 1}"
    args = [lp.GlobalArg("a, out", np.float64, shape=("n", "n + 1")), ...]
    knl = lp.make_kernel(domain, "out[i, j] = a[(i - 1)//4, n - j]", args, assumptions="n >= 1")
    knl = lp.split_iname(knl, "i", 7)
    fetched = lp.add_prefetch(knl, "a", "i_inner", fetch_bounding_box=True, default_tag=None)
    a = np.random.default_rng(1).random((9, 10))
    assert_same_results(knl, fetched, {"a": a, "out": np.zeros((9, 10))})


def test_a_tile_at_a_border_is_no_larger_where_sizes_are_bounded() -> None:
    text = "out[i, j] = u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1]"
    args = [lp.GlobalArg("u, out", np.float32, shape="n, n"), ...]
    knl = lp.make_kernel("{[i, j]: 1 <= i, j < n - 1}", text, args, assumptions="3 <= n <= 40000")
    fetched = lp.add_prefetch(tiled(knl), "u", "i_inner, j_inner", fetch_bounding_box=True)
    assert "__local float u_fetch[324];" in body(fetched)


def test_local_memory_is_not_filled_where_work_items_have_bounds_of_their_own() -> None:
    domains = ["{[i]: 0 <= i < n}", "{[j]: s <= j < e}", "{[d]: 0 <= d < 2}"]
    text = ["<> s = starts[i]", "<> e = starts[i + 1]", "out[i, d] = sum(j, w[j, d])"]
    data = [lp.GlobalArg("starts", np.int32, shape="n + 1"), lp.GlobalArg("w", "f4", "m, 2"), ...]
    knl = lp.make_kernel(domains, text, data, seq_dependencies=True)
    knl = lp.split_iname(knl, "i", 4, outer_tag="g.0", inner_tag="l.0")
    options: dict[str, Any] = {"fetch_outer_inames": ("i_outer", "i_inner", "j")}
    with pytest.raises(lp.TransformError, match="each work-item sets 'e', which bounds 'j'"):
        lp.add_prefetch(knl, "w", "d", temporary_address_space=AddressSpace.LOCAL, **options)
    options["temporary_address_space"] = AddressSpace.PRIVATE
    private = lp.add_prefetch(knl, "w", "d", **options)
    w = np.random.default_rng(0).random((9, 2), np.float32)
    starts = np.array([0, 2, 2, 9], np.int32)
    assert_same_results(knl, private, {"starts": starts, "w": w})


@pytest.mark.parametrize("tag", ["unr", "vec", "l.0", "g.1", "ilp"])
def test_names_of_axes_of_one_element_may_be_tagged(tag: str) -> None:
    data = [lp.GlobalArg("a,out", np.float32, shape=(8, 8))]
    knl = lp.make_kernel("{ [i,j]: 0<=i,j<8 }", "out[i,j] = a[i,j]", data, target=lp.CudaTarget())
    knl = lp.tag_inames(lp.split_iname(knl, "j", 4), "i:g.0")
    plain = lp.add_prefetch(knl, "a", "j_inner", default_tag=None)
    named = lp.add_prefetch(knl, "a", "j_inner", "a_dim_0,a_dim_1", default_tag=None)
    tagged = lp.split_iname(lp.tag_inames(named, f"a_dim_0:{tag}"), "a_dim_1", 2)
    code = lp.generate_code_v2(lp.split_iname(plain, "a_dim_1", 2)).device_code()
    assert lp.generate_code_v2(tagged).device_code() == code
    assert not lp.verify(tagged).violated
    assert "a_dim_0" not in lp.remove_unused_inames(named).default_entrypoint.inames


def test_axes_of_fetched_arrays_have_the_names_that_were_given() -> None:
    knl = lp.make_kernel(
        "{ [i, j, k]: 0 <= i, j, k < 8 }",
        "out[i, j, k] = a[i, j, k] + a[i, j + 1, k] + a[i, j, k + 1]",
        [lp.GlobalArg("a", np.float32, shape=(9, 9, 9)), ...],
    )
    knl = lp.add_prefetch(knl, "a", "j,k", dim_arg_names="x,y,z", default_tag=None)
    knl = lp.tag_array_axes(knl, "a_fetch", {"x": "N2", "y": "N0", "z": "N1"})
    (fetched,) = knl.default_entrypoint.temporary_variables.values()
    assert fetched.fixed_strides == (1, 9)
    with pytest.raises(lp.TransformError, match="cannot be laid out"):
        lp.tag_array_axes(knl, "a_fetch", {"i": "N2", "y": "N0", "z": "N1"})


def test_whole_axes_need_no_sweep() -> None:
    domain, code = (
        "{ [e, y, k]: 0 <= e < n and 0 <= y, k < 4 }",
        "out[e, y] = sum(k, u[e, k])*u[e, y]",
    )
    knl = lp.make_kernel(domain, code, [lp.GlobalArg("u", np.float64, shape="n, 4"), ...])
    knl = lp.tag_inames(knl.copy(target=lp.OpenCLTarget()), "e:g.0, y:l.0")
    body = lp.generate_body(lp.add_prefetch(knl, "u[e, :]", []))
    assert "u_fetch[lid(0)] = u[4 * (long) gid(0) + lid(0)];" in body
    with pytest.raises(lp.TransformError, match="':' are fetched whole: leave 'k' out"):
        lp.add_prefetch(knl, "u[e, :]", "k")


def test_a_tile_begins_at_a_whole_number() -> None:
    knl = lp.make_kernel(
        "{ [i]: 0 <= i < n - 2 }",
        "out[i] = a[i // 4]",
        [lp.GlobalArg("a", "int32", shape="n"), lp.GlobalArg("out", "int32", shape="n"), "..."],
        assumptions="n >= 3",
        target=lp.ExecutableCTarget(),
    )
    knl = lp.split_iname(knl, "i", 5)
    knl = lp.add_prefetch(knl, "a", "i_inner", default_tag=None)
    knl = lp.split_iname(knl, "i_outer", 2)
    knl = lp.add_prefetch(knl, "a", "i_outer_inner, a_dim_0", default_tag=None)
    assert not lp.verify(knl).violated
    a = np.arange(31, dtype=np.int32)
    np.testing.assert_array_equal(knl(a=a)[1][0][:29], a[np.arange(29) // 4])


def test_a_fetch_for_an_instruction_that_never_runs_is_refused() -> None:
    knl = lp.make_kernel("{ [i]: 0 <= i < 8 }", "out[i] = a[i] {if=i != i}")
    with pytest.raises(lp.TransformError, match="hint: leave out this step"):
        lp.add_prefetch(knl, "a", "i")


@pytest.mark.parametrize("sweep", ["j", "i,j"])
def test_uses_in_other_loops_read_what_is_fetched_for_the_swept_ones(sweep: str) -> None:
    text = "o[i] = sum(j, a[i, j])\nm[i] = max(k, a[i, k])"
    knl = lp.make_kernel("{ [i, j, k]: 0 <= i < 6 and 0 <= j, k < 4 }", text)
    fetched = lp.add_prefetch(knl, "a", sweep, default_tag=None)
    assert "m[i] = reduce(max, [k], a_fetch[" in str(fetched)
    assert_same_results(knl, fetched, {"a": np.arange(24.0).reshape(6, 4)})


def test_other_loops_that_need_more_elements_must_be_swept_too() -> None:
    text = "o[i] = sum(j, a[i, j])\nm[i] = max(k, a[i, k + 1])"
    knl = lp.make_kernel("{ [i, j, k]: 0 <= i < 6 and 0 <= j, k < 4 }", text)
    with pytest.raises(lp.TransformError, match=r"outside iname 'k'[\s\S]*hint: sweep 'k', too"):
        lp.add_prefetch(knl, "a", "j", default_tag=None)
    both = lp.add_prefetch(knl, "a", "j,k", default_tag=None)
    assert_same_results(knl, both, {"a": np.arange(30.0).reshape(6, 5)})


@pytest.mark.parametrize("sweep", ["j", "i,j"])
def test_conditions_that_leave_holes_are_ignored_where_all_elements_exist(sweep: str) -> None:
    text = "if i < 4\n  o[i] = sum(j, a[i, j])\nelse\n  o[i] = a[i, 0] + a[i, 3]\nend"
    arrays = [lp.GlobalArg("a", np.float64, shape=(8, 6)), lp.GlobalArg("o", shape=8)]
    domain = "{ [i, j]: 0 <= i < 8 and 0 <= j < 6 }"
    knl = lp.make_kernel(domain, text, arrays, seq_dependencies=True)
    fetched = lp.add_prefetch(knl, "a", sweep, default_tag=None)
    extents = kernel_of(fetched).temporary_variables["a_fetch"].shape
    assert extents == ((6,) if sweep == "j" else (8, 6))
    assert_same_results(knl, fetched, {"a": np.arange(48.0).reshape(8, 6), "o": np.zeros(8)})


def test_footprints_name_inames_that_another_kernel_replaced() -> None:
    text = "{[i_outer, i_inner]: 0 <= i_outer < 4 and 0 <= i_inner < 8}"
    knl = lp.make_kernel(
        text,
        "out[8*i_outer + i_inner] = 2*a[8*i_outer + i_inner]",
        applied_iname_rewrites=[{"i": "8*i_outer + i_inner"}],
    )
    whole = lp.split_iname(lp.make_kernel("{[i]: 0 <= i < 32}", "out[i] = 2*a[i]"), "i", 8)
    fetched = lp.add_prefetch(
        knl, "a", sweep_inames="i_inner", footprint_subscripts=["i"], default_tag=None
    )
    assert kernel_of(fetched).temporary_variables["a_fetch"].shape == (8,)
    assert_same_results(whole, fetched, {"a": np.arange(32.0)})
    with pytest.raises(lp.KgenError, match="value of 'i' in applied_iname_rewrites"):
        lp.make_kernel(text, "a[i_outer, i_inner] = 1", applied_iname_rewrites=[{"i": None}])


def test_c_functions_fetch_arrays_of_any_size() -> None:
    knl = lp.make_kernel(
        "{[i, j]: 0 <= i, j < n}", "o[i] = sum(j, a[j]*a[i])", target=lp.ExecutableCTarget()
    )
    fetched = lp.add_prefetch(knl, "a", "j", fetch_outer_inames="i", default_tag=None)
    assert kernel_of(fetched).temporary_variables["a_fetch"].shape == (p.Variable("n"),)
    assert_same_results(knl, fetched, {"a": np.arange(6.0)})
    with pytest.raises(lp.StaticValueFindingError, match="a constant extent of axis"):
        lp.add_prefetch(knl.copy(target=lp.OpenCLTarget()), "a", "j", default_tag=None)
