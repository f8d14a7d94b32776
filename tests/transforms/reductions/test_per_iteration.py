"""Reductions whose loop is around loops that are around them: arrays of accumulators."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kgen as lp
from tests.transforms.helpers import run

OUTER = "i_outer, j_outer, k_outer"
A, B = np.random.default_rng(6).random((2, 13, 13))


def tiled_product(*splits: tuple[str, int]) -> lp.TranslationUnit:
    knl = lp.make_kernel("{[i, j, k]: 0 <= i, j, k < n}", "out[i, j] = sum(k, a[i, k]*b[k, j])")
    knl = lp.add_dtypes(knl, {"a": np.float64, "b": np.float64})
    for iname, length in splits or (("i", 4), ("j", 4), ("k", 4)):
        knl = lp.split_iname(knl, iname, length)
    return knl


@pytest.mark.parametrize("outer", [None, OUTER])
def test_a_tiled_product_in_plain_loops(outer: str | None) -> None:
    knl = tiled_product()
    for name, sweep in (("a", "i_inner, k_inner"), ("b", "j_inner, k_inner")):
        knl = lp.add_prefetch(knl, name, sweep, default_tag=None, fetch_outer_inames=outer)
    body = lp.generate_body(knl.copy(target=lp.CTarget()))
    assert "acc_k_outer_k_inner[16]" in body
    assert body.count("for (int k_outer =") == 1
    np.testing.assert_allclose(run(knl, a=A, b=B)["out"], A @ B)


def test_a_tiled_product_in_registers(device: Any) -> None:
    knl = tiled_product(("i", 8), ("j", 8), ("k", 4))
    for axis, iname in enumerate("ji"):
        knl = lp.tag_inames(knl, {f"{iname}_outer": f"g.{axis}"})
        knl = lp.split_iname(knl, f"{iname}_inner", 4, inner_tag=f"l.{axis}", outer_tag="unr")
    for name, iname in (("a", "i"), ("b", "j")):
        sweep = [f"{iname}_inner_inner", f"{iname}_inner_outer", "k_inner"]
        knl = lp.add_prefetch(knl, name, sweep, default_tag="l.auto")
    code = lp.generate_body(knl)
    assert code.count("barrier(") == 2
    assert code.count("out[") == 4
    _, (found,) = device(knl, a=A, b=B)
    np.testing.assert_allclose(found, A @ B)


def test_a_loop_is_shared_whatever_the_dependency_goes_through() -> None:
    """The reduction depends on what it reads by another instruction: it read the last value."""
    text = """
    for k
        <> t = 2*x[k]
        y[k] = t
    end
    out = sum(k, t)
    """
    data = [lp.GlobalArg("out", None, shape=()), ...]
    knl = lp.make_kernel("{[k]: 0 <= k < n}", text, data, seq_dependencies=True)
    x = np.arange(5.0)
    assert run(lp.add_dtypes(knl, {"x": np.float64}), x=x)["out"] == 2 * x.sum()


def test_what_depends_on_the_loop_goes_inside_with_it() -> None:
    knl = lp.make_kernel(
        "{[i, k]: 0 <= i < 5 and 0 <= k < n}",
        """
        <> t = 2*x[k]                      {id=t, inames=k}
        <> u = t + i                       {id=u, inames=i:k, dep=t}
        out[i] = sum(k, t*u)               {dep=t:u, inames=i}
        """,
    )
    knl = lp.add_dtypes(knl, {"x": np.float64})
    x = A[0]
    want = [(2 * x * (2 * x + i)).sum() for i in range(5)]
    np.testing.assert_allclose(run(knl, x=x)["out"], want)


def test_reductions_share_the_loops_inside_of_theirs() -> None:
    text = "out[i, j] = sum(k, a[i, k]*b[k, j]) + 2*sum(k, a[i, k])"
    knl = lp.make_kernel("{[i, j, k]: 0 <= i, j, k < n}", text)
    knl = lp.add_dtypes(knl, {"a": np.float64, "b": np.float64})
    for iname in "ijk":
        knl = lp.split_iname(knl, iname, 4)
    knl = lp.add_prefetch(knl, "a", "k_inner", default_tag=None)
    knl = lp.add_prefetch(knl, "b", "k_inner, j_inner", default_tag=None, fetch_outer_inames=OUTER)
    np.testing.assert_allclose(run(knl, a=A, b=B)["out"], A @ B + 2 * A.sum(1)[:, None])


@pytest.mark.parametrize("condition", ["i > 3", "a[i, 0] > 0.5"])
def test_conditions_on_the_loops_inside(condition: str) -> None:
    text = f"out[i, j] = sum(k, a[i, k]*b[k, j]) {{if={condition}}}"
    knl = lp.make_kernel("{[i, j, k]: 0 <= i, j, k < n}", text)
    knl = lp.add_dtypes(knl, {"a": np.float64, "b": np.float64})
    for iname in "ijk":
        knl = lp.split_iname(knl, iname, 4)
    knl = lp.add_prefetch(knl, "b", "k_inner, j_inner", default_tag=None, fetch_outer_inames=OUTER)
    chosen = np.arange(13) > 3 if condition == "i > 3" else A[:, 0] > 0.5
    found = run(knl, a=A, b=B, out=np.zeros((13, 13)))["out"]
    np.testing.assert_allclose(found, np.where(chosen[:, None], A @ B, 0))


def test_extrema_and_their_places() -> None:
    text = "most[i], at[i] = argmax(k, a[i, k], k)"
    knl = lp.make_kernel("{[i, k]: 0 <= i < n and 0 <= k < m}", text)
    knl = lp.add_dtypes(knl, {"a": np.float64})
    knl = lp.split_iname(lp.split_iname(knl, "i", 4), "k", 4)
    knl = lp.add_prefetch(
        knl, "a", "i_inner, k_inner", default_tag=None, fetch_outer_inames="i_outer, k_outer"
    )
    found = run(knl, a=A)
    np.testing.assert_array_equal(found["most"], A.max(1))
    np.testing.assert_array_equal(found["at"], A.argmax(1))


def test_loops_of_any_length_have_no_array_of_accumulators() -> None:
    knl = lp.split_iname(tiled_product(("k", 4)), "k_inner", 2)
    knl = lp.add_prefetch(
        knl, "a", "k_inner_outer, k_inner_inner", default_tag=None, fetch_outer_inames="i, k_outer"
    )
    with pytest.raises(lp.TransformError, match="not a constant") as info:
        lp.generate_code_v2(knl)
    assert "add_inames_to_insn(kernel, 'j', 'id:a_fetch_rule')" in str(info.value)
    knl = lp.add_inames_to_insn(knl, "j", "id:a_fetch_rule")
    np.testing.assert_allclose(run(knl, a=A, b=B)["out"], A @ B)


@pytest.mark.parametrize("triangle", ["0 <= j <= i", "i <= j < 16", "0 <= j < 16 - i"])
@pytest.mark.parametrize("length", [1, 4])
def test_rows_of_different_lengths_keep_their_bounds(triangle: str, length: int) -> None:
    domain = f"{{ [i, j]: 0 <= i < 16 and {triangle} }}"
    arrays = [lp.GlobalArg("a, b, out", np.float64, shape=16)]
    knl = lp.make_kernel(
        domain, "out[i] = sum(j, a[i]*b[j])", arrays, target=lp.ExecutableCTarget()
    )
    given = {"a": np.arange(16.0), "b": np.arange(16.0) ** 2}
    (expected,) = knl(**given)[1]
    tiles = lp.split_iname(lp.split_iname(knl, "i", 4), "j", length)
    fetched = lp.add_prefetch(
        tiles, "b", ["j_inner"], fetch_outer_inames="j_outer", default_tag=None
    )
    (out,) = fetched(**given)[1]
    np.testing.assert_allclose(out, expected)
