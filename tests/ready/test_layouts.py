"""Ready kernels on arrays of any type, axes, strides and sizes, beside numpy."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from kgen.algorithm import unique
from kgen.elementwise import ElementwiseKernel
from kgen.linalg import einsum
from kgen.reduction import ReductionKernel
from kgen.scan import ExclusiveScanKernel, InclusiveScanKernel

C_NAMES = {
    "bool": "bool",
    "int8": "char",
    "uint16": "ushort",
    "int32": "int",
    "uint64": "ulong",
    "float16": "half",
    "float32": "float",
    "complex64": "cfloat_t",
    "complex128": "cdouble_t",
}
SHAPES = [(0, 3), (3, 0, 2), (1, 1, 1), (7,), (5, 3), (2, 9, 4), (300, 130)]
VIEWS = [(1, 1, 0), (2, 1, 0), (1, -1, 0), (-2, 3, 1), (1, 1, 1)]


@st.composite
def arrays(draw: st.DrawFn) -> Any:
    """Return an array of small whole numbers: with steps, backwards, transposed, or as it is."""
    dtype = draw(st.sampled_from(sorted(C_NAMES)))
    array = np.random.default_rng(8).integers(0, 3, draw(st.sampled_from(SHAPES))).astype(dtype)
    first, last, is_transposed = draw(st.sampled_from(VIEWS))
    array = array[::first, ..., ::last] if array.ndim > 1 else array[::first]
    return array.T if is_transposed else array


@settings(max_examples=8)
@given(x=arrays(), data=st.data())
def test_they_do_as_numpy_does(x: Any, data: st.DataObject) -> None:
    axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
    add, operation = (np.logical_or, "a || b") if x.dtype == bool else (np.add, "a + b")
    out = np.zeros_like(x)
    name = C_NAMES[x.dtype.name]
    ElementwiseKernel(f"{name} *x, {name} *y", "y[i] = x[i]")(x, out)
    np.testing.assert_array_equal(out, x)
    found = ReductionKernel(x.dtype, "0", operation, arguments=f"{name} *x")(x, axis=axis)
    np.testing.assert_array_equal(found, add.reduce(x, axis=axis, dtype=x.dtype))
    sums = add.accumulate(x, axis=axis, dtype=x.dtype)
    np.testing.assert_array_equal(InclusiveScanKernel(x.dtype, operation)(x, axis=axis), sums)
    before = np.roll(sums, 1, axis)
    np.moveaxis(before, axis, 0)[:1] = 0
    found = ExclusiveScanKernel(x.dtype, operation, "0")(x, axis=axis)
    np.testing.assert_array_equal(found, before)


@pytest.mark.parametrize("spec", ["ij,jk->ik", "ij,ij->ij", "ij->j", "ij->ji"])
def test_products_of_truth_values(spec: str) -> None:
    a = np.random.default_rng(1).integers(0, 2, (6, 6)).astype(bool)
    operands = [a, ~a][: spec.count(",") + 1]
    expected = np.einsum(spec, *operands)
    found = einsum(spec, *operands)
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("step", [3, -1, -2])
def test_neighbours_in_views(step: int) -> None:
    x = (np.arange(40, dtype=np.int32) // 3)[::step]
    out, count, _ = unique(x)
    np.testing.assert_array_equal(out[: int(count)], np.unique(x)[:: np.sign(step)])
