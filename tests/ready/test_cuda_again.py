"""Repeated calls on a CUDA device: the launches of earlier ones, with what the memory has now."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kgen.algorithm import RadixSort
from kgen.elementwise import ElementwiseKernel
from kgen.reduction import ReductionKernel
from kgen.runtime import cuda_replay
from kgen.runtime.cuda_graphs import Executable
from kgen.scan import InclusiveScanKernel
from tests.runtime.test_cuda_streams import Captured

gpuarray = pytest.importorskip("pycuda.gpuarray")
drv = pytest.importorskip("pycuda.driver")
pytestmark = pytest.mark.usefixtures("cuda_context")

TURNS = 16


def integers(size: int, seed: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).integers(0, 2**20, size, dtype=np.int32)


@pytest.fixture
def pool() -> Any:
    """Return a pool of memory, whose addresses repeat."""
    return pytest.importorskip("pycuda.tools").DeviceMemoryPool()


@pytest.fixture
def graphs(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return a list to which graphs are added when they are made."""
    made: list[Any] = []

    class Noted(Executable):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            made.append(None)

    monkeypatch.setattr(cuda_replay, "Executable", Noted)
    return made


def sorts() -> Callable[[Any], Any]:
    sort = RadixSort("int *x", "x[i]", ["x"], key_dtype=np.int32)
    return lambda x: sort(x)[0][0]


def sums() -> Callable[[Any], Any]:
    scan = InclusiveScanKernel(np.int32, "a+b")

    def call(x: Any) -> Any:
        return scan(x, gpuarray.empty(x.shape, np.int32, allocator=x.allocator))

    return call


OPERATIONS: dict[str, tuple[Callable[[], Callable[[Any], Any]], Callable[[Any], Any]]] = {
    "sort": (sorts, np.sort),
    "reduction": (
        lambda: ReductionKernel(np.int64, "0", "a+b", "x[i]", "int *x"),
        lambda x: x.sum(dtype=np.int64),
    ),
    "scan": (sums, lambda x: np.cumsum(x, dtype=np.int32)),
}


@pytest.mark.parametrize("size", [1000, 2**16 + 3, 700_000])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_contents_that_change(operation: str, size: int, graphs: list[Any], pool: Any) -> None:
    make, expected = OPERATIONS[operation]
    call, there = make(), gpuarray.empty(size, np.int32, allocator=pool.allocate)
    kept = []
    for turn in range(TURNS):
        x = integers(size, turn)
        there.set(x)
        np.testing.assert_array_equal(call(there).get(), expected(x))
        if turn > 11:  # results of other addresses follow
            kept.append((call(there), expected(x)))
    for found, wanted in kept:
        np.testing.assert_array_equal(found.get(), wanted)
    if size > 2**17:
        assert graphs


def test_many_calls_without_a_wait(pool: Any) -> None:
    """Entries are dropped while their graphs run, and made again."""
    call, xs = sorts(), [integers(50_000, k) for k in range(40)]
    there = [gpuarray.to_gpu(x, allocator=pool.allocate) for x in xs]
    found = [call(one) for _ in range(4) for one in there[:3]]
    found += [call(one) for one in there]
    found += [call(one) for _ in range(4) for one in there[-3:]]
    del call
    gc.collect()
    order = [k for _ in range(4) for k in (0, 1, 2)] + list(range(40))
    order += [k for _ in range(4) for k in (37, 38, 39)]
    for k, one in zip(order, found, strict=True):
        np.testing.assert_array_equal(one.get(), np.sort(xs[k]))


def test_the_callers_capture_is_left_alone(graphs: list[Any]) -> None:
    scan, add = InclusiveScanKernel(np.int32, "a+b"), ElementwiseKernel("int *x", "x[i] += 1")
    x = integers(2**17, 1)
    there, before, during = (gpuarray.to_gpu(x) for _ in range(3))
    before.fill(0)
    count = gpuarray.zeros(100, np.int32)
    stream = drv.Stream(1)  # the default stream does not wait for it
    add(count, stream=stream)
    scan(there, before)
    scan(there, during)
    during.fill(0)
    drv.Context.synchronize()
    with Captured(stream) as graph:
        add(count, stream=stream)
        for _ in range(5):
            scan(there, during)
            add(count, stream=stream)
    assert (count.get() == 1).all()
    graph.launch()
    assert (count.get() == 7).all()
    np.testing.assert_array_equal(during.get(), np.cumsum(x, dtype=np.int32))
    assert graphs


