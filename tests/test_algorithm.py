"""Selections and sorts of elements: copy_if, remove_if, partition, unique, RadixSort."""

from __future__ import annotations

import math
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kgen as lp
from kgen.algorithm import KeyValueSorter, RadixSort, copy_if, partition, remove_if, unique
from kgen.ready.onesweep import group_alone
from kgen.ready.places import Place
from kgen.targets.limits import DeviceLimits
from tests.cuda_host import HostCuda

SIZES = [0, 1, 700, 70001]


def integers(size: int, dtype: Any = np.int32) -> np.ndarray:
    return np.random.default_rng(4).integers(0, 100, size).astype(dtype)


@pytest.mark.parametrize("size", SIZES)
def test_selections_keep_the_order(size: int) -> None:
    x = integers(size)
    large = x > 70
    out, count, event = copy_if(x, "ary[i] > limit", [("limit", np.int32(70))])
    assert out.shape == x.shape
    assert count.shape == ()
    assert event is None
    np.testing.assert_array_equal(out[: int(count)], x[large])
    out, count, _ = remove_if(x, "ary[i] > 70")
    np.testing.assert_array_equal(out[: int(count)], x[~large])
    yes, no, count, _ = partition(x, "ary[i] > 70")
    np.testing.assert_array_equal(yes[: int(count)], x[large])
    np.testing.assert_array_equal(no[: size - int(count)], x[~large])


