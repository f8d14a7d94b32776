"""Code over lanes: whole tiles apart from edges, scalars for what one loop uses."""

from __future__ import annotations

import textwrap
from typing import Any

import numpy as np
import pytest

import kgen as lp
from kgen.ast.nodes import For, print_tree
from kgen.ir.tree import nodes_in
from kgen.lowering import lower
from tests.oracle import Oracle

F32 = np.float32


def make(domain: str, code: str, **options: Any) -> lp.TranslationUnit:
    arrays = [
        lp.GlobalArg("a, out", F32, shape=options.setdefault("shape", "n")),
        lp.GlobalArg("b", F32, shape=options.pop("shape")),
        ...,
    ]
    return lp.make_kernel(domain, code, arrays, target=lp.ExecutableCTarget(), **options)


def product(**options: Any) -> lp.TranslationUnit:
    domain = "{ [i, j, k]: 0 <= i, j, k < n }"
    knl = make(domain, "out[i, j] = sum(k, a[i, k]*b[k, j])", shape="n, n", **options)
    knl = lp.split_iname(knl, "i", 2, inner_tag="ilp")
    return lp.split_iname(knl, "j", 8, inner_tag="vec")


def expect(unit: lp.TranslationUnit, text: str) -> None:
    (function,) = lower(unit.default_entrypoint).functions
    assert print_tree(function.body) == textwrap.dedent(text).strip()


def test_whole_tiles_come_first() -> None:
    knl = make("{ [i]: 0 <= i < n }", "<> t = 2*a[i] {id=t}\nout[i] = t {id=s}")
    expect(
        lp.split_iname(lp.assume(knl, "n >= 0"), "i", 8, inner_tag="vec"),
        """
        for i_outer = 0 .. n // 8
          simd i_inner = 0 .. 8
            t()
            s()
        for i_outer = n // 8 .. (n + 7) // 8
          simd i_inner = 0 .. n - 8*i_outer
            t()
            s()
        """,
    )


def test_no_condition_is_in_the_loop_of_a_sum() -> None:
    body = lp.generate_body(product())
    for loop in body.split("for (int k = 0")[1:3]:
        assert "if (" not in loop.split("out[")[0]
    assert body.count("simdlen(8)") == 3 * (2 + 2)


@pytest.mark.parametrize("n", [1, 7, 8, 9, 33])
def test_every_instance_runs_once(n: int) -> None:
    for knl in (product(), lp.split_iname(product(), "k", 4, inner_tag="unr")):
        lowered = lower(knl.default_entrypoint)
        Oracle(lowered.kernel, {"n": n}).check(lowered.functions)


def test_edges_may_have_several_ends() -> None:
    domain = "{ [k, i, r]: 0 <= k < n - 2 and 0 <= i < m and 0 <= r <= i }"
    knl = make(domain, "out[k, i] = sum(r, 9) {if=k < i}", shape="n, m")
    knl = lp.split_iname(knl, "i", 4, inner_tag="vec")
    lowered = lower(lp.assume(knl, "n >= 0 and m >= 0").default_entrypoint)
    for n, m in ((4, 3), (5, 9)):
        Oracle(lowered.kernel, {"n": n, "m": m}).check(lowered.functions)


def in_copies_of_lanes(knl: lp.TranslationUnit) -> lp.TranslationUnit:
    knl = lp.split_iname(knl, "i", 16)
    return lp.split_iname(knl, "i_inner", 8, outer_tag="ilp", inner_tag="vec")


def test_copies_of_lanes_are_whole_together() -> None:
    knl = make("{ [i]: 0 <= i < n }", "out[i] = 2*a[i] {id=s}", assumptions="n >= 0")
    expect(
        in_copies_of_lanes(knl),
        """
        for i_outer = 0 .. n // 16
          simd i_inner_inner = 0 .. 8
            s(i_inner_outer=0)
          simd i_inner_inner = 0 .. 8
            s(i_inner_outer=1)
        for i_outer = n // 16 .. (n + 15) // 16
          simd i_inner_inner = 0 .. min(8, n - 16*i_outer)
            s(i_inner_outer=0)
          if 16*i_outer + 8 < n
            simd i_inner_inner = 0 .. min(8, n - 16*i_outer - 8)
              s(i_inner_outer=1)
        """,
    )


