"""Launches through CUDA's driver: what it is passed, and what its errors say."""

from __future__ import annotations

import ctypes
import gc
from typing import Any

import numpy as np
import pytest

from kgen.errors import InvocationError
from kgen.runtime.cuda_driver import (
    LoadedFunction,
    LoadedProgram,
    Zeroing,
    check,
    enqueue_all,
    is_capturing,
)
from kgen.targets.module import Launch
from tests.runtime.fake_cuda import FakeDriver, FakeLaunches

TYPES = [None, np.dtype("int32"), np.dtype("complex128"), np.dtype("float16")]
C_TYPES = (ctypes.c_void_p, ctypes.c_int, ctypes.c_double, ctypes.c_uint16)


def function(driver: Any, types: Any = TYPES, **more: Any) -> LoadedFunction:
    program = LoadedProgram(driver, 1, b"code", "scale")
    return LoadedFunction(program, Launch("scale", (), (), (64,), **more), types)


def test_a_launch_passes_grid_block_stream_and_parameters() -> None:
    driver = FakeLaunches(*C_TYPES)
    function(driver, local_memory=50000)((4, 2, 1), 77, 0x1234, -5, 0.5, 2.5, 0x3C00)
    (launch,) = driver.launches
    assert launch == {
        "grid": (4, 2, 1),
        "block": (64, 1, 1),
        "local_memory": 50000,
        "stream": 77,
        "attributes": [],
        "parameters": [0x1234, -5, 0.5, 0x3C00],
    }


def test_what_is_packed_may_be_launched_later() -> None:
    driver = FakeLaunches(*C_TYPES)
    packed = [function(driver).pack((1, 1, k), k, k, k, 0, 0, 0) for k in (1, 2)]
    gc.collect()
    for enqueue, *arguments, _ in packed:
        enqueue(*arguments)
    assert [(each["stream"], each["parameters"][1]) for each in driver.launches] == [(1, 1), (2, 2)]


def test_memory_is_zeroed_in_a_stream() -> None:
    driver = FakeDriver(cuMemsetD8Async=400)
    enqueue, *arguments, _ = Zeroing(driver).pack((64,), 7, 0x1234)
    enqueue(*arguments)
    assert driver.called("cuMemsetD8Async") == [(0x1234, 0, 64, 7)]
    with pytest.raises(InvocationError, match=r"cuMemsetD8Async .* 400"):
        Zeroing(driver)((64,), 7, 0x1234)


class OfTwoProcessors(FakeLaunches):
    """A device with two multiprocessors, each with room for three groups."""

    def cuDeviceGetAttribute(self, place: Any, *_: Any) -> int:
        place._obj.value = 2
        return 0

    def cuOccupancyMaxActiveBlocksPerMultiprocessor(self, place: Any, *_: Any) -> int:
        place._obj.value = 3
        return 0


def test_a_cooperative_launch_says_so_and_must_fit() -> None:
    driver = OfTwoProcessors()
    launched = function(driver, [], is_cooperative=True)
    launched((3, 2, 1), 0)
    assert driver.launches[0]["attributes"] == [[2, 1]]
    message = (
        r"(?s)kernel 'scale': .* has 7 work-groups, but only 6 of them run at once.*hint: .*'g\.0'"
    )
    with pytest.raises(InvocationError, match=message):
        launched((7, 1, 1), 0)
    assert len(driver.launches) == 1


def test_axes_of_grids_have_limits() -> None:
    driver = FakeLaunches()
    launched = function(driver, [])
    launched((70000, 65535, 1), 0)
    message = r"(?s)'scale': a launch has 65536 work-groups along axis g.2.*at most 65535"
    with pytest.raises(InvocationError, match=message):
        launched((1, 1, 65536), 0)
    assert len(driver.launches) == 1


def test_errors_name_the_kernel_and_what_to_do() -> None:
    with pytest.raises(InvocationError, match=r"'scale': cuLaunchKernelEx .* 400(?s:.*)context"):
        function(FakeLaunches(cuLaunchKernelEx=400), [])((1, 1, 1), 5)
    with pytest.raises(InvocationError, match=r"executor\.prepare"):
        function(FakeDriver(cuModuleLoadData=900))
    check(FakeDriver(), "cuInit", 0)


def test_launches_that_are_rejected_state_their_sizes() -> None:
    launched = function(FakeLaunches(cuLaunchKernelEx=1), [], local_memory=48)
    message = r"(?s)0x1x1 work-groups of 64x1x1 .* 48 bytes.*hint: please report"
    with pytest.raises(InvocationError, match=message):
        launched((0, 1, 1), 0)
    with pytest.raises(InvocationError, match=message):
        enqueue_all(launched.program.driver, [launched.pack((0, 1, 1), 0)], "scale")
    with pytest.raises(InvocationError, match=r"guard_accesses=True"):
        check(FakeDriver(), "cuStreamSynchronize", 700)


@pytest.mark.parametrize(
    ("status", "error", "answer"), [(0, 0, False), (1, 0, True), (0, 906, True)]
)
def test_streams_that_are_captured(status: int, error: int, answer: bool) -> None:
    class Driver:
        def cuStreamIsCapturing(self, stream: Any, place: Any) -> int:
            place._obj.value = status
            return error

    assert is_capturing(Driver(), 7) is answer


def test_programs_are_unloaded_in_their_context() -> None:
    driver = FakeDriver()
    program = LoadedProgram(driver, 55, b"code", "scale")
    del program
    gc.collect()
    unloading = driver.names[driver.names.index("cuCtxPushCurrent_v2") :]
    assert unloading[:3] == ["cuCtxPushCurrent_v2", "cuModuleUnload", "cuCtxPopCurrent_v2"]