@pytest.mark.parametrize("size", SIZES)
def test_unique_of_neighbours(size: int) -> None:
    x = np.sort(integers(size))
    out, count, _ = unique(x)
    np.testing.assert_array_equal(out[: int(count)], np.unique(x))
    out, count, _ = unique(x, "a/10 == b/10")
    np.testing.assert_array_equal(out[: int(count)] // 10, np.unique(x // 10))


@pytest.mark.parametrize("size", SIZES)
def test_groups_of_values(size: int, opencl_queue: Any) -> None:
    array = pytest.importorskip("pyopencl.array")
    keys, values = integers(size) // 2 * 2, np.arange(size, dtype=np.float32)
    order = np.argsort(keys, kind="stable")
    starts, lists, event = KeyValueSorter()(None, keys, values, 120, np.int64)
    assert event is None
    np.testing.assert_array_equal(lists, values[order])
    np.testing.assert_array_equal(starts, np.searchsorted(keys[order], np.arange(121)))
    k, v = (array.to_device(opencl_queue, one) for one in (keys, values))
    found = KeyValueSorter(opencl_queue.context)(opencl_queue, k, v, 120, np.int64)
    np.testing.assert_array_equal(found[0].get(), starts)
    np.testing.assert_array_equal(found[1].get(), lists)


def test_arrays_and_functions_in_predicates() -> None:
    x, flags = integers(500, np.float32)[::2], integers(250, np.int8)
    preamble = "bool both(float v, char f) { return v > 50 && f > 50; }"
    out, count, _ = copy_if(x, "both(ary[i], flags[i])", [("flags", flags)], preamble)
    np.testing.assert_array_equal(out[: int(count)], x[(x > 50) & (flags > 50)])


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int32", "uint32", "int64", "uint64"])
def test_sorts_of_all_types(dtype: str) -> None:
    x = np.random.default_rng(4).integers(0, 2**63, 3000, dtype=np.uint64).view(dtype)
    sort = RadixSort(
        [lp.GlobalArg("x", np.dtype(dtype), shape="n")], "x[i]", ["x"], key_dtype=dtype
    )
    (found,), _ = sort(x)
    np.testing.assert_array_equal(found, np.sort(x))


@pytest.mark.parametrize("size", SIZES)
def test_sorts_are_stable_and_take_arrays_along(size: int) -> None:
    x, index = integers(size, np.uint32), np.arange(size, dtype=np.float64)
    sort = RadixSort("unsigned *x, double *index, unsigned low", "x[i] - low", ["index", "x"])
    (order, found), _ = sort(x, index, 0, key_bits=7)
    np.testing.assert_array_equal(found, np.sort(x))
    np.testing.assert_array_equal(order, np.argsort(x, kind="stable"))


def test_floats_by_keys_of_their_bits() -> None:
    x = np.random.default_rng(4).normal(size=999).astype(np.float32)
    sort = RadixSort("uint *x", "(x[i] >> 31) ? ~x[i] : (x[i] | 0x80000000)", ["x"])
    (found,), _ = sort(x.view(np.uint32))
    np.testing.assert_array_equal(found.view(np.float32), np.sort(x))


def test_on_opencl_as_in_pyopencl(opencl_queue: Any) -> None:
    array = pytest.importorskip("pyopencl.array")
    x = integers(5000)
    on_device = array.to_device(opencl_queue, x)
    out, count, event = copy_if(on_device, "ary[i] > 70")
    event.wait()
    np.testing.assert_array_equal(out.get()[: int(count.get())], x[x > 70])
    sort = RadixSort(opencl_queue.context, "int *x", "x[i]", ["x"], key_dtype=np.int32)
    (found,), _ = sort(on_device, key_bits=8)
    np.testing.assert_array_equal(found.get(), np.sort(x))


def test_the_kernels_of_gpus(opencl_queue: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    array = pytest.importorskip("pyopencl.array")
    place = Place(lp.PyOpenCLTarget(), (opencl_queue,), is_gpu=True)
    monkeypatch.setattr("kgen.ready.passed.find_place", lambda *_: place)
    x = np.random.default_rng(4).integers(-(2**15), 2**15, 50_003).astype(np.int16)
    schedule = {"group_size": 32, "items": 3}
    sort = RadixSort("short *x", "x[i]", ["x"], key_dtype=np.int16, schedule=schedule)
    (found,), _ = sort(array.to_device(opencl_queue, x))
    np.testing.assert_array_equal(found.get(), np.sort(x))


def test_a_pass_is_three_launches() -> None:
    sort = RadixSort("unsigned *x, double *y", "x[i]", ["x", "y"])
    code = lp.generate_code_v2(sort.build(lp.OpenCLTarget())).device_code()
    assert code.count("__kernel") == 3
    with pytest.raises(lp.KgenError, match="fewer than 32768 elements"):
        sort.build(lp.OpenCLTarget(), group_size=1024, items=32)


def test_the_local_memory_of_a_pass() -> None:
    """Elements wait there where there is room for them, beside all that a pass needs."""
    sort = RadixSort("unsigned *x", "x[i]", ["x"])
    for items, n_reads in ((13, 0), (15, 1)):
        code = lp.generate_code_v2(sort.build(lp.OpenCLTarget(), items=items)).device_code()
        moved = [line for line in code.split("\n") if "x_out[to] = x[" in line]
        assert min(len(moved), 1) == n_reads
        declared = re.findall(r"__local (\w+).* \w+\[(.*)\];", code.rsplit("__kernel")[-1])
        counts = [math.prod(map(int, shape.split("]["))) for _, shape in declared]
        sizes = [2 if kind == "short" else 4 for kind, _ in declared]
        assert 32 * 1024 < np.dot(sizes, counts) <= 48 * 1024


def test_passes_in_one_launch(tmp_path: Path) -> None:
    """Groups of all passes, on threads of the host, in any order."""
    sort = RadixSort("short *x, double *y", "x[i]", ["x", "y"], key_dtype=np.int16)
    knl = sort.build(lp.CudaTarget(), bits=5, group_size=64, items=3)
    run = HostCuda(knl, tmp_path)
    assert len(run.module.launches) == 1
    x = np.random.default_rng(5).integers(-(2**15), 2**15, 701).astype(np.int16)
    given, valid = {"x": x, "y": np.arange(701.0)}, 2**16 - 1
    starts = np.zeros((7, 32), np.int32)
    for turn, shift in enumerate(range(0, 16, 5)):
        digits = (given["x"].view(np.uint16) ^ 2**15) >> shift & 31
        starts[turn] = np.searchsorted(np.sort(digits), np.arange(32))
        out = {f"{name}_out": np.zeros_like(value) for name, value in given.items()}
        numbers = {"shift": shift, "flipped": 2**15, "valid": valid, "n": 701}
        order, resident = ("any", 1) if turn else ("last first", 2)
        call = {**given, **out, **numbers, "starts": starts}
        assert run(call, order=order, resident=resident)
        given = {name: out[f"{name}_out"] for name in given}
    np.testing.assert_array_equal(given["x"], np.sort(x))
    np.testing.assert_array_equal(given["y"], np.argsort(x, kind="stable"))


@pytest.mark.parametrize(("bits", "group_size"), [(8, 512), (7, 1024)])
def test_few_elements_in_one_group(bits: int, group_size: int, tmp_path: Path) -> None:
    sort = RadixSort("short *x, double *y", "x[i]", ["x", "y"], key_dtype=np.int16)
    knl = sort.build(lp.CudaTarget(), bits=bits, in_one_group=True, group_size=group_size)
    run = HostCuda(knl, tmp_path)
    assert len(run.module.launches) == 1
    for size in (0, 1, 8 * group_size - 1, 8 * group_size):
        x, y = integers(size, np.int16) * 321, np.arange(float(size))
        out = {"x_out": np.zeros_like(x), "y_out": np.zeros_like(y)}
        numbers = {"flipped": 2**15, "valid": 2**16 - 1, "turns": -(-16 // bits), "n": size}
        assert run({"x": x, "y": y, **out, **numbers})
        np.testing.assert_array_equal(out["x_out"], np.sort(x))
        np.testing.assert_array_equal(out["y_out"], np.argsort(x, kind="stable"))


def test_the_local_memory_of_one_group() -> None:
    room = 99 * 2**10
    assert [group_alone(size, 4, room) for size in (0, 4097, 8193)] == [512, 1024, None]
    assert [group_alone(size, 8, room) for size in (4096, 4097)] == [512, None]
    assert group_alone(1, 4, 40 * 2**10) is None


def test_one_group_is_not_tuned(monkeypatch: pytest.MonkeyPatch) -> None:
    place = Place(lp.PyCudaTarget(), (), is_gpu=True)
    place.__dict__["limits"] = DeviceLimits(
        name="a GPU", work_items=1024, sizes=(1024,), local_memory=2**16
    )
    monkeypatch.setattr("kgen.ready.passed.find_place", lambda *_: place)
    with pytest.raises(lp.KgenError, match="only one schedule"):
        RadixSort("unsigned *x", "x[i]", ["x"]).tune(integers(99, np.uint32))


def test_the_counts_of_all_digits(tmp_path: Path) -> None:
    sort = RadixSort("unsigned *x", "x[i]", ["x"])
    options = {"bits": 4, "index_dtype": np.int32, "groups": 3, "group_size": 32}
    x, starts = integers(999, np.uint32), np.zeros((8, 16), np.int32)
    run = HostCuda(sort.build_counts(lp.CudaTarget(), is_gpu=True, **options), tmp_path)
    assert run({"x": x, "starts": starts, "flipped": 0, "valid": 2**32 - 1, "n": 999})
    for digit in range(8):
        digits = np.sort(x >> 4 * digit & 15)
        np.testing.assert_array_equal(starts[digit], np.searchsorted(digits, np.arange(16)))


def test_keys_that_are_not_moved() -> None:
    """Their digits are in local memory beside the elements."""
    sort = RadixSort("unsigned *x, int *v", "x[i]", ["v"])
    code = lp.generate_code_v2(sort.build(lp.CudaTarget(), items=2)).device_code()
    assert "digit_there[place] = " in code
    assert "begin[digit_there[" in code


def test_odd_schedules_of_one_launch_say_why() -> None:
    sort = RadixSort("unsigned *x", "x[i]", ["x"])
    with pytest.raises(lp.KgenError, match="one or more for each of 256 digits"):
        sort.build(lp.CudaTarget(), group_size=128)


def test_schedules_of_devices_are_none_of_hosts() -> None:
    with pytest.raises(lp.KgenError, match="'items' is not a parameter of a schedule on a host"):
        RadixSort("unsigned *x", "x[i]", ["x"], schedule={"items": 7})(integers(10, np.uint32))


def test_a_pass_is_tuned(tmp_path: Path) -> None:
    x, sort = integers(70_000, np.int32), RadixSort("int *x", "x[i]", ["x"], key_dtype=np.int32)
    with ThreadPoolExecutor(1) as executor:
        result = sort.tune(x, records=tmp_path / "r", evaluations=1, executor=executor)
    assert list(result.best.configuration) == ["chunk"]
    (found,), _ = RadixSort("int *x", "x[i]", ["x"], key_dtype=np.int32, wisdom=tmp_path / "r")(x)
    np.testing.assert_array_equal(found, np.sort(x))


def test_what_cannot_be_sorted_says_why() -> None:
    with pytest.raises(lp.KgenError, match=r"x\.view"):
        RadixSort("float *x", "x[i]", ["x"], key_dtype=np.float32)
    for bits in (0, 17, 2.5, "8"):
        with pytest.raises(lp.KgenError, match="not a valid number of bits"):
            RadixSort("uint *x", "x[i]", ["x"], bits_at_a_time=bits)
    with pytest.raises(lp.KgenError, match="key_bits is -1"):
        RadixSort("uint *x", "x[i]", ["x"])(integers(4, "u4"), key_bits=-1)
    with pytest.raises(lp.KgenError, match="key_bits is 40"):
        RadixSort("int *x", "x[i]", ["x"], key_dtype=np.int32)(integers(4), key_bits=40)
    with pytest.raises(lp.KgenError, match="'y'"):
        RadixSort("uint *x", "x[i]", ["y"])
    with pytest.raises(lp.KgenError, match="one length"):
        RadixSort("uint *x, uint *y", "x[i]", ["x", "y"])(integers(4, "u4"), integers(3, "u4"))


@pytest.mark.parametrize("size", [3000, 8000, 9000])
def test_sorts_of_the_same_memory_on_a_device(size: int, cuda_context: Any) -> None:
    gpuarray = pytest.importorskip("pycuda.gpuarray")
    sort = RadixSort("int *x", "x[i]", ["x"], key_dtype=np.int32)
    there, results = gpuarray.zeros(size, np.int32), []
    for turn in range(4):
        values = integers(size) - 50 * (turn % 2)
        there.set(values)
        results.append((sort(there)[0][0], np.sort(values)))
        results.append((sort(there, key_bits=32)[0][0], np.sort(values.view(np.uint32))))
        results = results[turn % 3 :]  # some memory is free again
        for found, expected in results:
            np.testing.assert_array_equal(found.get().view(expected.dtype), expected)
