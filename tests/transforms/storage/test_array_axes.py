"""split_array_axis and concatenate_arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kgen as lp
from kgen.errors import TransformError

A = np.arange(40 * 7, dtype=np.float32).reshape(40, 7)


def scale(instruction: str = "out[i, j] = 2*a[i, j]") -> Any:
    return lp.make_kernel(
        "{ [i, j]: 0 <= i < n and 0 <= j < m }",
        instruction,
        [lp.GlobalArg("a, out", np.float32, shape="n, m"), ...],
        target=lp.ExecutableCTarget(),
    )


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("split_loop", [False, True])
def test_split_argument(order: str, split_loop: bool) -> None:
    knl = lp.split_iname(scale(), "i", 16) if split_loop else scale()
    knl = lp.split_array_axis(knl, "a", 0, 16, order=order)
    padded = np.zeros((48, 7), np.float32)
    padded[:40] = A
    groups = padded.reshape(3, 16, 7)
    _, (out,) = knl(a=groups if order == "C" else groups.transpose(1, 0, 2), n=40)
    np.testing.assert_array_equal(out, 2 * A)


def test_loop_bounds_make_divisions_unnecessary() -> None:
    knl = lp.split_array_axis(lp.split_iname(scale(), "i", 16), "a", 0, 16)
    (insn,) = knl.default_entrypoint.instructions
    assert str(insn).startswith("out[i_inner + i_outer*16, j] = 2*a[i_outer, i_inner, j]")


def test_split_temporaries_and_the_memory_they_have() -> None:
    knl = lp.make_kernel(
        "{ [i, j]: 0 <= i, j < 8 }",
        ["<> t[i] = a[i] {id=t}", "out[j] = t[7 - j] {dep=t}"],
        target=lp.ExecutableCTarget(),
    )
    knl = lp.split_array_axis(lp.add_dtypes(knl, {"a": np.float32}), "t", 0, 4)
    assert knl.default_entrypoint.temporary_variables["t"].shape == (2, 4)
    a = np.arange(8, dtype=np.float32)
    np.testing.assert_array_equal(knl(a=a)[1][0], a[::-1])


def test_names_of_axes_are_split() -> None:
    knl = lp.set_array_axis_names(scale(), "a", "row,column")
    arg = lp.split_array_axis(knl, "a", 1, 4).default_entrypoint.arg_dict["a"]
    assert arg.dim_names == ("row", "column_outer", "column_inner")


def test_splits_that_cannot_be() -> None:
    with pytest.raises(TransformError, match="has 2 axes, and no axis 2"):
        lp.split_array_axis(scale(), "a", 2, 4)
    with pytest.raises(TransformError, match="count=0 is not a positive number"):
        lp.split_array_axis(scale(), "a", 0, 0)
    with pytest.raises(TransformError, match="neither 'C' nor 'F'"):
        lp.split_array_axis(scale(), "a", 0, 4, order="K")
    vectors = lp.make_kernel(
        "{ [i, j]: 0 <= i < n and 0 <= j < 4 }",
        "a[i, j] = 0",
        [lp.GlobalArg("a", np.float32, shape="n, 4", dim_tags="c,vec"), ...],
    )
    with pytest.raises(TransformError, match="axis 1 of array 'a' is 'vec'"):
        lp.split_array_axis(vectors, "a", 1, 2)


@pytest.mark.parametrize("axis", [0, 1])
def test_concatenate_arguments(axis: int) -> None:
    knl = lp.make_kernel(
        "{ [i, j]: 0 <= i < n and 0 <= j < m }",
        "c[i, j] = a[i, j] - 2*b[i, j]",
        [lp.GlobalArg("a, b, c", np.float32, shape="n, m"), ...],
        target=lp.ExecutableCTarget(),
    )
    knl = lp.concatenate_arrays(knl, "a, b, c", "abc", axis)
    both = np.concatenate([A, A[::-1], 0 * A], axis)
    knl(abc=both, n=40, m=7)
    c = both[80:] if axis == 0 else both[:, 14:]
    np.testing.assert_array_equal(c, A - 2 * A[::-1])


def test_concatenate_temporaries() -> None:
    knl = lp.make_kernel(
        "{ [i]: 0 <= i < 8 }",
        ["<> t[i] = a[i]", "<> u[i] = 3*t[i]", "out[i] = u[i] + t[i]"],
        target=lp.ExecutableCTarget(),
    )
    knl = lp.concatenate_arrays(knl, ["t", "u"])
    assert list(knl.default_entrypoint.temporary_variables) == ["concatenated"]
    a = np.arange(8, dtype=np.float32)
    np.testing.assert_array_equal(knl(a=a)[1][0], 4 * a)


def test_rules_are_changed_too() -> None:
    knl = lp.make_kernel(
        "{ [i]: 0 <= i < 8 }",
        ["f(k) := a[k]*b[k]", "out[i] = f(i)"],
        [lp.GlobalArg("a, b", np.float32, shape=(8,)), ...],
        target=lp.ExecutableCTarget(),
    )
    ab = np.arange(16, dtype=np.float32)
    _, (out,) = lp.concatenate_arrays(knl, "a,b", "ab")(ab=ab)
    np.testing.assert_array_equal(out, ab[:8] * ab[8:])


@pytest.mark.parametrize(
    ("dtype", "shape", "use", "why"),
    [
        (np.float64, (8,), "b[i]", "their types differ"),
        (np.float32, (8, 2), "b[i, 0]", "their shapes differ"),
    ],
)
def test_unlike_arrays_are_not_put_together(dtype: Any, shape: Any, use: str, why: str) -> None:
    knl = lp.make_kernel(
        "{ [i]: 0 <= i < 8 }",
        f"out[i] = a[i] + {use}",
        [lp.GlobalArg("a", np.float32, shape=(8,)), lp.GlobalArg("b", dtype, shape=shape), ...],
    )
    with pytest.raises(TransformError, match=why):
        lp.concatenate_arrays(knl, "a,b", "ab")


def test_an_array_cannot_be_put_behind_itself() -> None:
    with pytest.raises(TransformError, match="two arrays or more"):
        lp.concatenate_arrays(scale(), "a,a")
