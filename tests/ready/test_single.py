"""Repeated calls on CUDA that one kernel computes, with arrays that have no device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kgen.ready.places import may_overlap
from kgen.ready.single import Launch, SingleLaunches, layouts_on_cuda

FLOAT32 = np.dtype(np.float32)


@dataclass(eq=False)
class DeviceArray:
    """What describes an array of pycuda."""

    ptr: int
    shape: tuple[int, ...] = (4, 4)
    strides: tuple[int, ...] = (16, 4)
    dtype: Any = FLOAT32

    @property
    def gpudata(self) -> int | None:
        return self.ptr if 0 not in self.shape else None


def run(**given: Any) -> None:
    """Stand for an executor."""


def test_layouts_differ_by_shape_strides_type_and_alignment() -> None:
    others = [
        DeviceArray(512),
        DeviceArray(260),
        DeviceArray(256, (2, 4)),
        DeviceArray(256, strides=(4, 16)),
        DeviceArray(256, dtype=np.dtype(np.int32)),
    ]
    first, *rest = (layouts_on_cuda([array]) for array in (DeviceArray(256), *others))
    assert [found == first for found in rest] == [True, False, False, False, False]


def test_calls_with_other_memory_or_one_array_twice_are_not_kept() -> None:
    array = DeviceArray(256)
    assert layouts_on_cuda([array, np.zeros(3)]) is None
    assert layouts_on_cuda([array, DeviceArray(0, (0, 3))]) is None
    assert layouts_on_cuda([array, array]) is None


def test_operands_are_those_of_the_call_in_the_order_of_the_kernel() -> None:
    a, b, found = (DeviceArray(256 * k) for k in (1, 2, 3))
    known = SingleLaunches()
    known.keep("key", Launch(run, [b, a], None, found), [a, b], None, found)
    assert known.find("key", ["new a", "new b"]) == (run, ["new b", "new a"])
    assert known.find("other", [a, b]) is None


def test_calls_with_copies_are_not_kept() -> None:
    a, copy, out, found = (DeviceArray(256 * k) for k in (1, 2, 3, 4))
    known = SingleLaunches()
    known.keep("operand", Launch(run, [copy], None, found), [a], None, found)
    known.keep("result", Launch(run, [a], None, found), [a], None, copy)
    known.keep("out", Launch(run, [a], None, found), [a], out, out)
    assert not any(known.find(key, [a]) for key in ("operand", "result", "out"))
    known.keep("out", Launch(run, [a], out, found), [a], out, out)
    assert known.find("out", [a]) == (run, [a])


def test_views_of_cuda_memory_overlap() -> None:
    whole, backwards = DeviceArray(256), DeviceArray(256 + 60, strides=(-16, -4))
    assert may_overlap(whole, DeviceArray(256))
    assert may_overlap(whole, backwards)
    assert may_overlap(whole, DeviceArray(256 + 60))
    assert not may_overlap(whole, DeviceArray(256 + 64))
    assert not may_overlap(whole, DeviceArray(256, (0, 4)))
