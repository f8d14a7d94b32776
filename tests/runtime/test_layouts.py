"""Arrays of any strides and offsets: the code follows them, nothing is copied."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kgen as lp


def matrix(target: lp.TargetBase | None = None) -> lp.TranslationUnit:
    return lp.make_kernel(
        "{[i, j]: 0 <= i < n and 0 <= j < m}", "out[i, j] = 2*a[i, j]", target=target
    )


VIEWS: dict[str, Any] = {
    "transposed": lambda x: x.T,
    "strided": lambda x: x[::2, ::3],
    "reversed": lambda x: x[::-1, ::-1],
    "inner": lambda x: x[1:5, 2:6],
    "broadcast": lambda x: np.broadcast_to(x[0], (3, x.shape[1])),
}


@pytest.mark.parametrize("view", VIEWS)
def test_views_as_inputs_on_the_host(view: str) -> None:
    a = VIEWS[view](np.random.default_rng(1).random((8, 9)))
    _, (out,) = matrix(lp.ExecutableCTarget())(a=a)
    assert (out == 2 * a).all()


@pytest.mark.parametrize("view", ["transposed", "strided", "reversed", "inner"])
def test_views_as_outputs_are_written_through(view: str) -> None:
    whole = np.zeros((8, 9))
    out = VIEWS[view](whole)
    a = np.random.default_rng(2).random(out.shape)
    matrix(lp.ExecutableCTarget())(a=a, out=out)
    assert (VIEWS[view](whole) == 2 * a).all()
    assert np.count_nonzero(whole) == out.size


@pytest.mark.parametrize("view", VIEWS)
def test_numpy_views_on_opencl(view: str, device: Any) -> None:
    a = VIEWS[view](np.random.default_rng(3).random((8, 9)))
    _, (out,) = device(matrix(), a=a)
    assert (out == 2 * a).all()


def test_parts_of_device_arrays(opencl_queue: Any) -> None:
    array = pytest.importorskip("pyopencl.array")
    x = np.arange(20.0)
    whole = array.to_device(opencl_queue, x)
    knl = lp.make_kernel("{[i]: 0 <= i < n}", "out[i] = 2*a[i]")
    _, (out,) = knl(opencl_queue, a=whole[4:])
    assert (out.get() == 2 * x[4:]).all()
    _, (out,) = knl(opencl_queue, a=whole[3::2])
    assert (out.get() == 2 * x[3::2]).all()


def test_the_usual_layout_stays_the_first_choice() -> None:
    ex = matrix(lp.ExecutableCTarget()).executor()
    a = np.random.default_rng(4).random((6, 7))
    for x in (a, a.T, a, a.T):
        _, (out,) = ex(a=x)
        assert (out == 2 * x).all()


def test_a_wrong_shape_is_still_refused() -> None:
    knl = matrix(lp.ExecutableCTarget())
    with pytest.raises(lp.InvocationError, match="argument 'out' has shape"):
        knl(a=np.zeros((4, 5)).T, out=np.zeros((4, 5)))


@pytest.mark.usefixtures("cuda_context")
@pytest.mark.parametrize("part", [slice(4, None), slice(3, None, 2)])
def test_parts_of_cuda_arrays(part: slice) -> None:
    gpuarray = pytest.importorskip("pycuda.gpuarray")
    x = np.arange(20.0)
    whole = gpuarray.to_gpu(x)
    knl = lp.make_kernel("{[i]: 0 <= i < n}", "out[i] = 2*a[i]", target=lp.PyCudaTarget())
    _, (out,) = knl(a=whole[part])
    assert (out.get() == 2 * x[part]).all()


@pytest.mark.usefixtures("cuda_context")
@pytest.mark.parametrize("view", ["transposed", "strided", "inner"])
def test_numpy_views_on_cuda(view: str) -> None:
    a = VIEWS[view](np.random.default_rng(5).random((8, 9)))
    _, (out,) = matrix(lp.PyCudaTarget())(a=a)
    assert (out == 2 * a).all()


@pytest.mark.parametrize("view", VIEWS)
def test_arrays_without_a_shape_have_no_gaps(view: str) -> None:
    data = [lp.GlobalArg("a", np.float64, shape=None), lp.GlobalArg("b", np.float64, shape=4)]
    knl = lp.make_kernel("{ [i]: 0 <= i < 4 }", "b[i] = a[i]", data, target=lp.ExecutableCTarget())
    whole = np.arange(72.0).reshape(8, 9)
    assert (knl(a=whole)[1][0] == np.arange(4)).all()
    if view == "transposed":
        assert (knl(a=whole.T)[1][0] == np.arange(4)).all()
    else:
        with pytest.raises(lp.InvocationError, match="argument 'a' has gaps"):
            knl(a=VIEWS[view](whole))
