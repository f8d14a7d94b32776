"""Elementwise kernels: types, layouts, ranges, devices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kgen as lp
from kgen.elementwise import ElementwiseKernel

TYPES = {
    "bool": "bool", "char": "int8", "uchar": "uint8", "short": "int16", "ushort": "uint16",
    "int": "int32", "uint": "uint32", "long": "int64", "ulong": "uint64", "float": "float32",
    "double": "float64", "cfloat_t": "complex64", "cdouble_t": "complex128",
}  # fmt: skip


def axpy(**more: Any) -> ElementwiseKernel:
    return ElementwiseKernel(
        "float a, float *x, float *y, float *z", "z[i] = a*x[i] + y[i]", **more
    )


def floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(7).normal(size=shape).astype(np.float32)


def test_all_types_in_one_kernel() -> None:
    arguments = ", ".join(f"{c} *x{k}, {c} *y{k}" for k, c in enumerate(TYPES))
    knl = ElementwiseKernel(
        arguments, "; ".join(f"y{k}[i] = x{k}[i] + x{k}[i]" for k in range(len(TYPES)))
    )
    given = [np.arange(5).astype(dtype) for dtype in TYPES.values()]
    found = [np.zeros_like(x) for x in given]
    knl(*(array for pair in zip(given, found, strict=True) for array in pair))
    for x, y in zip(given, found, strict=True):
        np.testing.assert_array_equal(y, x + x)


@pytest.mark.parametrize("shape", [(0,), (1,), (100001,), (3, 0), (33, 65), ()])
def test_shapes(shape: tuple[int, ...]) -> None:
    x, y = floats(*shape).reshape(shape), floats(*shape).reshape(shape)
    z = np.zeros_like(x)
    KERNEL(2, x, y, z)
    np.testing.assert_array_equal(z, np.float32(2) * x + y)


KERNEL = axpy()


def test_strides_of_any_kind() -> None:
    a, b, c = floats(6, 8, 10), floats(6, 8, 10), np.zeros((6, 8, 10), np.float32)
    views: list[Callable[[Any], Any]] = [
        lambda v: v[::2, 1:5, ::-1],
        lambda v: v[0, :, 3],
        lambda v: v[:, 2].T,
    ]
    for view in views:
        c[...] = 0
        KERNEL(2, view(a), view(b).copy(), view(c))
        np.testing.assert_array_equal(view(c), 2 * view(a) + view(b))


def test_fortran_order_is_not_mixed_up() -> None:
    x, z = np.asfortranarray(floats(3, 4)), np.zeros((3, 4), np.float32)
    KERNEL(1, x, np.zeros((3, 4), np.float32), z)
    np.testing.assert_array_equal(z, x)


def test_an_array_may_be_input_and_output() -> None:
    x = floats(100)
    expected = 3 * x
    KERNEL(2, x, x, x)
    np.testing.assert_array_equal(x, expected)


@pytest.mark.parametrize("part", [slice(3, 40), slice(90, 10, -7), slice(5, 5), slice(None, 70, 3)])
def test_ranges_and_slices(part: slice) -> None:
    x, z = floats(100), np.zeros(100, np.float32)
    expected = z.copy()
    expected[part] = 2 * x[part]
    ranged = slice(*part.indices(100))
    for given in ({"range": ranged}, {"slice": part}):
        z[:] = 0
        KERNEL(2, x, np.zeros(100, np.float32), z, **given)
        np.testing.assert_array_equal(z, expected)


def test_the_index_and_the_size() -> None:
    y = np.zeros((2, 3), np.float64)
    ElementwiseKernel("double *y", "y[i] = i + 100*n")(y.T)
    np.testing.assert_array_equal(y.T.ravel(order="K"), 600 + np.arange(6))
    ElementwiseKernel("double *y", "y[i] = i")(y[:, :2])
    np.testing.assert_array_equal(y[:, :2], [[0, 1], [2, 3]])


def test_elements_other_than_the_own() -> None:
    x, z = floats(50), np.zeros(49, np.float32)
    ElementwiseKernel("float *z, float *x", "z[i] = x[i+1] - x[i]")(z, x)
    np.testing.assert_array_equal(z, np.diff(x))
    order = np.random.default_rng(1).permutation(49).astype(np.int32)
    y = np.zeros_like(z)
    ElementwiseKernel("float *z, float *y, int *k", "y[k[i]] = z[i]")(z, y, order)
    np.testing.assert_array_equal(y[order], z)


@pytest.mark.parametrize("part", [slice(None, None, 2), slice(None, None, -1), slice(3, 4)])
def test_elements_other_than_the_own_of_views(part: slice) -> None:
    x = floats(101)[part]
    differences = ElementwiseKernel("float *d, float *x", "d[i] = x[i+1] - x[i]")
    out = np.zeros((2, len(x) - 1), np.float32)[1]
    differences(out, x)
    np.testing.assert_array_equal(out, np.diff(x))
    with pytest.raises(lp.KgenError, match=r"'x' has gaps.*\n.*x.copy\(\)"):
        differences(out, floats(101)[::2], range=slice(0, 3))


def test_elements_that_other_indices_write_are_rejected() -> None:
    knl = ElementwiseKernel("float *x", "x[i] = x[i+1]")
    with pytest.raises(lp.KgenError, match=r"x"):
        knl(floats(50000))


def test_a_context_and_lists_of_arguments_as_in_pyopencl(opencl_queue: Any) -> None:
    tools = pytest.importorskip("pyopencl.tools")
    array = pytest.importorskip("pyopencl.array")
    arguments = [tools.VectorArg(np.float32, "x"), tools.ScalarArg(np.float32, "a")]
    knl = ElementwiseKernel(opencl_queue.context, arguments, "x[i] *= a", name="scale")
    x = floats(1000)
    on_device = array.to_device(opencl_queue, x)
    event = knl(on_device, 2, queue=opencl_queue, wait_for=[])
    event.wait()
    np.testing.assert_array_equal(on_device.get(), 2 * x)
    knl(on_device[::3], 2)
    np.testing.assert_array_equal(on_device.get()[::3], 4 * x[::3])


@pytest.mark.parametrize("rank", [1, 3])
def test_the_schedule_of_gpus(opencl_queue: Any, rank: int) -> None:
    x = floats(7, 33, 300).reshape((7, 33, 300) if rank == 3 else -1)
    knl = axpy().build(lp.PyOpenCLTarget(), rank=rank, group_size=64)
    _, (z,) = knl(opencl_queue, a=2, x=x, y=x)
    np.testing.assert_array_equal(z, 3 * x)


def test_large_arrays_are_indexed_in_64_bits() -> None:
    code = lp.generate_code_v2(axpy().build(lp.CudaTarget(), index_dtype=np.int64)).device_code()
    assert "long long const n" in code
    assert "(long long) gid(x)" in code


def test_calls_that_do_not_fit() -> None:
    x = floats(10)
    with pytest.raises(lp.KgenError, match="one for each of: a, x, y, z"):
        KERNEL(2, x)
    with pytest.raises(lp.KgenError, match=r"y\[9\] at i = 9"):
        KERNEL(2, x, x[:9].copy(), x.copy())
    with pytest.raises(lp.KgenError, match="float64"):
        KERNEL(2, x, x.astype(np.float64), x.copy())
    with pytest.raises(lp.KgenError, match="'list'"):
        KERNEL(2, [1, 2], x, x.copy())
    with pytest.raises(lp.KgenError, match="'i'"):
        ElementwiseKernel("float *i", "i[i] = 1")
    with pytest.raises(lp.KgenError, match="no array"):
        ElementwiseKernel("float x", "")


@pytest.mark.parametrize("part", [slice(0, 10), slice(-1, 3), slice(0, 5, 0), slice(None), 3])
def test_ranges_stay_inside_the_arrays(part: Any) -> None:
    x = floats(5)
    with pytest.raises(lp.KgenError, match=r"does not select indices|contains index"):
        KERNEL(2, x, x.copy(), x.copy(), range=part)
    KERNEL(2, x, x.copy(), x.copy(), range=slice(9, 9))


def test_slices_stay_inside_shorter_arrays() -> None:
    x = floats(5)
    with pytest.raises(lp.KgenError, match=r"'z' has 4 elements.*\n.*z\[4\] at i = 4"):
        KERNEL(2, x, x.copy(), np.zeros(4, np.float32), slice=slice(None))
