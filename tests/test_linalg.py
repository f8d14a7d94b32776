"""Products of arrays, compared with numpy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kgen as lp
from kgen.linalg import build, einsum, matmul, transpose


def floats(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return np.random.default_rng(6).random(shape).astype(dtype)


@pytest.mark.parametrize("axes", [None, (1, 0, 2), (0, 2, 1), (-1, 0, 1)])
def test_transpose(axes: tuple[int, ...] | None) -> None:
    a = floats(33, 70, 5)[::2]
    np.testing.assert_array_equal(transpose(a, axes), a.transpose(axes))


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((70, 33), (33, 41)),
        ((5, 20, 30), (5, 30, 17)),
        ((5, 1, 2, 3), (4, 3, 7)),
        ((30,), (30, 7)),
        ((7, 30), (30,)),
        ((9,), (9,)),
        ((3, 0), (0, 4)),
        ((600, 3, 4), (600, 4, 2)),
        ((700, 3), (3, 3)),
        ((0, 3), (3, 4)),
    ],
)
def test_matmul(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    a, b = floats(*left), floats(*right)
    found = matmul(a, b)
    assert found.shape == (a @ b).shape
    np.testing.assert_allclose(found, a @ b, rtol=1e-4)


@pytest.mark.parametrize("dtype", ["int32", "float64", "complex64"])
def test_types_strides_and_out(dtype: str) -> None:
    a = (10 * floats(40, 50)).astype(dtype)
    out = np.zeros((20, 20), dtype)
    assert matmul(a[::2], a.T[:, 1::2], out=out) is out
    np.testing.assert_allclose(out, a[::2] @ a.T[:, 1::2], rtol=1e-4)


@pytest.mark.parametrize(
    ("spec", "shapes"),
    [
        ("ij,jk,kl->il", [(9, 10), (10, 11), (11, 12)]),
        ("ii->i", [(6, 6)]),
        ("ij->", [(6, 7)]),
        ("...i,i->...", [(3, 4, 5), (5,)]),
        ("ij,j", [(5, 6), (6,)]),
        ("ab,cb,ad->cd", [(5, 6), (7, 6), (5, 8)]),
    ],
)
def test_einsum(spec: str, shapes: list[tuple[int, ...]]) -> None:
    operands = [floats(*shape) for shape in shapes]
    np.testing.assert_allclose(einsum(spec, *operands), np.einsum(spec, *operands), rtol=1e-4)


def test_on_opencl(opencl_queue: Any) -> None:
    array = pytest.importorskip("pyopencl.array")
    a = floats(50, 60)
    on_device = array.to_device(opencl_queue, a)
    found = matmul(on_device, transpose(on_device))
    np.testing.assert_allclose(found.get(), a @ a.T, rtol=1e-4)


def test_code_for_gpus_uses_shared_memory() -> None:
    knl = lp.autoschedule(build("ij,jk->ik", ["float32", "float32"], lp.CudaTarget()))
    assert "__shared__" in lp.generate_code_v2(knl).device_code()


def test_what_does_not_fit() -> None:
    with pytest.raises(lp.KgenError, match="each axis once"):
        transpose(floats(2, 3), (0, 0))
    with pytest.raises(lp.KgenError, match="2 operands, and 1"):
        einsum("ij,jk", floats(2, 3))
    with pytest.raises(lp.KgenError, match="operand 0 has 2 axes"):
        einsum("i->i", floats(2, 3))
    with pytest.raises(lp.KgenError):
        matmul(floats(2, 3), floats(4, 5))
