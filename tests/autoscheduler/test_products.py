"""Schedules of matrix products whose factors are read along the sum, or across it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kgen as lp
from tests.cuda_host import HostCuda

FACTORS_A, FACTORS_B = ("a[i, k]", "a[k, i]"), ("b[k, j]", "b[j, k]")


def product(a: str, b: str, dtype: Any, target: Any, n: int) -> lp.TranslationUnit:
    data = [lp.GlobalArg("a, b", dtype), lp.GlobalArg("out", np.promote_types(dtype, np.float32))]
    domain = f"{{ [i, j, k]: 0 <= i, j, k < {n} }}"
    return lp.make_kernel(domain, f"out[i, j] = sum(k, {a}*{b})", [*data, ...], target=target)


def drawn(a: str, b: str, dtype: Any, n: int) -> tuple[dict[str, Any], Any]:
    given = dict(zip("ab", np.random.default_rng(0).random((2, n, n)).astype(dtype), strict=True))
    one, two = given["a"].astype(float), given["b"].astype(float)
    return given, (one if a == FACTORS_A[0] else one.T) @ (two if b == FACTORS_B[0] else two.T)


@pytest.mark.filterwarnings("ignore::kgen.errors.VectorizationWarning")
@pytest.mark.parametrize(("a", "b"), [("a[i, k]", "b[j, k]"), ("a[k, i]", "b[k, j]")])
@pytest.mark.parametrize(
    ("dtype", "capability", "error"),
    [
        (np.float16, (8, 0), 2e-3),
        (np.float16, (9, 0), 2e-3),
        (np.float32, (9, 0), 1e-5),
        (np.float64, (9, 0), 1e-13),
    ],
)
def test_factors_may_be_transposed_on_gpus(
    dtype: Any, capability: Any, error: float, a: str, b: str, tmp_path: Path
) -> None:
    knl = product(a, b, dtype, lp.CudaTarget(capability=capability), 128)
    schedule = lp.find_schedule(knl)
    assert "pipeline" in str(schedule)
    assert ("tensorize" in str(schedule)) == (dtype != np.float32)
    given, expected = drawn(a, b, dtype, 128)
    out = np.zeros((128, 128), np.promote_types(dtype, np.float32))
    assert HostCuda(schedule(knl), tmp_path)({**given, "out": out}, order="any")
    np.testing.assert_allclose(out, expected, rtol=error)


@pytest.mark.filterwarnings("ignore::kgen.errors.VectorizationWarning")
@pytest.mark.parametrize(("a", "b"), [("a[i, k]", "b[j, k]"), ("a[k, i]", "b[k, j]")])
@pytest.mark.parametrize(("precision", "error"), [("3xtf32", 1e-6), ("tf32", 2e-3)])
def test_tensor_cores_compute_float32_if_a_precision_suffices(
    precision: str, error: float, a: str, b: str, tmp_path: Path
) -> None:
    knl = product(a, b, np.float32, lp.CudaTarget(capability=(8, 0)), 128)
    schedule = lp.find_schedule(knl, precision=precision)
    assert f"'m16n8k8', precision='{precision}')" in str(schedule)
    given, expected = drawn(a, b, np.float32, 128)
    out = np.zeros((128, 128), np.float32)
    assert HostCuda(schedule(knl), tmp_path)({**given, "out": out}, order="any")
    np.testing.assert_allclose(out, expected, rtol=error)


def test_precision_is_not_for_other_types() -> None:
    knl = product("a[i, k]", "b[k, j]", np.float64, lp.CudaTarget(capability=(9, 0)), 128)
    assert str(lp.find_schedule(knl, precision="tf32")) == str(lp.find_schedule(knl))


def test_there_are_two_precisions() -> None:
    knl = product("a[i, k]", "b[k, j]", np.float32, lp.CudaTarget(), 128)
    with pytest.raises(lp.KernelError, match=r"no precision 'tf16'\n  hint: 'tf32' or '3xtf32'"):
        lp.auto_space(knl, precision="tf16")


@pytest.mark.filterwarnings("ignore::kgen.errors.VectorizationWarning")
@pytest.mark.parametrize(
    ("dtype", "b", "more", "bounds"),
    [
        (np.float32, "b[k, j]", "", "(64, 2)"),
        (np.float32, "b[j, k]", "", "(64, 2)"),
        (np.float64, "b[k, j]", "", "(128, 2)"),
        (np.float32, "b[j, k]", "d[i] = i", "(256)"),
    ],
)
def test_products_have_launch_bounds_unless_they_share_a_kernel(
    dtype: Any, b: str, more: str, bounds: str
) -> None:
    text = [f"out[i, j] = sum(k, a[i, k]*{b})", *filter(None, [more])]
    data = [lp.GlobalArg("a, b, out", dtype), ...]
    target = lp.CudaTarget(capability=(9, 0))
    domain = "{ [i, j, k]: 0 <= i, j, k < 256 }"
    knl = lp.autoschedule(lp.make_kernel(domain, text, data, target=target))
    assert f"__launch_bounds__{bounds} " in lp.generate_code_v2(knl).device_code()


@pytest.mark.parametrize(
    ("n", "a", "b", "items", "sums", "groups"),
    [
        (2048, "a[i, k]", "b[k, j]", (16, 8), (8, 16), 2),
        (2048, "a[k, i]", "b[j, k]", (16, 8), (8, 16), 2),
        (2048, "a[k, i]", "b[k, j]", (8, 16), (16, 8), 2),
        (2048, "a[i, k]", "b[j, k]", (16, 16), (8, 8), 1),
        (1024, "a[i, k]", "b[k, j]", (8, 8), (8, 8), 2),
        (512, "a[i, k]", "b[k, j]", (8, 8), (4, 8), 2),
    ],
)
def test_work_items_of_products_depend_on_size_and_orientation(
    n: int, a: str, b: str, items: tuple[int, int], sums: tuple[int, int], groups: int
) -> None:
    space = lp.auto_space(product(a, b, np.float32, lp.CudaTarget(capability=(9, 0)), n))
    assert (space.start["i_items"], space.start["j_items"]) == items
    assert (space.start["i_each"], space.start["j_each"]) == sums
    assert (space.start["lanes"], space.start["groups"]) == (4, groups)


@pytest.mark.parametrize("b", FACTORS_B)
@pytest.mark.parametrize("a", FACTORS_A)
def test_panels_of_transposed_factors_are_packed(a: str, b: str) -> None:
    knl = product(a, b, np.float32, lp.ExecutableCTarget(), 300)
    schedule = lp.find_schedule(knl)
    assert "add_prefetch(knl, 'b'" in str(schedule)
    given, expected = drawn(a, b, np.float32, 300)
    np.testing.assert_allclose(schedule(knl)(**given)[1][0], expected, rtol=1e-4)


@pytest.mark.parametrize("b", FACTORS_B)
@pytest.mark.parametrize("sizes", ["n >= 1", "n >= 1 and n mod 4 = 0"])
def test_partial_tiles_have_code_of_their_own(sizes: str, b: str, tmp_path: Path) -> None:
    data = [lp.GlobalArg("a, b, out", np.float32, shape="n, n"), ...]
    text, domain = f"out[i, j] = sum(k, a[i, k]*{b})", "{ [i, j, k]: 0 <= i, j, k < n }"
    knl = lp.make_kernel(domain, text, data, assumptions=sizes, target=lp.CudaTarget())
    schedule = lp.find_schedule(knl)
    assert "slabs=(0, 1)" in str(schedule)
    program = HostCuda(schedule(knl), tmp_path)
    for n in (4, 64, 136):
        given, expected = drawn(FACTORS_A[0], b, np.float32, n)
        out = np.zeros((n, n), np.float32)
        assert program({**given, "out": out, "n": n}, order="any")
        np.testing.assert_allclose(out, expected, rtol=1e-5)


@pytest.mark.filterwarnings("ignore::kgen.errors.VectorizationWarning")
@pytest.mark.parametrize(
    ("one", "two", "dtype", "target"),
    [
        ("a[i, k]", "a[j, k]", np.float32, lp.ExecutableCTarget()),
        ("a[k, i]", "a[k, j]", np.float32, lp.ExecutableCTarget()),
        ("a[i, k]", "a[j, k]", np.float16, lp.CudaTarget(capability=(9, 0))),
        ("a[k, i]", "a[k, j]", np.float64, lp.CudaTarget(capability=(8, 0))),
        ("a[i, k]", "a[j, k]", np.float32, lp.CudaTarget()),
    ],
)
def test_products_of_an_array_with_itself_have_two_tiles(
    one: str, two: str, dtype: Any, target: Any, tmp_path: Path
) -> None:
    data = [lp.GlobalArg("a", dtype), lp.GlobalArg("out", np.promote_types(dtype, np.float32)), ...]
    domain = "{ [i, j, k]: 0 <= i, j, k < 128 }"
    knl = lp.make_kernel(domain, f"out[i, j] = sum(k, {one}*{two})", data, target=target)
    schedule = lp.find_schedule(knl)
    assert f"'{two}'" in str(schedule)
    a = np.random.default_rng(0).random((128, 128)).astype(dtype)
    out = np.zeros((128, 128), np.promote_types(dtype, np.float32))
    if isinstance(target, lp.CudaTarget):
        assert HostCuda(schedule(knl), tmp_path)({"a": a, "out": out}, order="any")
    else:
        _, (out,) = schedule(knl)(a=a)
    wide = a.astype(float)
    expected = wide @ wide.T if one == "a[i, k]" else wide.T @ wide
    np.testing.assert_allclose(out, expected, rtol=2e-3 if dtype is np.float16 else 1e-5)
