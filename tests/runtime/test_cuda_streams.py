"""Streams of other libraries: their addresses, and the order of work in them."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import kgen as lp
from kgen.runtime.cuda_driver import load_driver
from kgen.runtime.cuda_streams import handle_of, identity_of, put_in_order
from tests.runtime.fake_cuda import FakeDriver


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


def test_work_in_a_stream_waits_for_another_stream() -> None:
    driver = FakeDriver()
    put_in_order(driver, first=7, then=9)
    assert driver.names == [
        "cuEventCreate",
        "cuEventRecord",
        "cuStreamWaitEvent",
        "cuEventDestroy_v2",
    ]
    assert driver.calls[1][2].value == 7
    assert driver.calls[2][1].value == 9


@pytest.mark.parametrize("captured", [False, True])
def test_streams_have_numbers_unless_they_are_captured(captured: bool) -> None:
    class Driver(FakeDriver):
        def cuStreamIsCapturing(self, stream: Any, status: Any) -> int:
            status._obj.value = int(captured)
            return 0

        def cuStreamGetId(self, stream: Any, number: Any) -> int:
            number._obj.value = stream.value + 100
            return 0

    assert identity_of(Driver(), 7) == (None if captured else (7, 107))
    assert identity_of(SimpleNamespace(), 7) is None
    assert identity_of(FakeDriver(cuStreamGetId=400), 7) is None


def test_errors_of_the_driver_are_told_and_events_freed() -> None:
    driver = FakeDriver(cuEventRecord=400)
    with pytest.raises(lp.InvocationError, match="cuEventRecord failed with error 400"):
        put_in_order(driver, first=7, then=9)
    assert driver.names[-1] == "cuEventDestroy_v2"


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


@pytest.mark.usefixtures("cuda_context")
@pytest.mark.parametrize("library", ["torch", "cupy", "pycuda"])
def test_calls_are_captured_and_what_cannot_be_is_refused(library: str) -> None:
    array = pytest.importorskip("pycuda.gpuarray")
    stream = streams_of(library)
    knl = doubled()
    a, out = array.to_gpu(np.arange(9.0)), array.to_gpu(np.zeros(9))
    knl(a=a, out=out)
    out.fill(0)
    pytest.importorskip("pycuda.driver").Context.synchronize()
    with Captured(stream) as graph:
        knl(a=a, out=out, stream=stream)
        knl(a=out, out=a, stream=stream)
        with pytest.raises(lp.InvocationError, match="stream is being captured"):
            knl(a=a, stream=stream)
        with pytest.raises(lp.InvocationError, match="stream is being captured"):
            knl(a=np.arange(9.0), out=out, stream=stream)
    assert not out.get().any()
    graph.launch()
    np.testing.assert_array_equal(out.get(), 2 * np.arange(9.0))
    np.testing.assert_array_equal(a.get(), 4 * np.arange(9.0))


def streams_of(library: str) -> Any:
    module = pytest.importorskip("pycuda.driver" if library == "pycuda" else library)
    if library == "pycuda":
        return module.Stream()
    return module.cuda.Stream() if library == "torch" else module.cuda.Stream(non_blocking=True)


class Captured:
    """``with Captured(stream) as graph``: what comes into the stream is in the graph."""

    def __init__(self, stream: Any) -> None:
        self.driver = load_driver()
        self.stream = ctypes.c_void_p(handle_of(stream))

    def __enter__(self) -> Captured:
        assert self.driver.cuStreamBeginCapture_v2(self.stream, 0) == 0
        return self

    def __exit__(self, *error: object) -> None:
        self.graph, self.executable = ctypes.c_void_p(), ctypes.c_void_p()
        assert self.driver.cuStreamEndCapture(self.stream, ctypes.byref(self.graph)) == 0

    def launch(self) -> None:
        """Launch the graph, and wait."""
        made = ctypes.byref(self.executable)
        flags = ctypes.c_ulonglong(0)
        assert self.driver.cuGraphInstantiateWithFlags(made, self.graph, flags) == 0
        assert self.driver.cuGraphLaunch(self.executable, self.stream) == 0
        assert self.driver.cuStreamSynchronize(self.stream) == 0
