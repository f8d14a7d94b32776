"""Rooflines: their numbers, from measured and from given limits."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kgen as lp
from kgen.errors import KernelError
from kgen.performance import Device, measure_device, roofline
from kgen.performance.model import Work
from kgen.performance.occupancy import find_resources, occupancy_of
from kgen.performance.timing import seconds_of
from kgen.runtime.resources import read_assembler
from kgen.statistics.programs import prepared_kernel

DEVICE = Device(
    name="a device",
    bandwidth=1e12,
    cache_bandwidth=4e12,
    flops={"float32": 10e12},
    overhead=1e-6,
)
SMALL = 1 / 256


def axpy(target: Any) -> Any:
    knl = lp.make_kernel(
        "{ [i]: 0 <= i < n }", "out[i] = 2*x[i] + y[i]", target=target, name="axpy"
    )
    knl = lp.add_dtypes(knl, {"x": np.float32, "y": np.float32})
    return lp.split_iname(knl, "i", 256, outer_tag="g.0", inner_tag="l.0")


def test_numbers_of_a_kernel() -> None:
    found = roofline(axpy(lp.OpenCLTarget()), {"n": 1 << 24}, DEVICE)
    assert found.flops == {"float32": 2 << 24}
    levels = ("issued", "footprint", "footprint sectors", "sectors")
    assert found.bytes == dict.fromkeys(levels, 12 << 24)
    assert (found.launches, found.barriers) == (1, 0)
    assert found.limit == "memory"
    assert found.predicted_s == pytest.approx((12 << 24) / 1e12)
    assert found.intensity == pytest.approx(1 / 6)


def test_memory_moves_whole_sectors() -> None:
    knl = lp.make_kernel("{ [i]: 0 <= i < n }", "out[i] = a[4*i]", assumptions="n >= 1")
    knl = lp.add_dtypes(knl, {"a": np.float32})
    knl = lp.split_iname(knl, "i", 256, outer_tag="g.0", inner_tag="l.0")
    found = roofline(knl, {"n": 1 << 24}, DEVICE)
    assert found.bytes["footprint"] == 8 << 24
    assert found.bytes["footprint sectors"] == (16 + 4) << 24


def test_work_items_that_wait_for_memory_take_time() -> None:
    found = roofline(axpy(lp.OpenCLTarget()), {"n": 1 << 24}, replace(DEVICE, item_rate=1e9))
    assert found.limit == "work-items"
    assert found.predicted_s == pytest.approx((1 << 24) / 1e9)


def test_what_registers_and_near_caches_may_hold_is_no_lower_bound() -> None:
    times = {"memory": 1.0, "arithmetic": 2.0, "caches": 3.0, "local memory": 5.0}
    work = Work(flops={}, bytes=1, times_s=times)
    assert (work.least_s, work.expected_s) == (2.0, 5.0)


def test_few_elements_take_as_long_as_a_call() -> None:
    assert roofline(axpy(lp.OpenCLTarget()), {"n": 10}, DEVICE).predicted_s == 1e-6


def test_conflicts_of_banks_take_time() -> None:
    knl = lp.make_kernel("{ [i, j]: 0 <= i, j < n }", "out[i, j] = a[j, i]", name="transpose")
    knl = lp.add_dtypes(knl, {"a": np.float32})
    knl = lp.split_iname(knl, "i", 32, outer_tag="g.1", inner_tag="l.1")
    knl = lp.split_iname(knl, "j", 32, outer_tag="g.0", inner_tag="l.0")
    knl = lp.add_prefetch(knl, "a", ["j_inner", "i_inner"], default_tag="l.auto")
    found = roofline(knl, {"n": 1024}, replace(DEVICE, local_bandwidth=20e12))
    requests = 2 * 1024 * 32
    assert found.bytes["local without conflicts"] == 128 * requests
    assert found.bytes["local"] == 128 * (requests // 2) * 33
    assert found.times_s["local memory"] == found.bytes["local"] / 20e12
    assert found.barriers == 1


def test_as_text_and_as_json() -> None:
    found = roofline(axpy(lp.OpenCLTarget()), {"n": 1 << 20}, DEVICE)
    lines = [" ".join(line.split()) for line in str(found).splitlines()]
    assert "float32 operations 2,097,152" in lines
    assert "predicted time 12.58 us, by memory" in lines
    read = json.loads(found.to_json())
    assert read["limit"] == "memory"
    assert read["bytes"]["footprint"] == 12 << 20


def test_operations_on_complex_numbers_are_several() -> None:
    knl = lp.make_kernel("{ [i]: 0 <= i < n }", "out[i] = a[i]*a[i] + 1")
    knl = lp.add_dtypes(knl, {"a": np.complex64})
    assert roofline(knl, {"n": 100}, DEVICE).flops == {"float32": 800}


def test_unknown_peaks_and_parameters_are_refused() -> None:
    knl = lp.make_kernel("{ [i]: 0 <= i < n }", "out[i] = 2*a[i]")
    knl = lp.add_dtypes(knl, {"a": np.float64})
    with pytest.raises(KernelError, match=r"operations on float64 per second"):
        roofline(knl, {"n": 100}, DEVICE)
    with pytest.raises(KernelError, match="depends on 'n', which has no value"):
        roofline(knl, {}, DEVICE)


def test_data_makes_numbers_upper_bounds() -> None:
    knl = lp.make_kernel("{ [i]: 0 <= i < n }", "if a[i] > 0\n out[i] = 2*a[i]\nend")
    found = roofline(lp.add_dtypes(knl, {"a": np.float32}), {"n": 100}, DEVICE)
    assert found.flops == {"float32": 100}
    assert any("a[i] > 0" in reason for reason in found.uncertain)


def test_host_is_measured_once_and_kernels_are_timed() -> None:
    target = lp.ExecutableCTarget()
    lp.set_caching_enabled(True)
    device = measure_device(target, scale=SMALL, again=True)
    assert measure_device(target, scale=SMALL) == device
    assert min(device.bandwidth, device.flops["float32"], device.flops["float64"]) > 1e6
    assert Device.from_json(device.to_json()) == device


def test_opencl_device_is_measured(opencl_queue: Any) -> None:
    target = lp.PyOpenCLTarget()
    device = measure_device(target, opencl_queue, scale=SMALL, again=True)
    assert opencl_queue.device.name.strip() in device.name
    assert device.cache_bandwidth >= device.bandwidth > 1e6
    assert device.local_bandwidth is not None
    assert device.local_bandwidth > 1e6


def test_time_of_a_call_is_measured(opencl_queue: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kgen.performance.model.measure_device", lambda *_: DEVICE)
    array = pytest.importorskip("pyopencl.array")
    size = 1 << 16
    arrays = {name: array.zeros(opencl_queue, size, np.float32) for name in ("x", "y", "out")}
    found = roofline(axpy(lp.PyOpenCLTarget()), {"n": size}, opencl_queue, arrays)
    assert found.measured_s is not None
    assert found.measured_s > 0
    assert found.achieved == pytest.approx(found.predicted_s / found.measured_s)
    assert "measured time" in str(found)


def test_description_of_a_device_runs_nothing() -> None:
    with pytest.raises(KernelError, match="needs its device"):
        roofline(axpy(lp.OpenCLTarget()), {"n": 10}, DEVICE, {"x": None})


@pytest.mark.parametrize(
    ("needs", "percent", "limit"),
    [
        ((32, 0, 256), 100, "warps"),
        ((64, 0, 256), 50, "registers"),
        ((32, 0, 32), 50, "groups"),
        ((32, 100 * 1024, 256), 25, "shared memory"),
    ],
)
def test_occupancy(needs: tuple[int, int, int], percent: int, limit: str) -> None:
    found = occupancy_of(*needs)
    assert (round(100 * found.fraction), found.limit) == (percent, limit)


def test_occupancy_of_other_devices() -> None:
    assert occupancy_of(32, 0, 1024, (7, 5)).fraction == 1
    assert occupancy_of(32, 0, 1024, (8, 6)).fraction == pytest.approx(2 / 3)
    assert occupancy_of(32, 0, 32, (8, 9)).limit == "groups"
    assert occupancy_of(32, 0, 1024, (9, 9)) == occupancy_of(32, 0, 1024)


LOG = """
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'one' for 'sm_80'
ptxas info    : Function properties for one
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 40 registers, used 1 barriers, 2112 bytes smem, 392 bytes cmem[0]
ptxas info    : Compiling entry function 'two' for 'sm_80'
ptxas info    : Used 12 registers, 360 bytes cmem[0]
"""


def test_the_log_of_the_assembler() -> None:
    assert read_assembler(LOG) == {"one": (40, 2112), "two": (12, 0)}
    assert read_assembler("") == {}


def test_needs_of_launches_on_opencl(opencl_queue: Any) -> None:
    knl = lp.make_kernel("{ [i]: 0<=i<n }", "out = sum(i, a[i])", target=lp.PyOpenCLTarget())
    knl = lp.add_dtypes(knl, {"a": np.float32})
    knl = lp.split_iname(knl, "i", 64, outer_tag="g.0", inner_tag="l.0")
    found = find_resources(prepared_kernel(knl), opencl_queue)
    assert [needs.function for needs in found] == ["kgen_kernel", "kgen_kernel_0"]
    assert all(needs.group_size == 64 <= (needs.largest_group or 0) for needs in found)
    assert all(needs.local_bytes >= 64 * 4 for needs in found)
    assert "bytes local, groups of 64 of at most" in str(found[0])


def test_registers_come_from_the_compiler(nvcc: Any) -> None:
    found = roofline(axpy(lp.CudaTarget()), {"n": 1 << 20}, DEVICE).occupancy
    assert found is not None
    assert 4 <= found.registers <= 64
    assert (found.group_size, found.fraction) == (256, 1.0)


def test_calls_in_a_row_are_timed_together() -> None:
    calls = 0

    def call() -> tuple[None, None]:
        nonlocal calls
        calls += 1
        return None, None

    assert 0 < seconds_of(call, at_least=1e-3, rounds=3) < 1e-3
    assert calls > 100


def test_plot(tmp_path: Path) -> None:
    plot = pytest.importorskip("kgen.performance.plot", exc_type=ImportError).plot
    found = roofline(axpy(lp.OpenCLTarget()), {"n": 1 << 20}, DEVICE)
    plot([found, found], tmp_path / "roof.svg")
    assert "a device" in (tmp_path / "roof.svg").read_text()


def test_no_operation_of_the_result_changes_it() -> None:
    found = roofline(axpy(lp.CTarget()), {"n": 100}, DEVICE)
    assert isinstance(found, lp.Roofline)
    assert replace(found, measured_s=1.0).flops == found.flops == {"float32": 200}
    assert found.measured_s is None


@pytest.mark.parametrize(("measured", "is_said"), [(0.9, False), (0.5, True)])
def test_limits_that_were_measured_on_a_busy_device(measured: float, is_said: bool) -> None:
    found = roofline(axpy(lp.OpenCLTarget()), {"n": 1 << 24}, DEVICE)
    text = str(replace(found, measured_s=measured * found.predicted_s))
    assert ("limits too low" in text) is is_said