@pytest.mark.parametrize("n", [1, 7, 8, 9, 15, 16, 17, 24, 25, 40])
def test_copies_of_lanes_for_any_size(n: int) -> None:
    knl = make("{ [i, k]: 0 <= i < n and 0 <= k < 3 }", "out[i] = sum(k, k*a[i])")
    a = np.arange(n, dtype=F32)
    _, (out,) = in_copies_of_lanes(lp.remove_unused_arguments(knl))(a=a)
    np.testing.assert_array_equal(out, 3 * a)


@pytest.mark.parametrize("n", [1, 7, 8, 40, 53])
def test_products_of_any_size(n: int) -> None:
    a, b = np.random.default_rng(n).random((2, n, n), F32)
    _, (out,) = product()(a=a, b=b)
    np.testing.assert_allclose(out, a @ b, rtol=1e-5)


def test_values_of_one_loop_are_scalars_and_others_arrays() -> None:
    code = "<> t = 2*a[i]\n<> u = t*t\nout[i] = sum(k, u*b[k])"
    knl = make("{ [i, k]: 0 <= i, k < n }", code, assumptions="n mod 8 = 0")
    text = lp.generate_body(lp.split_iname(knl, "i", 8, inner_tag="vec"))
    assert "float const t = 2.0f * a[8 * i_outer + i_inner];" in text
    assert "float u[8];" in text


def test_a_value_under_a_condition_has_an_element_in_each_lane() -> None:
    code = "<> t = 0.0 {id=z,inames=i}\nt = a[i] {id=t,dep=z,if=a[i] > 0}\nout[i] = t {dep=t}"
    knl = lp.remove_unused_arguments(make("{ [i]: 0 <= i < n }", code))
    knl = lp.split_iname(knl, "i", 8, inner_tag="vec")
    text = lp.generate_body(knl)
    assert text.count("float t = 0.0f;") == 2
    a = np.arange(-10, 11, dtype=F32)
    np.testing.assert_array_equal(knl(a=a)[1][0], np.maximum(a, 0))


@pytest.mark.parametrize("subscript", ["i % 8", "7 - i % 8"])
def test_a_temporary_with_other_subscripts_than_lanes_stays_an_array(subscript: str) -> None:
    tile = lp.TemporaryVariable("t", F32, shape=8)
    code = f"t[{subscript}] = 2*a[i]\nout[i] = t[{subscript}]"
    knl = lp.make_kernel("{ [i]: 0 <= i < 20 }", code, [tile, ...], target=lp.ExecutableCTarget())
    a = np.arange(20, dtype=F32)
    _, (out,) = lp.split_iname(knl, "i", 8, inner_tag="vec")(a=a)
    np.testing.assert_array_equal(out, 2 * a)


def test_a_loop_of_any_length_is_one_of_lanes() -> None:
    knl = lp.tag_inames(make("{ [i]: 0 <= i < n }", "out[i] = 2*a[i]"), "i:vec")
    assert lp.generate_body(knl).splitlines()[0] == "  #pragma omp simd"


def test_edges_on_both_sides() -> None:
    knl = make("{ [i]: 3 <= i < n - 2 }", "out[i] = a[i - 3] + a[i + 2]")
    knl = lp.remove_unused_arguments(lp.split_iname(knl, "i", 8, inner_tag="vec"))
    for n in (5, 6, 13, 26, 27):
        a, out = np.arange(n, dtype=F32), np.zeros(n, F32)
        knl(a=a, out=out)
        np.testing.assert_array_equal(out[3 : n - 2], a[: n - 5] + a[5:])


