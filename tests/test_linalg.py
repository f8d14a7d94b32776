"""Products of arrays, compared with numpy's."""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kgen as lp
from kgen import linalg
from kgen.linalg import build, einsum, matmul, transpose, tune
from kgen.ready import products
from kgen.ready.places import Place
from kgen.tuning.wisdom import load_wisdom


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


@pytest.mark.parametrize("dtype", ["int32", "complex64"])
def test_types_strides_and_out(dtype: str) -> None:
    a = (10 * floats(40, 50)).astype(dtype)
    out = np.zeros((20, 20), dtype)
    assert matmul(a[::2], a.T[:, 1::2], out=out) is out
    np.testing.assert_allclose(out, a[::2] @ a.T[:, 1::2], rtol=1e-4)


@pytest.mark.parametrize(
    ("left", "right", "dtype"),
    [
        ("int8", "int8", "int32"),
        ("float16", "float16", "float32"),
        ("int32", "float32", None),
        ("float32", "complex64", None),
    ],
)
def test_mixed_types(left: str, right: str, dtype: str | None) -> None:
    a, b = (100 * floats(6, 5)).astype(left), (100 * floats(5)).astype(right)
    found, expected = matmul(a, b, dtype=dtype), np.matmul(a, b, dtype=dtype)
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=1e-3)


def test_types_of_results_are_those_of_numpy() -> None:
    names = ["bool", "int8", "uint32", "int64", "float16", "float32", "float64", "complex64"]
    for left, right in itertools.combinations_with_replacement(names, 2):
        knl = build("ij,jk->ik", [left, right], lp.CudaTarget()).default_entrypoint
        assert knl.arg_dict["out"].dtype.numpy_dtype == np.result_type(left, right)


def test_products_of_16_bits_are_summed_up_in_32_bits() -> None:
    code = lp.generate_body(build("ij,j->i", ["float16"] * 2, lp.CudaTarget()))
    assert "acc_j += (float) arg0[(long long) Nj * i + j] * (float) arg1[j]" in code


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
    with pytest.raises(lp.KgenError, match=r"no product of float32 of the type int8"):
        matmul(floats(2, 3), floats(3, 2), dtype=np.int8)
    with pytest.raises(lp.KgenError, match="not a file of records"):
        transpose(floats(2, 3), wisdom=5)
    with pytest.raises(lp.KgenError, match="not a type of numpy"):
        einsum("i->", floats(2), dtype="text")
    with pytest.raises(lp.KgenError, match="not a function of kgen"):
        tune(np.matmul, floats(2, 3), floats(3, 2))


# -- schedules by measurement ----------------------------------------------------------------------


def test_calls_take_what_a_tune_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def untuned(*_: Any) -> None:
        raise AssertionError("the call takes the schedule that was measured")

    a, file = floats(70, 50), tmp_path / "records"
    with ThreadPoolExecutor(1) as executor:
        [result] = tune(transpose, a, records=file, evaluations=1, executor=executor)
    monkeypatch.setattr(linalg, "autoschedule", untuned)
    np.testing.assert_array_equal(transpose(a), a.T)
    monkeypatch.setattr(linalg, "_FOUND", [])
    linalg._summation.cache_clear()
    np.testing.assert_array_equal(transpose(a, wisdom=file), a.T)
    assert load_wisdom(file).records[-1].configuration == result.best.configuration


# -- whole tiles -----------------------------------------------------------------------------------


def test_products_of_whole_tiles_ask_for_no_sizes_on_gpus() -> None:
    tiles = {"b": 128, "c": 16, "d": 128}
    knl = build("abc,acd->abd", ["float32"] * 2, lp.CudaTarget(), multiples=tiles)
    knl = knl.map_kernels(lambda one: one.copy(silenced_warnings=["vectorize_failed*"]))
    body = lp.generate_body(lp.autoschedule(knl))
    assert "arg0_tile" in body
    assert not [line for line in body.split("\n") if "if (" in line and "gid" in line]


@pytest.mark.parametrize(
    ("dtype", "capability", "shape"),
    [("float16", (9, 0), "m64n256k16"), ("float64", (8, 0), "m8n8k4")],
)
def test_tensor_cores(dtype: str, capability: tuple[int, int], shape: str) -> None:
    tiles = {"i": 128, "j": 64, "k": 256}
    target = lp.CudaTarget(capability=capability)
    knl = build("ij,jk->ik", [dtype] * 2, target, multiples=tiles)
    assert f"'{shape}'" in str(lp.find_schedule(knl))


@pytest.fixture
def in_tiles(monkeypatch: pytest.MonkeyPatch, opencl_queue: Any) -> Any:
    """Let arrays be as those of a GPU, and products be none too small for tiles."""
    array = pytest.importorskip("pyopencl.array")
    place = Place(lp.PyOpenCLTarget(), (opencl_queue,), is_gpu=True)
    monkeypatch.setattr(linalg, "find_place", lambda *_: place)
    monkeypatch.setattr(products, "_FEWEST", 1)
    monkeypatch.setattr(products, "_MOST_ZEROS", 1e9)
    return lambda value: array.to_device(opencl_queue, value)


@pytest.mark.parametrize(
    ("spec", "left", "right"),
    [
        ("ij,jk->ik", (128, 16), (16, 64)),
        ("ij,jk->ki", (130, 17), (17, 3)),
        ("bij,bkj->bik", (2, 30, 17), (2, 65, 17)),
        ("aib,bk->kai", (3, 20, 5), (5, 7)),
        ("ij,jk->ik", (3, 4096), (4096, 5)),
    ],
)
def test_products_in_whole_tiles(
    in_tiles: Any, spec: str, left: tuple[int, ...], right: tuple[int, ...]
) -> None:
    a, b = floats(*left), floats(*right)
    found = einsum(spec, in_tiles(a), in_tiles(b))
    np.testing.assert_allclose(found.get(), np.einsum(spec, a, b), rtol=1e-4)


def test_results_that_overlap_operands() -> None:
    a = floats(7, 7)
    expected = a @ a.T
    matmul(a, a.T, out=a)
    np.testing.assert_allclose(a, expected, rtol=1e-5)
    expected = a[1:].T.copy()
    einsum("ij->ji", a[1:], out=a[:, 1:])
    np.testing.assert_array_equal(a[:, 1:], expected)


@pytest.mark.parametrize("shape", [(2, 1, 5, 4), (3, 1, 4, 5)])
def test_the_shape_of_out_is_that_of_the_result(shape: tuple[int, ...]) -> None:
    with pytest.raises(lp.KgenError, match="the shape of out is"):
        matmul(floats(3, 1, 5, 6), floats(6, 4), out=np.zeros(shape, np.float32))


@pytest.mark.parametrize(
    ("spec", "shapes"),
    [
        ("...ij,...jk->...ik", [(2, 2, 3, 4), (2, 4, 5)]),  # the last axis of ... is in both
        ("...ij,...jk->...ik", [(7, 1, 3, 4), (2, 4, 5)]),
        ("ij,j->i", [(3, 1), (4,)]),
        ("...j,j...->...", [(2, 3, 4), (4, 3)]),
    ],
)
def test_einsum_repeats_axes_as_numpy_does(spec: str, shapes: list[tuple[int, ...]]) -> None:
    given = [floats(*shape) for shape in shapes]
    np.testing.assert_allclose(einsum(spec, *given), np.einsum(spec, *given), rtol=1e-4, atol=1e-5)
