"""Schedules for kinds of devices, and which one a call gets."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import kgen as lp
from kgen.runtime.devices import RunningOn

A = np.arange(100, dtype=np.float32)
DEVICE = RunningOn(api="opencl", kind="gpu", vendor="NVIDIA Corporation", name="H200")


def vector(length: int) -> Any:
    return lambda knl: lp.parallelize(knl, {"i": "gang vector"}, vector_length=length)


def choices(**more: Any) -> lp.DeviceSchedules:
    knl = lp.make_kernel("{ [i]: 0<=i<n }", "b[i] = 2*a[i]")
    table: dict[Any, Any] = {"nvidia": vector(128), "radeon": vector(256), **more}
    return lp.per_device(knl, {**table, "host": vector(16)})


def length(knl: lp.TranslationUnit) -> int:
    return knl.default_entrypoint.grid.locals[0]


@pytest.mark.parametrize(
    ("device", "types"),
    [
        (DEVICE, "nvidia gpu opencl *"),
        (replace(DEVICE, vendor="Advanced Micro Devices, Inc."), "radeon gpu opencl *"),
        (replace(DEVICE, vendor="GenuineIntel", kind="cpu"), "host cpu opencl *"),
        (replace(DEVICE, vendor="Intel(R) Corporation"), "intel gpu opencl *"),
        (replace(DEVICE, api="cuda"), "nvidia gpu cuda *"),
        (replace(DEVICE, vendor="", api="c", kind="cpu"), "host cpu c *"),
    ],
)
def test_types_of_a_device(device: RunningOn, types: str) -> None:
    words = ["nvidia", "radeon", "intel", "host", "gpu", "cpu", "other", "c", "opencl", "cuda", "*"]
    assert [word for word in words if device.is_a(word)] == types.split()


def test_call_without_a_queue_is_on_the_host() -> None:
    found = choices()
    _, (b,) = found(a=A)
    np.testing.assert_array_equal(b, 2 * A)
    assert length(found.for_call()) == 16
    assert isinstance(found.for_call().target, lp.ExecutableCTarget)


def test_queue_says_the_device(opencl_queue: Any) -> None:
    found = choices(**{"*": vector(64)})
    _, (b,) = found(opencl_queue, a=A)
    np.testing.assert_array_equal(b, 2 * A)
    device = found.device_of(opencl_queue)
    assert device.name == opencl_queue.device.name
    assert length(found.for_call(opencl_queue)) == (128 if device.is_a("nvidia") else 64)


@pytest.mark.usefixtures("cuda_context")
def test_cuda_is_nvidia() -> None:
    knl = lp.make_kernel("{ [i]: 0<=i<n }", "b[i] = 2*a[i]", target=lp.PyCudaTarget())
    found = lp.per_device(knl, {"host": vector(16), "nvidia": vector(128)})
    _, (b,) = found(a=A)
    np.testing.assert_array_equal(b, 2 * A)
    assert length(found.for_call()) == 128


def test_schedule_of_another_device_can_be_asked_for(opencl_queue: Any) -> None:
    knl = choices()["radeon"]
    assert length(knl) == 256
    np.testing.assert_array_equal(knl(opencl_queue, a=A)[1][0], 2 * A)


def test_program_is_made_once_for_each_device() -> None:
    calls = []

    def make(knl: lp.TranslationUnit) -> lp.TranslationUnit:
        calls.append(knl)
        return knl

    found = lp.per_device(choices().program, {lambda device: device.kind == "cpu": make})
    assert found.for_call() is found.for_call()
    assert len(calls) == 1


def test_refusals() -> None:
    with pytest.raises(lp.KernelError, match=r"'nvidea' is not a kind of device\n.*'nvidia'"):
        lp.per_device(choices().program, {"nvidea": vector(1)})
    with pytest.raises(lp.KernelError, match="there is no schedule for RunningOn"):
        lp.per_device(choices().program, {"gpu": vector(1)})(a=A)
    with pytest.raises(lp.KernelError, match="there is no schedule for 'gpu'"):
        choices()["gpu"]
