"""Calls of kernels on a CUDA device, with code written by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kgen.errors import CodegenError, InvocationError
from kgen.ir.target import TargetBase
from kgen.targets.module import Launch, Module
from tests.runtime.handmade import Dtypes, array, module, program, value

drv = pytest.importorskip("pycuda.driver")
gpuarray = pytest.importorskip("pycuda.gpuarray")
pytestmark = pytest.mark.usefixtures("cuda_context")


class DeviceTarget(TargetBase):
    runtime_module = "kgen.runtime.cuda"


TWICE = """
extern "C" __global__ void __launch_bounds__(4) f(TYPE const *a, int n, TYPE *out)
{
  int i = blockIdx.x * 4 + threadIdx.x;
  if (i < n)
    out[i] = 2 * a[i];
}
"""
C_NAMES = {"float32": "float", "int32": "int"}
A = np.arange(5, dtype=np.float32)


def twice(dtypes: Dtypes) -> Module:
    """Return ``out[i] = 2*a[i]`` for the type of ``a``, in groups of 4."""
    dtype = dtypes["a"]
    return module(
        TWICE.replace("TYPE", C_NAMES[dtype.name]),
        array("a", dtype, "n"),
        value("n"),
        array("out", dtype, "n", "out"),
        groups="(n + 3) // 4",
        local=(4,),
    )


@pytest.fixture
def knl(monkeypatch: pytest.MonkeyPatch) -> Any:
    return program(DeviceTarget(), twice, monkeypatch, untyped=("a", "out"))


def refusal(knl: Any, **arguments: Any) -> str:
    """Return the message of the error that a call raises."""
    with pytest.raises(InvocationError) as caught:
        knl(**arguments)
    return str(caught.value)


def test_device_arrays(knl: Any) -> None:
    a = gpuarray.to_gpu(A)
    evt, (out,) = knl(a=a)
    evt.synchronize()
    assert isinstance(out, gpuarray.GPUArray)
    np.testing.assert_array_equal(out.get(), 2 * A)
    other = gpuarray.zeros_like(a)
    assert knl(a=out, out=other, n=5)[1][0] is other
    np.testing.assert_array_equal(other.get(), 4 * A)
    np.testing.assert_array_equal(knl(a=a[2:])[1][0].get(), 2 * A[2:])


def test_calls_without_an_event(knl: Any) -> None:
    event, (out,) = knl(a=gpuarray.to_gpu(A), no_event=True)
    assert event is None
    np.testing.assert_array_equal(out.get(), 2 * A)
    np.testing.assert_array_equal(knl(a=A, no_event=True)[1][0], 2 * A)


def test_numpy_arrays(knl: Any) -> None:
    filled = np.empty_like(A)
    assert knl(a=A, out=filled)[1][0] is filled
    np.testing.assert_array_equal(filled, 2 * A)
    assert isinstance(knl(a=A)[1][0], np.ndarray)
    assert isinstance(knl(a=A, out_host=False)[1][0], gpuarray.GPUArray)
    assert isinstance(knl(a=gpuarray.to_gpu(A), out_host=True)[1][0], np.ndarray)


def test_each_type_has_its_code(knl: Any) -> None:
    for dtype in (np.float32, np.int32, np.float32):
        _, (out,) = knl(a=A.astype(dtype))
        assert out.dtype == dtype
        np.testing.assert_array_equal(out, 2 * A)


def test_empty_arrays(knl: Any) -> None:
    assert knl(a=A[:0])[1][0].shape == (0,)
    assert knl(a=gpuarray.empty(0, np.float32))[1][0].shape == (0,)


def test_unfit_arguments(knl: Any) -> None:
    for _ in range(2):
        assert "'a' is missing" in refusal(knl, n=5)
        assert "no argument 'b'" in refusal(knl, a=A, b=A)
        assert "'out' has shape (6,)" in refusal(knl, a=A, out=np.zeros(6, np.float32))
        assert "'a' has strides" in refusal(knl, a=gpuarray.to_gpu(A)[::2])
        knl(a=A)


def test_streams_and_allocators(knl: Any) -> None:
    sizes: list[int] = []

    def allocate(n_bytes: int) -> Any:
        sizes.append(n_bytes)
        return drv.mem_alloc(n_bytes)

    stream = drv.Stream()
    evt, (out,) = knl(a=gpuarray.to_gpu(A), stream=stream, allocator=allocate)
    evt.synchronize()
    assert sizes == [A.nbytes]
    np.testing.assert_array_equal(out.get(), 2 * A)


def test_numbers_of_all_kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    source = """
    #include <cuda/std/complex>
    extern "C" __global__ void f(float x, double y, cuda::std::complex<float> z, signed char b,
                                 cuda::std::complex<double> w, unsigned long long u, bool t,
                                 short s, double *out)
    {
      out[0] = x; out[1] = y; out[2] = z.real(); out[3] = z.imag(); out[4] = w.real();
      out[5] = w.imag(); out[6] = b; out[7] = u; out[8] = t; out[9] = s;
    }
    """
    kinds = {"x": "f4", "y": "f8", "z": "c8", "b": "i1", "w": "c16", "u": "u8", "t": "?", "s": "i2"}
    values = [value(name, kind) for name, kind in kinds.items()]
    made = module(source, *values, array("out", "f8", "10", "out"))
    knl = program(DeviceTarget(), made, monkeypatch)
    given = {"x": 0.5, "y": 1, "z": 2 - 3j, "b": -7, "w": 4 + 5j, "u": 2**53, "t": True, "s": -300}
    expected = [0.5, 1, 2, -3, 4, 5, -7, 2**53, 1, -300]
    np.testing.assert_array_equal(knl(**given)[1][0].get(), expected)


def test_temporaries_and_several_launches(monkeypatch: pytest.MonkeyPatch) -> None:
    source = """
    extern "C" __global__ void f0(int const *a, int n, int *t)
    { t[blockIdx.x] = a[blockIdx.x] + 1; }
    extern "C" __global__ void f1(int const *t, int n, int *out)
    { out[blockIdx.x] = t[n - 1 - blockIdx.x]; }
    """
    grid = array("grid", "i4", "n").shape or ()
    made = module(
        source,
        array("a", "i4", "n"),
        value("n"),
        array("t", "i4", "n", "inout", is_temporary=True),
        array("out", "i4", "n", "out"),
        launches=(
            Launch("f0", ("a", "n", "t"), grid, (1,)),
            Launch("f1", ("t", "n", "out"), grid, (1,)),
        ),
    )
    a = np.arange(1000, dtype=np.int32)
    _, (out,) = program(DeviceTarget(), made, monkeypatch)(a=a)
    np.testing.assert_array_equal(out, a[::-1] + 1)


def test_padded_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    source = """
    extern "C" __global__ void f(double *out, int n)
    { for (int i = 0; i < n; ++i) for (int j = 0; j < 3; ++j) out[4*i + j] = 10*i + j; }
    """
    made = module(source, array("out", "f8", "n,3", "out", strides="4,1"), value("n"))
    knl = program(DeviceTarget(), made, monkeypatch)
    expected = 10 * np.arange(2)[:, None] + np.arange(3)
    memory = np.full((2, 4), -1.0)
    knl(n=2, out=memory[:, :3])
    np.testing.assert_array_equal(memory[:, :3], expected)
    assert (memory[:, 3] == -1).all()
    np.testing.assert_array_equal(knl(n=2, out_host=True)[1][0], expected)


def test_groups_that_are_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    made = module('extern "C" __global__ void f(int n) {}', value("n"), groups="n", local=(2**12,))
    with pytest.raises(CodegenError, match="too large for the device"):
        program(DeviceTarget(), made, monkeypatch)(n=1)
