"""Short programs as users write them, run on the host and held against numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kgen as lp

Array = np.ndarray[Any, Any]
RANDOM = np.random.default_rng(7)


def make(domains: Any, instructions: str, *data: Any, **options: Any) -> lp.TranslationUnit:
    target = lp.ExecutableCTarget()
    return lp.make_kernel(domains, instructions, [*data, "..."], target=target, **options)


def run(unit: lp.TranslationUnit, **arguments: Any) -> Array:
    _, results = unit(**arguments)
    result: Array = results[0]
    return result


def numbers(*shape: int) -> Array:
    return RANDOM.random(shape)


# -- whole programs -----------------------------------------------------------------------------


def test_a_tiled_matrix_product() -> None:
    knl = make("{ [i, j, k]: 0<=i<n and 0<=j<m and 0<=k<l }", "c[i,j] = sum(k, a[i,k]*b[k,j])")
    for iname, length in (("i", 4), ("j", 4), ("k", 3)):
        knl = lp.split_iname(knl, iname, length)
    knl = lp.prioritize_loops(knl, "i_outer, j_outer, i_inner, j_inner")
    a, b = numbers(7, 5), numbers(5, 6)
    assert np.allclose(run(knl, a=a, b=b), a @ b)


def test_a_stencil_with_partial_tiles() -> None:
    text = "b[i,j] = 0.25*(a[i-1,j] + a[i+1,j] + a[i,j-1] + a[i,j+1])"
    data = lp.GlobalArg("a,b", np.float64, shape="n, n")
    knl = make("{ [i, j]: 1<=i,j<n-1 }", text, data)
    knl = lp.split_iname(lp.split_iname(knl, "i", 4), "j", 4, inner_tag="unr", slabs=(0, 1))
    a, want = numbers(11, 11), np.zeros((11, 11))
    want[1:-1, 1:-1] = 0.25 * (a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:])
    assert np.allclose(run(knl, a=a, b=np.zeros((11, 11))), want)


def test_sparse_rows_have_lengths_that_are_data() -> None:
    text = """
    for i
      <> start = ptr[i]
      <> length = ptr[i+1] - start
      y[i] = sum(j, val[start+j]*x[idx[start+j]])
    end
    """
    free = [lp.GlobalArg(name, shape=None) for name in ("val", "idx", "x")]
    knl = make(
        ["{ [i]: 0<=i<n }", "{ [j]: 0<=j<length }"], text, *free, lp.GlobalArg("ptr", shape="n+1")
    )
    ptr, idx = np.array([0, 2, 2, 3], np.int32), np.array([0, 1, 1], np.int32)
    y = run(knl, ptr=ptr, idx=idx, val=np.array([1.0, 2, 3]), x=np.array([10.0, 20]), n=3)
    assert y.tolist() == [50, 0, 60]


def test_steps_in_time_around_two_loops() -> None:
    text = """
    for t
      for i
        new[i] = 2*u[i] {id=new, dep=*}
      end
      for j
        u[j] = new[j] + 1 {dep=new}
      end
    end
    """
    temporary = lp.TemporaryVariable("new", np.float64, shape=(5,))
    domains = ["{ [t]: 0<=t<steps }", "{ [i, j]: 0<=i,j<5 }"]
    knl = make(domains, text, temporary, lp.ValueArg("steps", np.int32))
    assert run(knl, u=np.zeros(5), steps=3).tolist() == [7] * 5


def test_normalizing_needs_the_sum_first() -> None:
    knl = make("{ [i, j]: 0<=i,j<n }", "<> s = sum(i, a[i]**2)\nout[j] = a[j]/sqrt(s)")
    a = numbers(5)
    assert np.allclose(run(knl, a=a), a / np.linalg.norm(a))


def test_a_histogram() -> None:
    knl = make("{ [i]: 0<=i<n }", "h[b[i]] = h[b[i]] + 1", lp.GlobalArg("h", shape="5"))
    h = run(knl, b=np.array([1, 1, 4], np.int32), h=np.zeros(5, np.int32))
    assert h.tolist() == [0, 2, 0, 0, 1]


def test_a_window_in_registers() -> None:
    text = """
    <> w[k] = a[i+k-1] {id=w}
    out[i] = w[0] - 2*w[1] + w[2] {dep=w}
    """
    data = lp.GlobalArg("a,out", np.float64, shape="n")
    knl = lp.tag_inames(make("{ [i, k]: 1<=i<n-1 and 0<=k<3 }", text, data), "k:unr")
    out = run(knl, a=np.arange(6.0) ** 2, out=np.zeros(6))
    assert out.tolist() == [0, 2, 2, 2, 2, 0]


def test_rules_may_reduce_and_call_each_other() -> None:
    knl = make("{ [i, j]: 0<=i,j<n }", "f(x) := sum(j, b[x,j])\ng(x) := f(x) + x\nout[i] = g(i)")
    b = numbers(4, 4)
    assert np.allclose(run(knl, b=b), b.sum(1) + np.arange(4))


def test_branches_share_their_conditions() -> None:
    text = """
    for i
      if a[i] > 2
        out[i] = 1
      elif a[i] > 1
        out[i] = 2
      else
        out[i] = 3
      end
    end
    """
    assert run(make("{ [i]: 0<=i<n }", text), a=np.arange(5.0)).tolist() == [3, 3, 2, 1, 1]


# -- expressions --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("a[i] // 3", lambda a: a // 3),
        ("a[i] % 3", lambda a: a % 3),
        ("a[i] // (-3)", lambda a: a // -3),
        ("a[i] % (-3)", lambda a: a % -3),
        ("a[i] / 2", lambda a: a / 2),
        ("a[i] ** 2", lambda a: a**2),
        ("abs(a[i])", abs),
        ("(a[i] & 3) | (a[i] << 2) ^ 1", lambda a: (a & 3) | (a << 2) ^ 1),
        ("~a[i] >> 1", lambda a: ~a >> 1),
        ("max(a[i], 2) + min(a[i], 1)", lambda a: np.maximum(a, 2) + np.minimum(a, 1)),
        (
            "a[i] if a[i] > 1 and not a[i] == 3 else -1",
            lambda a: np.where((a > 1) & (a != 3), a, -1),
        ),
        ("cast(float32, a[i])/3", lambda a: a.astype(np.float32) / np.float32(3)),
        ("a[(i + 1) % n]", lambda a: np.roll(a, -1)),
        ("a[n - 1 - i]", lambda a: a[::-1]),
    ],
)
def test_expressions_are_those_of_numpy(text: str, meaning: Any) -> None:
    knl = make("{ [i]: 0<=i<n }", f"out[i] = {text}", lp.GlobalArg("a", shape="n"))
    a = np.arange(-6, 6, dtype=np.int32)
    assert np.allclose(run(knl, a=a), meaning(a))


# -- transformations ----------------------------------------------------------------------------


def doubled(**options: Any) -> lp.TranslationUnit:
    return make("{ [i]: 0<=i<n }", "out[i] = 2*a[i]", **options)


@pytest.mark.parametrize(
    "transform",
    [
        lambda knl: lp.split_iname(knl, "i", 4, inner_tag="unr", slabs=(1, 1)),
        lambda knl: lp.split_iname(knl, "i", 4, inner_tag="ilp"),
        lambda knl: lp.split_iname(lp.split_iname(knl, "i", 6), "i_inner", 4, inner_tag="unr"),
        lambda knl: lp.rename_iname(knl, "i", "x"),
        lambda knl: lp.fix_parameters(knl, n=7),
        lambda knl: lp.tag_inames(lp.split_iname(knl, "i", 4), "i_outer:g.0, i_inner:l.0"),
        lambda knl: lp.set_argument_order(knl, "out, n, a"),
        lambda knl: lp.add_and_infer_dtypes(knl, {"a": np.float64}),
    ],
)
def test_transformed_loops_compute_the_same(transform: Any) -> None:
    assert run(transform(doubled()), a=np.arange(7.0)).tolist() == [0, 2, 4, 6, 8, 10, 12]


def test_joined_loops_are_named_from_the_inside_out() -> None:
    knl = lp.join_inames(make("{ [i, j]: 0<=i<n and 0<=j<3 }", "b[i,j] = 2*a[i,j]"), ["i", "j"])
    a = numbers(4, 3)
    assert np.allclose(run(lp.tag_inames(knl, "j_and_i:ord"), a=a), 2 * a)


def test_a_reduction_may_share_its_loop_variable() -> None:
    knl = make("{ [i, j]: 0<=i<n and 0<=j<m }", "y[i] = sum(j, a[i,j])/sum(j, b[i,j])")
    knl = lp.split_iname(knl, "j", 3, inner_tag="unr")
    a, b = numbers(3, 7), numbers(3, 7)
    assert np.allclose(run(knl, a=a, b=b), a.sum(1) / b.sum(1))


# -- data ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64", "complex64"])
def test_code_is_made_for_the_types_that_come(dtype: str) -> None:
    out = run(doubled(), a=np.arange(4, dtype=dtype))
    assert out.dtype == np.dtype(dtype)
    assert out.tolist() == [0, 2, 4, 6]


def test_arrays_may_be_views() -> None:
    a = np.arange(12.0).reshape(3, 4)
    knl = make("{ [i, j]: 0<=i<n and 0<=j<m }", "b[i,j] = 2*a[i,j]")
    for view in (a.T, a[::-1, ::2], a[1:, :0], np.asfortranarray(a)):
        assert np.array_equal(run(knl, a=view), 2 * view)


def test_an_array_that_is_read_and_written_is_changed_in_place() -> None:
    a = np.arange(4.0)
    run(make("{ [i]: 0<=i<n }", "a[i] = 2*a[i]"), a=a)
    assert a.tolist() == [0, 2, 4, 6]


def test_a_size_is_found_from_a_multiple_of_it() -> None:
    knl = make("{ [i]: 0<=i<2*n }", "b[i] = a[i] + n")
    assert run(knl, a=np.arange(6.0)).tolist() == [3, 4, 5, 6, 7, 8]