def test_a_tile_in_memory_is_named_by_an_aligned_pointer() -> None:
    knl = lp.split_iname(make("{ [i]: 0 <= i < n }", "out[i] = 2*a[i]"), "i", 1024)
    knl = lp.add_prefetch(lp.assume(knl, "n mod 1024 = 0"), "a", "i_inner", default_tag=None)
    text = lp.generate_body(lp.split_iname(knl, "i_inner", 8, inner_tag="vec"))
    assert "float *const a_fetch = __builtin_assume_aligned(a_fetch_elements, 64);" in text


@pytest.mark.parametrize("tag", ["ilp", "vec"])
def test_a_whole_tile_may_be_short(tag: str) -> None:
    code = "out[i] = a[i] {id=s, if=i < 2}"
    knl = make("{ [i]: 0 <= i < n }", code, assumptions="n >= 1")
    knl = lp.split_iname(lp.remove_unused_arguments(knl), "i", 4, outer_tag="g.0", inner_tag=tag)
    out = knl(a=np.ones(10, F32), out=np.zeros(10, F32))[1][0]
    assert out.tolist() == [1, 1, *[0] * 8]


@pytest.mark.parametrize("threads", [1, None])
def test_work_items_are_lanes_where_these_are_neighbours(threads: int | None) -> None:
    knl = make("{ [i]: 0 <= i < n }", "<> t = 2*a[i]\nout[i] = t*t")
    knl = lp.remove_unused_arguments(knl.copy(target=lp.ExecutableCTarget(threads=threads)))
    items = lp.split_iname(knl, "i", 64, outer_tag="g.0", inner_tag="l.0")
    assert "#pragma omp simd" in lp.generate_code_v2(items).device_code()
    assert lp.explain(items).launches[0].loop("i_inner").level == "simd"
    a = np.arange(99, dtype=F32)
    np.testing.assert_array_equal(items(a=a)[1][0], 4 * a * a)
    strided = lp.split_iname(knl, "i", 64, inner_tag="g.0", outer_tag="l.0")
    strided = lp.assume(strided, "n <= 640 and n mod 64 = 0")
    assert "omp simd" not in lp.generate_code_v2(strided).device_code()


def test_tiles_of_tiles() -> None:
    knl = make("{ [i]: 0 <= i < n }", "out[i] = 2*a[i]", assumptions="n >= 1")
    knl = lp.split_iname(lp.split_iname(knl, "i", 32), "i_inner", 8, inner_tag="vec")
    expect(
        knl,
        """
        for i_outer = 0 .. (n + 31) // 32
          for i_inner_outer = 0 .. min(4, (n - 32*i_outer) // 8)
            simd i_inner_inner = 0 .. 8
              insn()
          for i_inner_outer = (n - 32*i_outer) // 8 .. min(4, (n - 1) // 8 - 4*i_outer + 1)
            simd i_inner_inner = 0 .. n - 32*i_outer - 8*i_inner_outer
              insn()
        """,
    )


def test_loops_that_gcc_may_interchange_have_vectors_of_the_longest_registers() -> None:
    knl = make("{ [i, t]: 0 <= i < n and 0 <= t < 9 }", "out[i] = out[i] + a[i]*t")
    knl = lp.assume(lp.split_iname(knl, "i", 32, inner_tag="vec"), "n mod 32 = 0")
    assert "simdlen(16)" in lp.generate_body(knl)


def test_work_items_that_share_a_tile_are_lanes_between_barriers() -> None:
    knl = make(
        "{ [i, j, k]: 0 <= i, j, k < n }", "out[i, j] = sum(k, a[i, k]*b[k, j])", shape="n, n"
    )
    knl = lp.assume(knl, "n >= 1 and n mod 8 = 0")
    knl = lp.split_iname(knl, "i", 8, outer_tag="g.1", inner_tag="l.1")
    knl = lp.split_iname(knl, "j", 8, outer_tag="g.0", inner_tag="l.0")
    knl = lp.add_prefetch(
        lp.split_iname(knl, "k", 8), "b", ["k_inner", "j_inner"], default_tag="l.auto"
    )
    text = lp.generate_code_v2(knl).device_code()
    loop = "#pragma omp simd simdlen(8)\n        for (int lid0 = 0; lid0 < 8; ++lid0)\n"
    assert f"{loop}          acc_k_outer_k_inner[8 * lid1 + lid0] +=" in text
    a, b = np.random.default_rng(1).random((2, 24, 24), F32)
    np.testing.assert_allclose(knl(a=a, b=b)[1][0], a @ b, rtol=1e-5)


