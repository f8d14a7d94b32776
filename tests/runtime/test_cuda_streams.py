"""Streams of other libraries: their addresses, and the order of work in them."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import kgen as lp
from kgen.runtime.cuda_streams import handle_of, in_order_of


class WithMethod:
    def __cuda_stream__(self) -> tuple[int, int]:
        return (0, 77)


@pytest.mark.parametrize(
    ("stream", "handle"),
    [
        (None, 0),
        (2, 2),
        (WithMethod(), 77),
        (SimpleNamespace(__cuda_stream__=(0, 78)), 78),
        (SimpleNamespace(cuda_stream=79), 79),
        (SimpleNamespace(ptr=0), 0),
        (SimpleNamespace(handle=ctypes.c_void_p(80)), 80),
    ],
)
def test_streams_tell_their_addresses(stream: Any, handle: int) -> None:
    assert handle_of(stream) == handle


@pytest.mark.parametrize("stream", ["0", True, object(), 1.5])
def test_what_is_no_stream_is_refused(stream: Any) -> None:
    with pytest.raises(lp.InvocationError, match="has no address of a CUDA stream"):
        handle_of(stream)


class FakeDriver:
    """Notes what it is asked for, with the first number of the arguments; *fails* fails."""

    def __init__(self, fails: str = "") -> None:
        self.calls: list[tuple[str, int]] = []
        self.fails = fails

    def __getattr__(self, name: str) -> Any:
        def call(*args: Any) -> int:
            handles = [arg.value for arg in args if isinstance(arg, ctypes.c_void_p) and arg.value]
            self.calls.append((name, handles[0] if handles else 0))
            return 400 if name == self.fails else 0

        return call


def test_work_waits_for_the_other_stream_which_waits_for_it() -> None:
    driver = FakeDriver()
    with in_order_of(driver, other=7, own=9):
        driver.calls.append(("launch", 9))
    record, wait = "cuEventRecord", "cuStreamWaitEvent"
    ordered = [call for call in driver.calls if call[1]]
    assert ordered == [(record, 7), (wait, 9), ("launch", 9), (record, 9), (wait, 7)]
    for name in ("cuEventCreate", "cuEventDestroy_v2"):
        assert driver.calls.count((name, 0)) == 2


def test_errors_of_the_driver_are_told_and_events_freed() -> None:
    driver = FakeDriver("cuEventRecord")
    error = pytest.raises(lp.InvocationError, match="cuEventRecord failed with error 400")
    with error, in_order_of(driver, other=7, own=9):
        raise AssertionError("runs")
    assert driver.calls[-1][0] == "cuEventDestroy_v2"


def doubled() -> lp.TranslationUnit:
    knl = lp.make_kernel("{ [i]: 0 <= i < n }", "out[i] = 2*a[i]", target=lp.PyCudaTarget())
    return lp.split_iname(knl, "i", 64, outer_tag="g.0", inner_tag="l.0")


@pytest.mark.usefixtures("cuda_context")
@pytest.mark.parametrize("library", ["torch", "cupy"])
def test_calls_run_in_streams_of_other_libraries(library: str) -> None:
    module = pytest.importorskip(library)
    stream = module.cuda.Stream() if library == "torch" else module.cuda.Stream(non_blocking=True)
    context = module.cuda.stream(stream) if library == "torch" else stream
    with context:
        a = module.zeros(2**24, dtype=module.float32)
        a = a.cuda() if library == "torch" else a
        out = a + 0
        for _ in range(9):
            a += 1
        doubled()(a=a, out=out, stream=stream)
        out += 1
    stream.synchronize()
    assert (np.asarray(out.cpu() if library == "torch" else out.get()) == 19).all()


@pytest.mark.usefixtures("cuda_context")
def test_bound_launches_take_any_stream_and_make_events_on_request() -> None:
    driver = pytest.importorskip("pycuda.driver")
    array = pytest.importorskip("pycuda.gpuarray")
    a, out = array.to_gpu(np.arange(9.0)), array.to_gpu(np.zeros(9))
    launcher = doubled().executor().bind(a=a, out=out)
    own = driver.Stream()
    for stream in (None, own, int(own.handle), SimpleNamespace(__cuda_stream__=(0, own.handle))):
        out.fill(0)
        assert launcher(stream) is None
        event = launcher(stream, event=True)
        event.synchronize()
        np.testing.assert_array_equal(out.get(), 2 * np.arange(9.0))


@pytest.mark.usefixtures("cuda_context")
def test_calls_are_captured_in_graphs_of_other_libraries() -> None:
    torch = pytest.importorskip("torch")
    a, out = torch.arange(9.0, device="cuda"), torch.zeros(9, device="cuda")
    launcher = doubled().executor().bind(a=a, out=out)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        launcher(torch.cuda.current_stream())
    out.zero_()
    graph.replay()
    torch.cuda.synchronize()
    assert out.tolist() == [2.0 * k for k in range(9)]
