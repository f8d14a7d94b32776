"""Graphs of launches: made by one capture, launched, and given other arguments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import kgen as lp
from kgen.runtime.cuda_graphs import CudaGraph, GraphMaker
from kgen.runtime.cuda_streams import handle_of
from tests.runtime.fake_cuda import FakeDriver


def graph_of(driver: FakeDriver, launched: list[Any], **arguments: Any) -> CudaGraph:
    """Return a graph of two launches, which note the stream and an argument."""

    def bind(given: Mapping[str, Any]) -> Any:
        if given["a"] is None:
            raise lp.InvocationError("argument 'a' is missing")

        def function(grid: Any, stream: int, a: Any) -> None:
            launched.append((grid, stream, a))

        calls = [(function, ((k, 1, 1), (given["a"],))) for k in (1, 2)]
        return calls, {"out": given.get("out", "made")}, None

    made = GraphMaker(
        driver=driver, bind=bind, stream=9, address_of=handle_of, event_in=lambda stream: stream
    )
    return CudaGraph(made, arguments)


def test_launches_are_recorded_once_and_launched_as_one() -> None:
    driver, launched = FakeDriver(), list[Any]()
    graph = graph_of(driver, launched, a=5)
    assert launched == [((1, 1, 1), 9, 5), ((2, 1, 1), 9, 5)]
    assert graph.outputs == {"out": "made"}
    assert graph(7) is None
    assert graph(8, event=True) == 8
    assert [stream for _, stream in driver.called("cuGraphLaunch")] == [7, 8]
    assert len(launched) == 2
    assert driver.names.count("cuGraphInstantiateWithFlags") == 1
    assert driver.names.count("cuGraphDestroy") == 1


@pytest.mark.parametrize(("error", "n_made"), [(0, 1), (910, 3)])
def test_other_arguments_change_what_is_launched(error: int, n_made: int) -> None:
    driver, launched = FakeDriver(cuGraphExecUpdate_v2=error), list[Any]()
    graph = graph_of(driver, launched, a=5)
    graph(7, a=6)
    graph.update(out="mine")
    assert [a for *_, a in launched] == [5, 5, 6, 6, 6, 6]
    assert graph.outputs == {"out": "mine"}
    assert driver.names.count("cuGraphInstantiateWithFlags") == n_made


def test_what_is_wrong_with_other_arguments_changes_nothing() -> None:
    driver = FakeDriver()
    graph = graph_of(driver, [], a=5)
    n_calls = len(driver.calls)
    with pytest.raises(lp.InvocationError, match="'a' is missing"):
        graph.update(a=None)
    assert len(driver.calls) == n_calls
    graph()


def test_a_capture_ends_where_a_launch_fails() -> None:
    driver = FakeDriver()

    def fails(*_: Any) -> None:
        raise lp.InvocationError("no launch")

    made = GraphMaker(
        driver=driver,
        bind=lambda given: ([(fails, ((1, 1, 1), ()))], {}, None),
        stream=9,
        address_of=handle_of,
        event_in=handle_of,
    )
    with pytest.raises(lp.InvocationError, match="no launch"):
        CudaGraph(made, {})
    assert driver.names == ["cuStreamBeginCapture_v2", "cuStreamEndCapture", "cuGraphDestroy"]


def program(target: lp.TargetBase) -> lp.TranslationUnit:
    knl = lp.make_kernel("{ [i]: 0 <= i < n }", "out[i] = c*a[i]", target=target)
    return lp.split_iname(knl, "i", 64, outer_tag="g.0", inner_tag="l.0")


def test_other_targets_have_no_graphs() -> None:
    with pytest.raises(lp.InvocationError, match=r"has no graphs(?s:.*)executor\.bind"):
        program(lp.ExecutableCTarget()).executor().capture(a=np.zeros(3), c=2)


@pytest.mark.usefixtures("cuda_context")
def test_graphs_on_the_device() -> None:
    driver = pytest.importorskip("pycuda.driver")
    array = pytest.importorskip("pycuda.gpuarray")
    a, out = array.to_gpu(np.arange(300.0)), array.to_gpu(np.zeros(300))
    graph = program(lp.PyCudaTarget()).executor().capture(a=a, c=2.0, out=out)
    assert not out.get().any()
    own = driver.Stream()
    for stream in (None, own, own.handle):
        out.fill(0)
        driver.Context.synchronize()
        graph(stream, event=True).synchronize()
        np.testing.assert_array_equal(out.get(), 2 * np.arange(300.0))
    b = array.to_gpu(np.ones(300))
    graph(a=b, c=5.0)
    np.testing.assert_array_equal(graph.outputs["out"].get(), np.full(300, 5.0))
    with pytest.raises(lp.InvocationError, match="has shape"):
        graph(a=array.to_gpu(np.ones(7)))
    graph()
    with pytest.raises(lp.InvocationError, match="arrays of its device only"):
        program(lp.PyCudaTarget()).executor().capture(a=np.ones(3), c=1.0)
    with pytest.raises(lp.KgenError, match="'c'"):
        graph(c="5")


@pytest.mark.usefixtures("cuda_context")
def test_graphs_in_streams_and_with_arrays_of_torch() -> None:
    torch = pytest.importorskip("torch")
    a, out = torch.arange(9.0, device="cuda"), torch.zeros(9, device="cuda")
    graph = program(lp.PyCudaTarget()).executor().capture(a=a, c=np.float32(2), out=out)
    stream = torch.cuda.Stream()
    graph(stream)
    stream.synchronize()
    assert out.tolist() == [2.0 * k for k in range(9)]
    assert graph.outputs["out"] is out
