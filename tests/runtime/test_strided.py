"""The memory behind arrays of any layout."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgen.errors import InvocationError
from kgen.runtime.strided import copy_layout, empty_strided, extent_in_bytes, memory_of

BASE = np.arange(7 * 6, dtype=np.int32).reshape(7, 6)


@st.composite
def views(draw: Any) -> np.ndarray[Any, Any]:
    """Draw a part of BASE: any steps, either order of axes."""
    ranges, steps = [], []
    for extent in BASE.shape:
        ends = sorted(draw(st.tuples(st.integers(0, extent), st.integers(0, extent))))
        ranges.append(slice(*ends))
        steps.append(slice(None, None, draw(st.sampled_from([1, 2, 3, -1, -2]))))
    view = BASE[tuple(ranges)][tuple(steps)]
    return view.T if draw(st.booleans()) else view


@given(views())
def test_memory_holds_the_array_with_its_strides(view: np.ndarray[Any, Any]) -> None:
    flat, first = memory_of("view", view)
    assert flat.nbytes == extent_in_bytes(view.shape, view.strides, view.itemsize)
    if view.size:
        memory = flat.copy()
        again: Any = np.ndarray(view.shape, view.dtype, memory.data, first, view.strides)
        np.testing.assert_array_equal(again, view)


@given(views())
def test_a_copy_has_the_layout(view: np.ndarray[Any, Any]) -> None:
    flat, copied, first = copy_layout(view.shape, view.strides, view.dtype)
    assert flat.nbytes == extent_in_bytes(view.shape, view.strides, view.itemsize)
    assert copied.shape == view.shape
    if view.size:
        assert copied.strides == view.strides
        assert copied.ctypes.data - flat.ctypes.data == first
        copied[...] = view
        np.testing.assert_array_equal(memory_of("copied", copied)[0], flat)


def test_strides_between_elements() -> None:
    records = np.zeros(4, [("a", "i1"), ("b", "<i4")])
    with pytest.raises(InvocationError, match="argument 'x' has strides"):
        memory_of("x", records["b"])


def test_empty_strided() -> None:
    made = empty_strided((3, 2), np.dtype(np.float64), (8, 40))
    made[...] = 5
    assert made.strides == (8, 40)
    assert made.flags.aligned
    assert empty_strided((0, 2), np.dtype(np.float64), (16, 8)).shape == (0, 2)
