"""Which calls on CUDA are taken for repetitions; arrays are descriptions, and replays are noted."""

from __future__ import annotations

import pickle
import weakref
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from kgen.ready.again import Again, Repeated
from kgen.ready.arguments import read_arguments

FLOAT = np.dtype(np.float32)
ARGUMENTS = read_arguments("float a, float *x, float *y")


@dataclass(frozen=True, eq=False)
class Array:
    gpudata: int | None
    shape: tuple[int, ...] = (8,)
    strides: tuple[int, ...] = (4,)
    dtype: np.dtype[Any] = FLOAT
    allocator: Any = None


X, Y = Array(1024), Array(2048)


class Calls:
    """A kernel whose calls are made, or repeated."""

    def __init__(self) -> None:
        self.again = Again(ARGUMENTS)
        self.packed: list[tuple[Any, ...]] = []
        self.replayed: list[int] = []

    def pack(self, args: tuple[Any, ...], new: list[Any]) -> Any:
        number = len(self.packed)
        self.packed.append((args[0], *(one.gpudata for one in new)))
        return lambda: self.replayed.append(number)

    def __call__(self, *args: Any, **made: Any) -> Any:
        found = self.again(args)
        return self.again.make(args, Repeated(self.pack, **made)) if found is None else found


def test_calls_that_are_the_same() -> None:
    calls = Calls()
    for _ in range(3):
        calls(2.0, replace(X), replace(Y))
    assert calls.replayed == [0, 0, 0]
    assert len(calls.packed) == 1


def test_calls_in_other_streams() -> None:
    calls, args = Calls(), (2.0, X, Y)
    for stream in (None, (7, 1), (7, 2)):
        calls.again.make(args, Repeated(calls.pack), stream)
    for stream in ((7, 2), None, (7, 1), (7, 3)):
        assert (calls.again(args, stream) is None) == (stream == (7, 3))
    assert calls.replayed == [0, 1, 2, 2, 0, 1]


OTHERS = [
    (2.5, X, Y),
    (2, X, Y),
    (np.float32(2), X, Y),
    (True, X, Y),
    (0.0, X, Y),
    (-0.0, X, Y),
    (0, X, Y),
    (2.0, Y, X),
    (2.0, X, X),
    (2.0, X, replace(X)),
    (2.0, X, replace(Y, gpudata=4096)),
    (2.0, X, replace(Y, shape=(4,))),
    (2.0, X, replace(Y, strides=(8,))),
    (2.0, X, replace(Y, dtype=np.dtype(np.int32))),
]


def test_calls_that_differ_in_anything() -> None:
    calls = Calls()
    for args in 2 * [(2.0, X, Y), *OTHERS]:
        assert calls.again.takes(args)
        calls(*args)
    assert calls.replayed == 2 * list(range(1 + len(OTHERS)))


@pytest.mark.parametrize(
    "args",
    [
        (float("nan"), X, Y),
        (np.float32("nan"), X, Y),
        (np.array(2.0), X, Y),  # whose text is rounded
        ("2", X, Y),
        (2j, X, Y),
        (2.0, X, replace(Y, gpudata=None)),
        (2.0, X, np.zeros(8)),
        (2.0, X),
        (2.0, X, Y, Y),
    ],
)
def test_calls_that_are_never_repeated(args: Any) -> None:
    calls = Calls()
    calls(2.0, X, Y)
    assert calls.again(args) is None
    assert not calls.again.takes(args)


def test_results_are_in_new_memory() -> None:
    calls, free = Calls(), [16, 32, 16, 48, 16, 64, 80, 64]

    def make(allocator: Any) -> Any:
        assert allocator == "that of y"
        return Array(free.pop(0))

    args = (2.0, X, replace(Y, allocator="that of y"))
    more: dict[str, Any] = {"makers": [(2, make), (2, make)], "results": slice(1, 2)}
    found = [calls(*args, **more)[0].gpudata for _ in range(4)]
    assert found == [32, 48, 64, 64]
    assert calls.replayed == [0, 1, 2, 3]
    free += [16, 48]
    assert calls(*args, **more)[0].gpudata == 48
    assert calls.replayed[4:] == [1]
    assert calls.packed == [(2.0, 16, 32), (2.0, 16, 48), (2.0, 16, 64), (2.0, 80, 64)]


def test_what_is_kept() -> None:
    """There are 32 replays, with no array of the caller, nor in a copy."""
    calls, x = Calls(), Array(512)
    calls(1.0, x, Y)
    alive = weakref.ref(x)
    del x
    calls.packed.clear()
    assert alive() is None
    assert pickle.loads(pickle.dumps(calls.again))((1.0, Array(512), Y)) is None  # noqa: S301
    for k in range(31):
        calls(float(k), X, Y)
    assert calls.again((1.0, Array(512), Y)) == []
    calls(31.0, X, Y)
    assert calls.again((1.0, Array(512), Y)) is None
    assert calls.again((31.0, X, Y)) == []
