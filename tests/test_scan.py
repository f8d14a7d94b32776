"""Scans: operations, segments, output statements, axes, devices."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kgen as lp
from kgen.scan import (
    ExclusiveScanKernel,
    GenericDebugScanKernel,
    GenericScanKernel,
    InclusiveScanKernel,
)
from tests.cuda_host import HostCuda

SUM = InclusiveScanKernel(np.int32, "a+b")
BEFORE = ExclusiveScanKernel(np.int32, "a+b", "0")
SEGMENTED = GenericScanKernel(
    np.int32, "int *x, char *s, int *out, int *prev", "x[i]",
    "across_seg_boundary ? b : a+b", "0", "out[i] = item; prev[i] = prev_item;",
    is_segment_start_expr="s[i]",
)  # fmt: skip


def integers(*shape: int) -> np.ndarray:
    return np.random.default_rng(2).integers(-90, 90, shape).astype(np.int32)


@pytest.mark.parametrize("size", [0, 1, 2, 1000, 100003])
def test_sizes(size: int) -> None:
    x = integers(size)
    np.testing.assert_array_equal(SUM(x), np.cumsum(x))
    np.testing.assert_array_equal(BEFORE(x), np.cumsum(x) - x)


def test_one_group_runs_a_scan_for_debugging() -> None:
    knl = GenericDebugScanKernel(np.int32, "int *x, int *out", "x[i]", "a+b", "0", "out[i] = item")
    x, out = integers(100_003), np.zeros(100_003, np.int32)
    knl(x, out)
    np.testing.assert_array_equal(out, np.cumsum(x))
    (options,) = [dict(key[2:]) for key in knl._executors]
    assert options["in_one_group"]


def test_an_operation_that_does_not_commute() -> None:
    # The last one that is not zero.
    x = integers(50000) * (integers(50000) > 60)
    found = InclusiveScanKernel(np.int32, "b != 0 ? b : a", "0")(x)
    at = np.maximum.accumulate(np.where(x != 0, np.arange(len(x)), 0))
    np.testing.assert_array_equal(found, x[at])


@pytest.mark.parametrize("dtype", ["int8", "uint64", "float64", "complex64"])
def test_types(dtype: str) -> None:
    x = np.random.default_rng(2).integers(0, 3, 40000).astype(dtype)
    expected = np.cumsum(x, dtype=dtype)
    np.testing.assert_allclose(InclusiveScanKernel(dtype, "a+b", neutral="0")(x), expected)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_along_an_axis(axis: int) -> None:
    x = integers(4, 50, 37)[:, ::2]
    np.testing.assert_array_equal(SUM(x, axis=axis), np.cumsum(x, axis))
    np.testing.assert_array_equal(BEFORE(x, axis=axis), np.cumsum(x, axis) - x)


def test_in_place_and_into_views() -> None:
    x = integers(50000)
    expected, copy, wide = np.cumsum(x), x.copy(), np.zeros(100000, np.int32)
    assert SUM(copy, copy) is copy
    np.testing.assert_array_equal(copy, expected)
    SUM(x, wide[::2])
    np.testing.assert_array_equal(wide[::2], expected)


def segments(x: np.ndarray, starts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    total = np.cumsum(x)
    first = np.maximum.accumulate(np.where(starts, np.arange(len(x)), 0))
    item = total - total[first] + x[first]
    return item, item - x


@pytest.mark.parametrize("size", [1, 700, 70001])
def test_segments(size: int) -> None:
    x, starts = integers(size), (integers(size) > 80).astype(np.int8)
    out, prev = np.zeros((2, size), np.int32)
    SEGMENTED(x, starts, out, prev)
    expected = segments(x, starts)
    np.testing.assert_array_equal(out, expected[0])
    np.testing.assert_array_equal(prev, expected[1])


def test_the_output_statement_may_overwrite_the_input() -> None:
    knl = GenericScanKernel(
        np.int32, arguments="int *ary", input_expr="ary[i]", scan_expr="a+b", neutral="0",
        output_statement="ary[i+1] = item;",
    )  # fmt: skip
    a = integers(1001)
    expected = np.concatenate([a[:1], np.cumsum(a[:-1])])
    knl(a, size=1000)
    np.testing.assert_array_equal(a, expected)


def test_last_item_and_fetched_values() -> None:
    knl = GenericScanKernel(
        np.int32, "int *x, int *out", "now - before", "a+b", "0", "out[i] = last_item - item;",
        input_fetch_exprs=[("now", "x", 0), ("before", "x", -1)],
    )  # fmt: skip
    x = integers(300)
    out = np.zeros_like(x)
    knl(x, out)
    np.testing.assert_array_equal(out, x[-1] - x)


def test_on_opencl_as_in_pyopencl(opencl_queue: Any) -> None:
    array = pytest.importorskip("pyopencl.array")
    x = integers(100001)
    on_device = array.to_device(opencl_queue, x)
    knl = InclusiveScanKernel(opencl_queue.context, np.int32, "a+b")
    assert knl(on_device) is on_device
    np.testing.assert_array_equal(on_device.get(), np.cumsum(x))


def test_the_schedule_of_gpus(opencl_queue: Any) -> None:
    x, starts = integers(5000), (integers(5000) > 80).astype(np.int8)
    expected = segments(x, starts)
    for alone in (False, True):
        knl = SEGMENTED.build(
            lp.PyOpenCLTarget(), group_size=32, items=5, turns=2, in_one_group=alone
        )
        _, (out, prev) = knl(opencl_queue, x=x, s=starts)
        np.testing.assert_array_equal(out, expected[0])
        np.testing.assert_array_equal(prev, expected[1])


@pytest.mark.parametrize("alone", [False, True])
def test_results_in_separate_memory_on_gpus(alone: bool, opencl_queue: Any) -> None:
    given: dict[str, Any] = {"group_size": 32, "items": 5, "turns": 2, "in_one_group": alone}
    knl = SUM.build(lp.PyOpenCLTarget(), stores_results=True, **given)
    x = integers(500)
    _, (found,) = knl(opencl_queue, input_ary=x, output_ary=np.zeros_like(x))
    np.testing.assert_array_equal(found, np.cumsum(x))


def test_operations_in_order_on_gpus(opencl_queue: Any) -> None:
    x = integers(4607)
    given: dict[str, Any] = {"group_size": 16, "items": 3, "turns": 8}
    above = InclusiveScanKernel(np.int32, "b > 50 ? b : a")
    _, (found,) = above.build(lp.PyOpenCLTarget(), **given)(opencl_queue, input_ary=x)
    at = np.maximum.accumulate(np.where(x > 50, np.arange(len(x)), 0))
    np.testing.assert_array_equal(found, x[at])
    with pytest.raises(lp.KgenError, match="assum"):
        above.build(lp.PyOpenCLTarget(), **given)(opencl_queue, input_ary=integers(30000))


def test_sums_in_any_number_of_groups(opencl_queue: Any) -> None:
    x = integers(3000)
    for kernel, expected in ((SUM, np.cumsum(x)), (BEFORE, np.cumsum(x) - x)):
        knl = kernel.build(lp.PyOpenCLTarget(), group_size=16, items=3)
        _, (found,) = knl(opencl_queue, input_ary=x)
        np.testing.assert_array_equal(found, expected)


def test_what_cannot_be_done_says_why() -> None:
    with pytest.raises(lp.KgenError, match="neutral"):
        GenericScanKernel(np.int32, "int *x", "x[i]", "b ? b : a", None, "x[i] = prev_item")
    with pytest.raises(lp.KgenError, match="OFFSET"):
        GenericScanKernel(
            np.int32, "int *x", "x[i]", "a+b", "0", "x[i] = item", input_fetch_exprs=[("y", "x", 1)]
        )
    with pytest.raises(lp.KgenError, match=r"output_ary\[5\] at i = 5"):
        SUM(integers(9), integers(5))


def test_large_arrays_are_indexed_in_64_bits() -> None:
    knl = SUM.build(lp.CudaTarget(), index_dtype=np.int64)
    code = lp.generate_code_v2(knl).device_code()
    assert code.count("long long const n") == 1
    assert "5376 * (long long) kgen_group_x" in code


def test_one_launch_on_cuda(tmp_path: Path) -> None:
    """Segments of an exclusive scan, by groups that begin in any order."""
    knl = GenericScanKernel(
        np.int64,
        arguments="long *x, int *starts, long *out",
        input_expr="x[i]",
        scan_expr="across_seg_boundary ? b : a+b",
        neutral="0",
        is_segment_start_expr="starts[i]",
        output_statement="out[i] = prev_item;",
    )
    run = HostCuda(knl.build(lp.CudaTarget(), group_size=16, items=3), tmp_path)
    x, out = np.arange(1000), np.zeros(1000, np.int64)
    starts = (np.arange(1000) % 130 == 7).astype(np.int32)
    assert run({"x": x, "starts": starts, "out": out, "n": 1000}, order="any")
    begin = np.maximum.accumulate(np.where(starts, np.arange(1000), 0))
    sums = np.cumsum(x) - x
    np.testing.assert_array_equal(out, sums - sums[begin])
    assert len(run.module.launches) == 1
    turned = knl.build(lp.CudaTarget(), group_size=16, items=3, turns=2)
    assert lp.generate_code_v2(turned).device_code().count("__global__") == 2


@pytest.mark.usefixtures("cuda_context")
@pytest.mark.parametrize("size", [0, 1, 3841, 10**6, 2**25 + 7])
def test_one_launch_on_a_device(size: int) -> None:
    gpuarray = pytest.importorskip("pycuda.gpuarray")
    x = integers(size)
    there, out = gpuarray.to_gpu(x), gpuarray.empty(size, np.int32)
    for found in (SUM(there, out), SUM(there, out), SUM(there)):
        np.testing.assert_array_equal(found.get(), np.cumsum(x, dtype=np.int32))


def test_calls_like_the_one_before() -> None:
    scan = InclusiveScanKernel(np.int32, "a+b")
    for size in (1000, 70_000, 300):
        x, out = integers(size).astype(np.int32), np.zeros(size + 5, np.int32)
        expected = np.cumsum(x, dtype=np.int32)
        for _ in range(2):
            np.testing.assert_array_equal(scan(x), expected)
            assert scan(x, out[:size].copy())[-1] == expected[-1]
            np.testing.assert_array_equal(scan(x, out)[:size], expected)
            np.testing.assert_array_equal(scan(*2 * [x.copy()]), expected)
    with pytest.raises(lp.KgenError, match="float64"):
        scan(x, np.zeros(300))


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_along_an_axis_into_an_array_of_another_layout(axis: int, opencl_queue: Any) -> None:
    cla = pytest.importorskip("pyopencl.array")
    x = integers(3, 4, 5)
    expected = x.cumsum(axis, dtype=np.int32)
    for out in (np.zeros_like(x, order="F"), np.zeros((3, 4, 10), np.int32)[..., ::2]):
        InclusiveScanKernel(np.int32, "a+b")(x, out, axis=axis)
        np.testing.assert_array_equal(out, expected)
    found = cla.zeros(opencl_queue, x.shape, np.int32, order="F")
    InclusiveScanKernel(np.int32, "a+b")(cla.to_device(opencl_queue, x), found, axis=axis)
    np.testing.assert_array_equal(found.get(), expected)


def test_arrays_in_different_orders_are_rejected() -> None:
    x = integers(3, 4)
    scan = InclusiveScanKernel(np.int32, "a+b")
    with pytest.raises(lp.KgenError, match="different orders in memory"):
        scan(x, np.zeros_like(x, order="F"))
    with pytest.raises(lp.KgenError, match="there is no axis 2"):
        scan(x[0], axis=2)