def test_calls_in_two_streams(graphs: list[Any]) -> None:
    """Each of them has its own temporaries, and its order."""
    xs = [integers(200_000, k) for k in range(2)]
    there, streams = [gpuarray.to_gpu(x) for x in xs], [drv.Stream(), drv.Stream(1)]
    out = [gpuarray.zeros(200_000, np.int32) for _ in xs]
    scan, add = InclusiveScanKernel(np.int32, "a+b"), ElementwiseKernel("int *x", "x[i] += 1")
    total = ReductionKernel(np.int64, "0", "a+b", "x[i]", "int *x")
    sort = RadixSort("int *x", "x[i]", ["x"], key_dtype=np.int32)
    found = []
    drv.Context.synchronize()
    for turn in range(8):
        for x, made, stream in zip(there, out, streams, strict=True):
            add(x, stream=stream)
            scan(x, made, stream=stream)
            found.append((turn + 1, total(x, stream=stream), sort(x, stream=stream)[0][0]))
    drv.Context.synchronize()
    for k, (added, sum_of_all, in_order) in enumerate(found):
        np.testing.assert_array_equal(sum_of_all.get(), (xs[k % 2] + added).sum(dtype=np.int64))
        np.testing.assert_array_equal(in_order.get(), np.sort(xs[k % 2] + added))
    for x, made in zip(xs, out, strict=True):
        np.testing.assert_array_equal(made.get(), np.cumsum(x + 8, dtype=np.int32))
    assert len(graphs) >= 2


def test_a_stream_that_the_caller_captures() -> None:
    """Repeated calls join its graph, and are repeated again afterwards."""
    add, stream = ElementwiseKernel("int *x", "x[i] += 1"), drv.Stream()
    scan = InclusiveScanKernel(np.int32, "a+b")
    x = integers(2**17, 1)
    there, out = gpuarray.to_gpu(x), gpuarray.zeros(2**17, np.int32)
    drv.Context.synchronize()
    for _ in range(5):
        add(there, stream=stream)
        scan(there, out, stream=stream)
    drv.Context.synchronize()
    with Captured(stream) as graph:
        add(there, stream=stream)
        add(there, stream=stream)
    np.testing.assert_array_equal(there.get(), x + 5)
    graph.launch()
    np.testing.assert_array_equal(there.get(), x + 7)
    scan(there, out, stream=stream)
    drv.Context.synchronize()
    np.testing.assert_array_equal(out.get(), np.cumsum(x + 7, dtype=np.int32))


def test_arrays_that_are_passed_twice(graphs: list[Any]) -> None:
    scan, dot = (
        InclusiveScanKernel(np.int64, "a+b"),
        ReductionKernel(np.int64, "0", "a+b", "x[i] * y[i]", "long *x, long *y"),
    )
    there, other = (gpuarray.zeros(300_000, np.int64) for _ in range(2))
    other.fill(2)
    for turn in range(6):
        x = integers(300_000, turn).astype(np.int64)
        there.set(x)
        assert dot(there, there).get() == x @ x
        assert dot(there, other).get() == 2 * x.sum()
        assert scan(there) is there
        np.testing.assert_array_equal(there.get(), np.cumsum(x))
    assert graphs


def test_memory_of_the_caller_is_not_kept(pool: Any) -> None:
    add, sort = ElementwiseKernel("int *x", "x[i] += 1"), RadixSort("uint *x", "x[i]", ["x"])
    total = ReductionKernel(np.int32, "0", "a+b", "x[i]", "int *x")
    x = gpuarray.zeros(2**17, np.int32, allocator=pool.allocate)
    for _ in range(5):
        add(x)
        total(x)
    u = gpuarray.zeros(5000, np.uint32, allocator=pool.allocate)
    for _ in range(5):
        sort(u)
    n_blocks = pool.active_blocks
    del x, u
    gc.collect()
    assert pool.active_blocks == n_blocks - 2


def test_other_numbers_types_and_memory() -> None:
    """Each call differs from an earlier one in something that the launches depend on."""
    axpy = ElementwiseKernel("float a, float *x, float *z", "z[i] = a*x[i]")
    values = np.arange(1, 65, dtype=np.float32)
    x, z = gpuarray.to_gpu(values), gpuarray.zeros(64, np.float32)
    for _ in range(3):
        for a in (2, 2.0, np.float32(2), True, 0.0, -0.0, 0, 1e-3, np.float64(1e-3)):
            axpy(a, x, z)
            np.testing.assert_array_equal(z.get(), np.float32(a) * values)
            assert (np.signbit(z.get()) == (str(a) == "-0.0")).all()
        axpy(3, x[:16], z[:16])
        axpy(4, x[16:], z[16:])
        np.testing.assert_array_equal(z.get(), np.repeat([3, 4], [16, 48]) * values)
        axpy(5, z, z)  # in place
        np.testing.assert_array_equal(z.get()[:16], 15 * values[:16])
        with pytest.raises(Exception, match="float64"):
            axpy(2, gpuarray.to_gpu(np.ones(64)), z)
