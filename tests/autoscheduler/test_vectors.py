"""Schedules for GPUs that access vectors: elementwise operations, stencils in registers."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kgen as lp
from kgen.autoscheduler import vectors
from tests.autoscheduler.test_items import GPU
from tests.autoscheduler.test_threads import pasted, tags
from tests.cuda_host import HostCuda

F32, F64 = np.float32, np.float64


@pytest.fixture
def few_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vectors, "BUSY", 1)


def in_cuda(domain: str, text: str, *arrays: lp.GlobalArg) -> lp.TranslationUnit:
    return lp.make_kernel(domain, text, [*arrays, ...], target=lp.CudaTarget())


def star(radius: int, shape: tuple[int, ...], dtype: Any) -> lp.TranslationUnit:
    """Add up the elements along each axis, in rows with room for vectors at both ends."""
    names = "zyx"[-len(shape) :]
    middle = [f"{name} + {4 if name == 'x' else radius}" for name in names]
    terms = [f"3*u[{', '.join(middle)}]"]
    for axis in range(len(shape)):
        for by in (*range(-radius, 0), *range(1, radius + 1)):
            index = [f"{at} + {by}" if k == axis else at for k, at in enumerate(middle)]
            terms.append(f"{by + axis}*u[{', '.join(index)}]")
    bounds = " and ".join(f"0 <= {name} < {n}" for name, n in zip(names, shape, strict=True))
    padded = (*(n + 2 * radius for n in shape[:-1]), shape[-1] + 8)
    data = lp.GlobalArg("u", dtype, shape=padded), lp.GlobalArg("out", dtype, shape=shape)
    text = f"out[{', '.join(names)}] = {' + '.join(terms)}"
    return in_cuda(f"{{ [{', '.join(names)}]: {bounds} }}", text, *data)


def sums_of_star(u: np.ndarray[Any, Any], radius: int) -> np.ndarray[Any, Any]:
    starts = [radius] * (u.ndim - 1) + [4]
    lengths = [n - 2 * start for n, start in zip(u.shape, starts, strict=True)]

    def moved(axis: int, by: int) -> np.ndarray[Any, Any]:
        at = [start + by * (k == axis) for k, start in enumerate(starts)]
        return u[tuple(slice(one, one + n) for one, n in zip(at, lengths, strict=True))]

    distances = [by for by in range(-radius, radius + 1) if by]
    arms = [(by + axis) * moved(axis, by) for axis in range(u.ndim) for by in distances]
    return sum(arms, 3 * moved(0, 0))


def check_star(knl: lp.TranslationUnit, radius: int, folder: Path) -> None:
    arrays: dict[str, Any] = dict(knl.default_entrypoint.arg_dict)
    given = arrays["u"].dtype.dtype
    u = np.random.default_rng(0).random(arrays["u"].shape).astype(given)
    out = np.zeros(arrays["out"].shape, given)
    assert HostCuda(knl, folder)({"u": u, "out": out}, order="any")
    np.testing.assert_allclose(out, sums_of_star(u, radius), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("dtype", "lanes"), [(F32, 4), (F64, 2), (np.int16, 8)])
def test_elementwise_operations_access_vectors(dtype: Any, lanes: int, tmp_path: Path) -> None:
    data = lp.GlobalArg("x, out", dtype, shape="n")
    knl = in_cuda("{ [i]: 0 <= i < n }", "out[i] = 2*x[i] + 1", data)
    schedule = lp.find_schedule(knl)
    assert f"'i_inner', {lanes}, outer_tag='l.0', inner_tag='vec'" in str(schedule)
    x, out = np.arange(3001).astype(dtype), np.zeros(3001, dtype)
    assert HostCuda(schedule(knl), tmp_path)({"x": x, "out": out, "n": 3001}, order="any")
    np.testing.assert_array_equal(out, 2 * x + 1)


def test_vectors_in_opencl_compute_the_same(opencl_queue: Any) -> None:
    data = [lp.GlobalArg("x, y", F32, shape="n, n"), ...]
    text = "y[i, j] = x[i, j] + 3*y[i, j]"
    domain, sizes = "{ [i, j]: 0 <= i, j < n }", "n >= 4 and n mod 4 = 0"
    target = lp.PyOpenCLTarget()
    knl = lp.make_kernel(domain, text, data, assumptions=sizes, target=target)
    fast = lp.autoschedule(knl, GPU)
    assert "vec" in tags(fast)
    x, y = np.random.default_rng(0).random((2, 100, 100), dtype=F32)
    _, (found,) = fast(opencl_queue, x=x, y=y.copy())
    np.testing.assert_allclose(found, x + 3 * y, rtol=1e-6)


@pytest.mark.parametrize(
    ("domain", "text", "types"),
    [
        ("{ [i]: 0 <= i < n }", "out[i] = x[i]", None),  # a call may have complex numbers
        ("{ [i]: 0 <= i < n }", "out[i] = x[i]", np.complex64),
        ("{ [i]: 0 <= i < 4096 }", "out[i] = x[i]", F32),  # too few for a device
        ("{ [i]: 0 <= i < n }", "out[i] = x[i + 1]", F32),
        ("{ [i]: 1 <= i < n }", "out[i] = x[i]", F32),
        ("{ [i]: 0 <= i < n }", "out[i + 1] = x[i] + out[i + 1 + n]", F32),
        ("{ [i, j]: 0 <= i, j < n }", "out[i, j] = x[i, j]", F32),  # rows begin anywhere
        ("{ [i, j]: 0 <= i, j < n }", "out[i, j] = x[i, j] + x[i + 1, j]", F32),
        ("{ [i]: 0 <= i < n }", "out[i] = x[i] {if=x[i] > 0}", F32),
    ],
)
def test_other_accesses_stay_single(domain: str, text: str, types: Any) -> None:
    arrays = [lp.GlobalArg("x, out", types, shape=lp.auto)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "(?s).*the schedule suits arguments of any type")
        fast = lp.autoschedule(in_cuda(domain, text, *arrays))
        lp.generate_code_v2(lp.add_dtypes(fast, {"x": F64}) if types is None else fast)
    assert "l.0" in tags(fast)
    assert "vec" not in tags(fast)


@pytest.mark.parametrize(
    ("radius", "shape", "dtype"),
    [(2, (19, 200), F32), (1, (9, 100), F64)],
)
def test_stencils_in_the_plane_read_vectors_of_rows(
    radius: int, shape: tuple[int, ...], dtype: Any, tmp_path: Path, few_groups: None
) -> None:
    knl = star(radius, shape, dtype)
    schedule = lp.find_schedule(knl)
    assert "'u_near'" in str(schedule)
    assert pasted(knl, str(schedule)) == schedule(knl)
    check_star(schedule(knl), radius, tmp_path)


@pytest.mark.parametrize(("radius", "shape"), [(1, (16, 16, 128)), (2, (8, 10, 100))])
def test_stencils_in_space_read_columns(
    radius: int, shape: tuple[int, ...], tmp_path: Path, few_groups: None
) -> None:
    knl = star(radius, shape, F32)
    schedule = str(lp.find_schedule(knl))
    assert "'z', 8, outer_tag='g.2', inner_tag='unr'" in schedule
    assert "'u_z'" in schedule
    check_star(pasted(knl, schedule), radius, tmp_path)


def test_columns_of_wide_stencils_stay_in_registers(tmp_path: Path, few_groups: None) -> None:
    radius = 2
    knl = star(radius, (16, 32, 128), F64)
    schedule = str(lp.find_schedule(knl))
    assert "window='z_inner'" in schedule
    assert "async_copy" in schedule
    check_star(pasted(knl, schedule), radius, tmp_path)


def test_tiles_of_wide_stencils_fit_the_device() -> None:
    knl = star(4, (512, 512, 512), F32)
    targets = [lp.CudaTarget(capability=one) for one in (None, (9, 0))]
    text = [str(lp.find_schedule(knl, target)) for target in targets]
    rows = [next(n for n in (8, 16, 32) if f"'y', {n}," in one) for one in text]
    assert rows == [16, 32]


def test_reads_of_other_arrays_stay_as_they_are() -> None:
    at = ["z, y+1, x+4", "z+2, y+1, x+4", "z+1, y, x+4", "z+1, y+2, x+4", "z+1, y+1, x+5"]
    text = "out[z, y, x] = out[z, y, x] + c[z, y, x]*(" + " + ".join(f"u[{i}]" for i in at) + ")"
    u = lp.GlobalArg("u", F32, shape=(514, 514, 520))
    rest = lp.GlobalArg("c, out", F32, shape=(512, 512, 512))
    schedule = str(lp.find_schedule(in_cuda("{ [z, y, x]: 0 <= z, y, x < 512 }", text, u, rest)))
    assert "'u_z'" in schedule
    assert "'c'" not in schedule