def test_bounds_that_are_computed_inside_separate_no_tiles() -> None:
    knl = lp.make_kernel(
        ["{ [b]: 0 <= b < n }", "{ [i]: s <= i < e }"],
        "for b\n <> s = starts[b]\n <> e = starts[b + 1]\n for i\n out[i] = b\n end\nend",
        [lp.GlobalArg("starts", np.int32, shape="n + 1"), lp.GlobalArg("out", F32, shape="m"), ...],
        target=lp.ExecutableCTarget(),
        seq_dependencies=True,
    )
    knl = lp.split_iname(knl, "i", 4, inner_tag="vec")
    out = np.zeros(10, F32)
    knl(starts=np.array([0, 3, 9, 10], np.int32), out=out)
    np.testing.assert_array_equal(out, [0, 0, 0, 1, 1, 1, 1, 1, 1, 2])


def test_of_loops_in_each_other_the_innermost_is_in_lanes() -> None:
    knl = lp.make_kernel(
        "{ [j, k, r]: 0 <= j < 4 and 0 <= k < 2 and 0 <= r < 6 }",
        "out[j, k] = sum(r, a[k, 2*k])",
        [lp.GlobalArg("a", np.int32, shape=(2, 3)), lp.GlobalArg("out", np.int32, shape=(4, 2))],
        target=lp.ExecutableCTarget(threads=1),
    )
    knl = lp.split_iname(lp.tag_inames(knl, "k:vec"), "r", 6, inner_tag="vec")
    (function,) = lower(knl.default_entrypoint).functions
    lanes = [node for node in nodes_in(function.body) if isinstance(node, For) and node.is_simd]
    assert lanes
    inside = [part for loop in lanes for part in nodes_in(loop.body) if isinstance(part, For)]
    assert not any(part.is_simd for part in inside)
    (out,) = knl(a=np.arange(6, dtype=np.int32).reshape(2, 3))[1]  # crashed with gcc 12
    np.testing.assert_array_equal(out, [[0, 30]] * 4)


def test_tiles_that_are_never_whole_have_no_version() -> None:
    knl = make("{ [r]: -2 <= r < 2 }", "out[0] = min(r, a[r % 3])", shape="3")
    knl = lp.remove_unused_arguments(lp.split_iname(knl, "r", 8, inner_tag="vec"))
    assert " if " not in lp.generate_body(knl)


def test_remainders_of_few_iterations() -> None:
    cases = [(low, high) for low in (-3, -2, -1) for high in (2, 3)]
    loops = [f"{{ [r{k}]: {low} <= r{k} < {high} }}" for k, (low, high) in enumerate(cases)]
    code = "\n".join(f"out[i, {k}] = min(r{k}, a[r{k} % 3] + b[i])" for k in range(len(cases)))
    knl = lp.make_kernel(["{ [i]: 0 <= i < n }", *loops], code, target=lp.ExecutableCTarget())
    knl = lp.add_dtypes(knl, {"a, b": np.int32})
    for k in range(len(cases)):
        knl = lp.split_iname(knl, f"r{k}", 8, inner_tag="vec")
    a, b = np.array([3, 1, 4], np.int32), np.arange(5, dtype=np.int32)
    _, (out,) = knl(a=a, b=b)
    expected = [min(a[r % 3] for r in range(*case)) for case in cases]
    np.testing.assert_array_equal(out, b[:, None] + expected)
