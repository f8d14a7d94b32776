"""Devices that are there, and how one of them is chosen."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kgen as lp
from kgen.runtime.devices import RunningOn, position_of

HOST = RunningOn(api="opencl", kind="cpu", vendor="", name="pthread", platform="PoCL", version="3")
GPU = RunningOn(api="opencl", kind="gpu", vendor="NVIDIA", name="H200", platform="CUDA")


@pytest.mark.parametrize(
    ("wanted", "position"), [(None, 0), ("0", 0), ("1", 1), ("h200", 1), ("cuda", 1), ("PoCL 3", 0)]
)
def test_a_device_is_found_by_number_or_name(wanted: str | None, position: int) -> None:
    assert position_of(wanted, [HOST, GPU], "OpenCL") == position


def test_a_device_that_is_not_there_is_rejected_with_those_that_are() -> None:
    with pytest.raises(lp.KgenError, match=r"no device of OpenCL '2' here\n.*0: pthread \(PoCL, 3"):
        position_of("2", [HOST, GPU], "OpenCL")
    with pytest.raises(lp.KgenError, match="there is none at all"):
        position_of(None, [], "CUDA")


def test_the_host_is_the_only_device_of_c() -> None:
    runtime = lp.ExecutableCTarget().load_runtime()
    (host,) = runtime.find_devices()
    assert runtime.open_device(host.name) == ()
    with pytest.raises(lp.KgenError, match="no device of the host 'abacus'"):
        runtime.open_device("abacus")


def test_a_queue_is_on_the_device_that_is_wanted(opencl_queue: Any) -> None:
    runtime = lp.PyOpenCLTarget().load_runtime()
    (queue,) = runtime.open_device(opencl_queue.device.name)
    assert runtime.device_of(queue) in runtime.find_devices()
    assert queue.device.name == opencl_queue.device.name
    array = runtime.to_device(np.arange(3.0), queue)
    assert array.get().tolist() == [0, 1, 2]


@pytest.mark.usefixtures("cuda_context")
def test_a_cuda_device_is_opened() -> None:
    runtime = lp.PyCudaTarget().load_runtime()
    assert runtime.open_device("0") == ()
    assert runtime.device_of() == runtime.find_devices()[0]
    assert runtime.to_device(np.arange(3.0)).get().tolist() == [0, 1, 2]
