"""Arithmetic of vectors, which OpenCL C has."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kgen as lp

cl = pytest.importorskip("pyopencl")
cla = pytest.importorskip("pyopencl.array")
cltypes = pytest.importorskip("pyopencl.cltypes")

N = 5


def vectors(dtype: Any) -> Any:
    """Return N vectors, and as a table of numbers."""
    x = np.zeros(N, dtype)
    for lane, name in enumerate(dtype.names):
        x[name] = np.arange(N) + lane
    return x


def table(x: Any) -> Any:
    return np.stack([x[name] for name in x.dtype.names], axis=1)


def program(text: str, *data: Any, dtype: Any = None, **settings: Any) -> lp.TranslationUnit:
    arrays = lp.GlobalArg("x, z", dtype or cltypes.float4, shape="n")
    return lp.make_kernel("{ [i, j]: 0 <= i, j < n }", text, [arrays, *data, ...], **settings)


X = np.arange(N)[:, None] + np.arange(4.0)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("2*x[i] - x[i]/4 + 1", 2 * X - X / 4 + 1),
        ("-(x[i] - 3) - 2.5*(x[i] + x[0])", -(X - 3) - 2.5 * (X + X[0])),
        ("-x[i]*i", -X * np.arange(N)[:, None]),
        ("x[i] if i > 2 else 2*x[i]", np.where(np.arange(N)[:, None] > 2, X, 2 * X)),
        ("sum(j, 2*x[j]) + x[i]", 2 * X.sum(axis=0) + X),
        ("product(j, x[j] + 1)", np.broadcast_to((X + 1).prod(axis=0), X.shape)),
        ("x[i].y*x[i]", X[:, 1:2] * X),
    ],
)
def test_results_are_those_of_each_number(text: str, wanted: Any, opencl_queue: Any) -> None:
    x = cla.to_device(opencl_queue, vectors(cltypes.float4))
    _, (z,) = program(f"z[i] = {text}")(opencl_queue, x=x)
    np.testing.assert_allclose(table(z.get()), wanted)


@pytest.mark.parametrize("dtype", [cltypes.int2, cltypes.double8, cltypes.uint4])
def test_vectors_of_other_numbers(dtype: Any, opencl_queue: Any) -> None:
    host = vectors(dtype)
    x = cla.to_device(opencl_queue, host)
    _, (z,) = program("<> t = 3*x[i]\nz[i] = t + x[i]*2", dtype=dtype)(opencl_queue, x=x)
    np.testing.assert_array_equal(table(z.get()), 5 * table(host))


def test_vectors_are_passed_by_value(opencl_queue: Any) -> None:
    knl = program("z[i] = s*x[i]", lp.ValueArg("s", cltypes.float4))
    x = cla.to_device(opencl_queue, vectors(cltypes.float4))
    for s in (cltypes.make_float4(1, 2, 3, 4), np.array([(1, 2, 3, 4)], cltypes.float4)[0]):
        _, (z,) = knl(opencl_queue, x=x, s=s)
        np.testing.assert_array_equal(table(z.get()), X * [1, 2, 3, 4])
    with pytest.raises(lp.InvocationError, match="argument 's' is a vector, not"):
        knl(opencl_queue, x=x, s=2.5)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("z[i] = x[i]*y[i]", "vectors of several types"),
        ("z[i] = d*x[i] + 1j*x[i]", "complex128 does not fit a vector of float32"),
        ("z[i] = x[i]**2", "vectors have no arithmetic"),
        ("z[i] = max(x[i], x[0])", "vectors have no arithmetic"),
    ],
)
def test_what_has_no_meaning_is_rejected(text: str, why: str) -> None:
    more = [lp.GlobalArg("y", cltypes.float2, shape="n"), lp.ValueArg("d", np.float32)]
    with pytest.raises(lp.TypeInferenceFailure, match=why):
        lp.generate_code_v2(program(text, *more, target=lp.OpenCLTarget()))


def test_vectors_of_integers_have_no_quotient() -> None:
    knl = program("z[i] = x[i]/2", dtype=cltypes.int4, target=lp.OpenCLTarget())
    with pytest.raises(lp.TypeInferenceFailure, match="vectors of integers have no quotient"):
        lp.generate_code_v2(knl)


def test_other_languages_have_no_arithmetic_of_vectors() -> None:
    for target in (lp.CTarget(), lp.CudaTarget()):
        with pytest.raises(lp.TypeInferenceFailure, match="vectors have no arithmetic"):
            lp.generate_code_v2(program("z[i] = 2*x[i]", target=target))
