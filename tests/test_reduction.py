"""Reductions: operations, types, axes, layouts, devices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kgen as lp
from kgen.ready.places import Place
from kgen.reduction import ReductionKernel

TOTAL = ReductionKernel(np.float64, "0", "a+b", "x[i]", "float *x")


def floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(3).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("size", [0, 1, 63, 64, 100003])
def test_sizes(size: int) -> None:
    x = floats(size)
    result = TOTAL(x)
    assert result.shape == ()
    np.testing.assert_allclose(result, x.sum(dtype=np.float64), atol=1e-10)


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int64", "float32", "complex64", "complex128"])
def test_types(dtype: str) -> None:
    x = (floats(999) * 10).astype(dtype)
    arguments = [lp.GlobalArg("x", np.dtype(dtype), shape="n")]
    knl = ReductionKernel(np.dtype(dtype), "0", "a+b", arguments=arguments)
    np.testing.assert_allclose(knl(x), x.sum(dtype=dtype), rtol=1e-3)


@pytest.mark.parametrize(
    ("reduce_expr", "neutral", "expected"),
    [
        ("max(a, b)", "INT_MIN", np.max),
        ("a < b ? a : b", "INT_MAX", np.min),
        ("a | b", "0", np.bitwise_or.reduce),
        ("a * b", "1", np.prod),
    ],
)
def test_operations(reduce_expr: str, neutral: str, expected: Any) -> None:
    x = np.random.default_rng(1).integers(-50, 50, 1000).astype(np.int32)
    knl = ReductionKernel(np.int32, neutral, reduce_expr, arguments="int *x")
    assert knl(x) == expected(x)
    assert knl(x[:0]) == {"INT_MIN": -(2**31), "INT_MAX": 2**31 - 1}.get(
        neutral, int(neutral[0] == "1")
    )


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1)])
def test_along_an_axis(axis: int, order: tuple[int, ...]) -> None:
    x = floats(5, 37, 50).transpose(order)[:, ::2]
    np.testing.assert_allclose(TOTAL(x, axis=axis), x.sum(axis, dtype=np.float64), atol=1e-10)


def test_strides_ranges_and_out() -> None:
    x, out = floats(40, 50), np.zeros(4)
    np.testing.assert_allclose(TOTAL(x[::2, 5:9]), x[::2, 5:9].sum(dtype=np.float64))
    line = x.reshape(-1)
    np.testing.assert_allclose(TOTAL(line, range=slice(7, 99)), line[7:99].sum(dtype=np.float64))
    result = TOTAL(line, slice=slice(-9, 2, -5), out=out[2:3])
    np.testing.assert_allclose(out, [0, 0, line[-9:2:-5].sum(dtype=np.float64), 0])
    assert np.shares_memory(result, out)


def test_on_opencl_as_in_pyopencl(opencl_queue: Any) -> None:
    array = pytest.importorskip("pyopencl.array")
    dot = ReductionKernel(
        opencl_queue.context, np.float32, neutral="0", reduce_expr="a+b",
        map_expr="x[i]*y[i]", arguments="__global const float *x, __global const float *y",
    )  # fmt: skip
    x = floats(50000)
    on_device = array.to_device(opencl_queue, x)
    result, event = dot(on_device, on_device, return_event=True)
    event.wait()
    np.testing.assert_allclose(result.get(), (x * x).sum(dtype=np.float64), rtol=1e-5)


@pytest.mark.parametrize("along", ["rows", "columns"])
def test_the_schedule_of_gpus(opencl_queue: Any, along: str) -> None:
    x = floats(9, 300, 1 if along == "rows" else 70)
    knl = TOTAL.build(lp.PyOpenCLTarget(), along=along, group_size=64)
    _, (out,) = knl(opencl_queue, x=x)
    np.testing.assert_allclose(out, x.sum(1, dtype=np.float64), atol=1e-10)
    knl = TOTAL.build(lp.PyOpenCLTarget(), group_size=64, groups=16)
    _, (out,) = knl(opencl_queue, x=x.reshape(-1))
    np.testing.assert_allclose(out, x.sum(dtype=np.float64), atol=1e-10)


@pytest.mark.parametrize("size", [1, 1023, 16384, 65536, 65537])
def test_one_group_of_gpus_and_several(
    size: int, opencl_queue: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    array = pytest.importorskip("pyopencl.array")
    place = Place(lp.PyOpenCLTarget(), (opencl_queue,), is_gpu=True)
    monkeypatch.setattr("kgen.ready.passed.find_place", lambda *_: place)
    x = np.arange(size, dtype=np.int32) % 7
    total = ReductionKernel(np.int32, "0", "a+b", arguments="int *x")
    assert total(array.to_device(opencl_queue, x)).get() == x.sum()
    assert total(array.to_device(opencl_queue, -x)).get() == -x.sum()


def test_calls_that_do_not_fit() -> None:
    with pytest.raises(lp.KgenError, match="no axis 3"):
        TOTAL(floats(2, 3, 4), axis=3)
    with pytest.raises(lp.KgenError, match="'c'"):
        ReductionKernel(np.float32, "0", "a+c", arguments="float *x")
    with pytest.raises(lp.KgenError, match="other than x"):
        ReductionKernel(np.float32, "0", "a+b", "x[2*i]", "float *x")(floats(2, 2), axis=0)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_along_an_axis_into_an_array_of_another_layout(axis: int, opencl_queue: Any) -> None:
    cla = pytest.importorskip("pyopencl.array")
    total = ReductionKernel(np.int32, "0", "a+b", arguments="int *x")
    x = np.arange(60, dtype=np.int32).reshape(3, 4, 5)
    expected = x.sum(axis)
    for out in (np.zeros_like(expected, np.int32, order="F"), np.zeros((8, 10), np.int32)):
        part = out if out.shape == expected.shape else out[tuple(slice(n) for n in expected.shape)]
        assert total(x, axis=axis, out=part) is part
        np.testing.assert_array_equal(part, expected)
    found = cla.zeros(opencl_queue, expected.shape, np.int32, order="F")
    total(cla.to_device(opencl_queue, x), axis=axis, out=found)
    np.testing.assert_array_equal(found.get(), expected)
    with pytest.raises(lp.KgenError, match="the shape of out is"):
        total(x, axis=axis, out=np.zeros(expected.size, np.int32))
    with pytest.raises(lp.KgenError, match=r"axis=\(0, 1\) is not one axis"):
        total(x, axis=(0, 1))
