"""Arrays of PyTorch, CuPy and numba on CUDA devices in calls of ready kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kgen import linalg
from kgen.algorithm import RadixSort
from kgen.elementwise import ElementwiseKernel
from kgen.linalg import matmul
from kgen.reduction import ReductionKernel
from kgen.scan import InclusiveScanKernel

pytest.importorskip("pycuda.driver")


def on_device(library: str, values: np.ndarray[Any, Any]) -> Any:
    """Return an array of a library on the device."""
    if library == "torch":
        return pytest.importorskip("torch").as_tensor(values, device="cuda")
    if library == "cupy":
        return pytest.importorskip("cupy").asarray(values)
    return pytest.importorskip("numba.cuda").to_device(values)


def on_host(array: Any) -> Any:
    for method in ("cpu", "get", "copy_to_host"):
        if hasattr(array, method):
            return np.asarray(getattr(array, method)())
    raise AssertionError(type(array))


@pytest.mark.parametrize("library", ["torch", "cupy", "numba"])
def test_results_are_of_the_library(cuda_context: Any, library: str) -> None:
    values = np.arange(20000, dtype=np.int32)[::-1].copy()
    x = on_device(library, values)
    ElementwiseKernel("int *x", "x[i] += 1")(x)
    values = values + 1
    found = {
        "sum": ReductionKernel(np.int32, "0", "a+b", arguments="int *x")(x),
        "scan": InclusiveScanKernel(np.int32, "a+b")(x),
        "sort": RadixSort("int *x", "x[i]", ["x"], key_dtype=np.int32)(x)[0][0],
    }
    assert {type(one) for one in found.values()} == {type(x)}
    np.testing.assert_array_equal(on_host(found["sum"]), values.sum(dtype=np.int32))
    np.testing.assert_array_equal(on_host(found["scan"]), np.cumsum(values, dtype=np.int32))
    np.testing.assert_array_equal(on_host(found["sort"]), np.sort(values))


@pytest.mark.parametrize("library", ["torch", "cupy", "numba"])
def test_products(cuda_context: Any, library: str) -> None:
    values = np.random.default_rng(1).random((65, 33)).astype(np.float32)
    a, b = on_device(library, values), on_device(library, values.T.copy())
    np.testing.assert_allclose(on_host(matmul(a, b)), values @ values.T, rtol=1e-5)


@pytest.mark.parametrize("library", ["torch", "cupy", "numba"])
def test_repeated_products_are_of_the_arrays_of_each_call(cuda_context: Any, library: str) -> None:
    first, second, third = np.random.default_rng(1).random((3, 64, 64)).astype(np.float32)
    a, b, c = (on_device(library, values) for values in (first, second, third))
    for _ in range(2):
        np.testing.assert_allclose(on_host(matmul(a, b)), first @ second, rtol=1e-5)
        np.testing.assert_allclose(on_host(matmul(b, c)), second @ third, rtol=1e-5)
        np.testing.assert_allclose(on_host(matmul(a, a)), first @ first, rtol=1e-5)
        out = on_device(library, np.zeros_like(first))
        assert matmul(c, a, out=out) is out
        np.testing.assert_allclose(on_host(out), third @ first, rtol=1e-5)
        np.testing.assert_allclose(
            on_host(matmul(a, b, dtype=np.float64)), first @ second, rtol=1e-5
        )


@pytest.mark.parametrize("library", ["torch", "cupy", "numba"])
def test_a_product_may_replace_a_factor(cuda_context: Any, library: str) -> None:
    first, second = np.random.default_rng(1).random((2, 64, 64)).astype(np.float32)
    for _ in range(2):
        a, b = on_device(library, first), on_device(library, second)
        assert matmul(a, b, out=a) is a
        np.testing.assert_allclose(on_host(a), first @ second, rtol=1e-5)


def test_a_repeated_product_is_one_launch(cuda_context: Any, monkeypatch: Any) -> None:
    a, b = (on_device("torch", np.ones((256, 256), np.float32)) for _ in range(2))
    results = [matmul(a, b), matmul(b, a)]
    monkeypatch.setattr(linalg, "in_tiles", None)
    monkeypatch.setattr(linalg, "_summation", None)
    results.append(matmul(a, a.clone()))
    assert {float(result[0, 0]) for result in results} == {256.0}
    assert {result.dtype for result in results} == {a.dtype}
