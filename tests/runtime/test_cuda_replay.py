"""Replays: launches that are packed, and become one graph when they are repeated."""

from __future__ import annotations

import ctypes
import gc
from typing import Any

import pytest

from kgen.errors import InvocationError
from kgen.runtime.cuda_driver import LoadedFunction, LoadedProgram, Zeroing
from kgen.runtime.cuda_replay import Replay
from kgen.targets.module import Launch
from tests.runtime.fake_cuda import FakeLaunches


class Device(FakeLaunches):
    """Has a current context, and a default stream that may wait for a captured one."""

    context = 5
    is_captured = False

    def __init__(self, **errors: int) -> None:
        super().__init__(ctypes.c_int, **errors)

    def cuCtxGetCurrent(self, place: Any) -> int:
        place._obj.value = self.context
        return 0

    def cuStreamIsCapturing(self, stream: Any, status: Any) -> int:
        return 906 if self.is_captured else 0

    def counts(self) -> tuple[int, int]:
        """Return how many kernels and graphs were launched."""
        return len(self.launches), self.names.count("cuGraphLaunch")


def replay_on(driver: Device, n_launches: int = 2, stream: int = 0) -> Replay:
    """Return launches with the parameters 0, 1...; before them, memory is zeroed."""
    program = LoadedProgram(driver, 5, b"code", "step")
    step = LoadedFunction(program, Launch("step", (), (), (64,)), [None])
    packed = [step.pack((1, 1, 1), stream, k) for k in range(n_launches)]
    if n_launches > 1:
        packed.insert(0, Zeroing(driver).pack((64,), stream, 0x1234))
    parts = [Replay(driver, [one], step, "step", stream) for one in packed]
    return Replay.of_all(parts, "steps")


@pytest.mark.parametrize("stream", [0, 77])
def test_several_launches_become_one_graph(stream: int) -> None:
    driver = Device()
    replay = replay_on(driver, stream=stream)
    made = []
    for _ in range(5):
        replay()
        made.append(driver.counts())
    assert made == [(2, 0), (4, 0), (6, 1), (6, 2), (6, 3)]
    own = driver.called("cuStreamBeginCapture_v2")[0][0].value
    assert [one["stream"] for one in driver.launches] == [*4 * [stream], own, own]
    assert [one["parameters"] for one in driver.launches] == [[0], [1]] * 3
    assert [there for *_, there in driver.called("cuMemsetD8Async")] == [stream, stream, own]
    assert {there for _, there in driver.called("cuGraphLaunch")} == {stream}
    assert driver.names.count("cuGraphInstantiateWithFlags") == 1
    assert driver.names.count("cuGraphDestroy") == driver.names.count("cuStreamDestroy_v2") == 1


def test_one_launch_is_no_graph() -> None:
    driver = Device()
    replay = replay_on(driver, 1)
    for _ in range(5):
        replay()
    assert driver.counts() == (5, 0)


def test_a_graph_is_launched_in_its_context_only() -> None:
    driver = Device()
    replay = replay_on(driver)
    for driver.context in (5, 5, 6, 6, 5, 6):
        replay()
    assert driver.counts() == (2 * 6, 1)
    assert [one["stream"] for one in driver.launches[-2:]] == [0, 0]


def test_none_is_made_while_the_caller_captures() -> None:
    driver = Device()
    replay = replay_on(driver)
    for driver.is_captured in (False, False, True, True, False):
        replay()
    assert driver.counts() == (2 * 5, 1)


@pytest.mark.parametrize(
    "function", ["cuStreamCreate", "cuStreamBeginCapture_v2", "cuStreamEndCapture"]
)
def test_launches_stay_packed_where_the_driver_makes_no_graph(function: str) -> None:
    driver = Device(**{function: 801})
    replay = replay_on(driver)
    for _ in range(6):
        replay()
    assert driver.names.count(function) == 1
    assert [one["stream"] for one in driver.launches[-6:]] == [0] * 6
    assert driver.counts()[1] == 0


def test_a_graph_is_destroyed_in_its_context() -> None:
    driver = Device()
    replay = replay_on(driver)
    for _ in range(3):
        replay()
    del replay
    gc.collect()
    at = driver.names.index("cuGraphExecDestroy")
    assert driver.names[at - 1 : at + 2] == [
        "cuCtxPushCurrent_v2",
        "cuGraphExecDestroy",
        "cuCtxPopCurrent_v2",
    ]
    assert driver.calls[at - 1][1].value == 5


def test_errors_name_the_kernel() -> None:
    replay = replay_on(Device(cuGraphLaunch=906))
    replay()
    replay()
    with pytest.raises(InvocationError, match=r"'steps': cuGraphLaunch .* 906(?s:.*)captured"):
        replay()
