"""Repeated calls as on CUDA, of arrays of the host that have addresses as those of CUDA."""

from __future__ import annotations

import ctypes
import weakref
from typing import Any, Self

import numpy as np
import pytest

from kgen import algorithm, reduction
from kgen.algorithm import RadixSort
from kgen.elementwise import ElementwiseKernel
from kgen.ready import places, shortcut
from kgen.ready.places import HOST, Place
from kgen.runtime.c import CExecutor
from kgen.scan import ExclusiveScanKernel


class Array(np.ndarray[Any, Any]):
    """An array with an address and an allocator."""

    allocator = None

    @property
    def gpudata(self) -> int:
        return int(self.__array_interface__["data"][0])


class Options(dict[str, Any]):
    """No options, of a place where calls are repeated."""

    def __bool__(self) -> bool:
        return True


class HostReplay:
    """Makes launches again, as :class:`kgen.runtime.cuda_replay.Replay`."""

    n_packed = 0

    def __init__(self, launches: list[Any]) -> None:
        self.launches = launches

    @classmethod
    def of_all(cls, replays: list[Self], kernel: str) -> Self:
        return cls([one for each in replays for one in each.launches])

    def __call__(self) -> None:
        for launch in self.launches:
            launch()


def there(value: Any) -> Any:
    """Return a function that returns an argument; an array is what is at its address by then."""
    if not isinstance(value, np.ndarray):
        return lambda: value
    shape, dtype, memory = value.shape, value.dtype, ctypes.c_char * value.nbytes
    address = int(value.__array_interface__["data"][0])
    return lambda: np.ndarray(shape, dtype, memoryview(memory.from_address(address)))


def packed(executor: Any, /, **arguments: Any) -> Any:
    HostReplay.n_packed += 1
    outputs = executor.bind(**arguments).outputs
    stored = {name: there(value) for name, value in arguments.items()}
    made = {name: value for name, value in outputs.items() if name not in arguments}

    def launch() -> None:
        executor(**{name: value() for name, value in stored.items()}, **made)

    return HostReplay([launch]), outputs


class Pool:
    """Memory in which addresses repeat."""

    def __init__(self) -> None:
        self.free: dict[int, list[Any]] = {}

    def empty(self, _place: Any, _like: Any, shape: tuple[int, ...], dtype: Any) -> Any:
        n_bytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
        free = self.free.setdefault(n_bytes, [])
        memory = free.pop() if free else np.empty(n_bytes, np.uint8)
        made = Array(shape, dtype, buffer=memory)
        weakref.finalize(made, free.append, memory)
        return made

    def maker_like(self, place: Any, one: Any) -> Any:
        shape, dtype = one.shape, one.dtype
        return lambda _: self.empty(place, None, shape, dtype)


@pytest.fixture(autouse=True)
def as_on_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "_CUDA", Place(HOST.target, (), is_gpu=False, options=Options()))
    monkeypatch.setattr(CExecutor, "packed", packed, raising=False)
    pool = Pool()
    for module in (algorithm, shortcut):
        monkeypatch.setattr(module, "maker_like", pool.maker_like)
    for module in (algorithm, reduction):
        monkeypatch.setattr(module, "new_array", pool.empty)
    HostReplay.n_packed = 0


def integers(size: int, seed: int) -> Any:
    return np.random.default_rng(seed).integers(-(2**20), 2**20, size, dtype=np.int32)


@pytest.mark.parametrize("key_bits", [None, 8, 12])
def test_sorts_move_the_contents_of_each_call(key_bits: int | None) -> None:
    sort = RadixSort("short *y, int *x", "x[i]", ["x", "y"], key_dtype=np.int32)
    y, x = np.arange(500, dtype=np.int16).view(Array), np.zeros(500, np.int32).view(Array)
    kept = []
    for turn in range(20):
        x[:] = integers(500, turn) & (-1 if key_bits is None else 2**key_bits - 1)
        order = np.argsort(np.asarray(x), kind="stable")
        (sorted_x, sorted_y), _ = sort(y, x, key_bits=key_bits)
        np.testing.assert_array_equal(sorted_x, x[order])
        np.testing.assert_array_equal(sorted_y, y[order])
        if turn % 9 == 0:  # memory of others follows
            kept.append((sorted_x, sorted_x.copy()))
        del sorted_x, sorted_y
    for found, expected in kept:
        np.testing.assert_array_equal(found, expected)
    n_passes = -(-(key_bits or 32) // 8)
    assert HostReplay.n_packed <= 6 * n_passes


def test_other_calls() -> None:
    total = reduction.ReductionKernel(np.int64, "0", "a+b", "x[i]", "int *x")
    scan = ExclusiveScanKernel(np.int32, "a+b", "0")
    axpy = ElementwiseKernel("int a, int *x, int *y", "y[i] = a*x[i] + y[i]")
    x, out, y = (np.zeros(400, np.int32).view(Array) for _ in range(3))
    for turn in range(12):
        x[:] = integers(400, turn)
        assert total(x) == np.asarray(x).sum(dtype=np.int64)
        assert total(x[:9]) == np.asarray(x[:9]).sum(dtype=np.int64)
        assert scan(x, out) is out
        np.testing.assert_array_equal(out[1:], np.cumsum(x, dtype=np.int32)[:-1])
        scan(out, out)
        sums = np.cumsum(np.cumsum(x, dtype=np.int32)[:-1], dtype=np.int32)[:-1]
        np.testing.assert_array_equal(out[2:], sums)
        before = y.copy()
        axpy(turn % 3, x, y)
        np.testing.assert_array_equal(y, turn % 3 * x + before)
        axpy(turn % 2, y, y)
        np.testing.assert_array_equal(y, (turn % 2 + 1) * (turn % 3 * x + before))
    assert HostReplay.n_packed <= 12
