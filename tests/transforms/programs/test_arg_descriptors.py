"""Shapes and strides of arrays in called kernels, from the calls."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kgen as lp
from tests.transforms.helpers import run


def found(unit: lp.TranslationUnit, kernel: str, name: str) -> tuple[Any, Any]:
    """Return shape and strides of an argument of a called kernel."""
    arg = lp.infer_arg_descr(unit)[kernel].arg_dict[name]
    assert isinstance(arg, lp.ArrayArg)
    return arg.shape, arg.fixed_strides


def twice() -> lp.TranslationUnit:
    return lp.make_function("{ [i]: 0 <= i < 4 }", "y[i] = 2*x[i]", name="twice")


def columns(*texts: str) -> lp.TranslationUnit:
    data = [lp.GlobalArg("a", np.float64, shape="16, 4"), lp.GlobalArg("b", shape="4, 16"), ...]
    return lp.make_kernel(
        "{ [i, j, k, l]: 0 <= i < 16 and 0 <= j, k < 4 and 0 <= l < 2 }", "\n".join(texts), data
    )


def test_rows_and_columns() -> None:
    unit = lp.merge([columns("[k]: b[k, i] = twice([j]: a[i, j])"), twice()])
    assert found(unit, "twice", "x") == ((4,), (1,))
    assert found(unit, "twice", "y") == ((4,), (16,))


def test_steps_in_subscripts() -> None:
    unit = lp.merge([columns("[k]: b[k, i] = twice([j]: a[3*j + i % 2, 1])"), twice()])
    assert found(unit, "twice", "x") == ((4,), (12,))


def test_what_calls_do_not_agree_on_stays_open() -> None:
    calls = ("[k]: b[k, i] = twice([j]: a[i, j])", "[k]: b[k, i] = twice([j]: a[j, 0])")
    unit = lp.merge([columns(*calls), twice()])
    assert found(unit, "twice", "x") == ((4,), (1,))  # as declared
    assert found(unit, "twice", "y") == ((4,), (16,))


def test_sizes_that_are_passed_are_known_by_their_inner_names() -> None:
    inner = lp.make_function(
        "{ [i]: 0 <= i < m }", "y[i] = 2*x[i]", [lp.ValueArg("m", np.int32), ...], name="inner"
    )
    outer = lp.make_kernel(
        "{ [i, j, k]: 0 <= i < 3 and 0 <= j, k < n }",
        "[k]: b[i, k] = inner(n, [j]: a[j, i])",
        [lp.GlobalArg("a", np.float64, shape="n, n"), lp.GlobalArg("b", shape="3, n"), ...],
        assumptions="n >= 3",
    )
    unit = lp.merge([outer, inner])
    shape, strides = found(unit, "inner", "x")
    assert [str(part) for part in (*shape, *strides)] == ["m", "m"]
    a = np.random.default_rng(0).random((5, 5))
    np.testing.assert_array_equal(run(lp.infer_arg_descr(unit), a=a)["b"], 2 * a.T[:3])


def test_callers_come_first() -> None:
    middle = lp.make_function(
        "{ [j, k]: 0 <= j, k < 4 }", "[k]: v[k] = twice([j]: u[j])", name="middle"
    )
    unit = lp.merge([columns("[k]: b[k, i] = middle([j]: a[j, 1])"), middle, twice()])
    assert found(unit, "middle", "u") == ((4,), (4,))
    assert found(unit, "twice", "x") == ((4,), (4,))
    assert found(unit, "twice", "y") == ((4,), (16,))


def test_declared_shapes_and_entry_points_stay() -> None:
    declared = lp.make_function(
        "{ [i]: 0 <= i < 4 }",
        "y[i] = 2*x[i]",
        [lp.GlobalArg("x", shape=4, dim_tags="stride:8"), ...],
        name="twice",
    )
    unit = lp.merge([columns("[k]: b[k, i] = twice([j]: a[j, 1])"), declared])
    assert found(unit, "twice", "x") == ((4,), (8,))
    alone = lp.make_kernel("{ [i]: 0 <= i < 4 }", "y[i] = 2*x[i]", name="alone")
    assert lp.infer_arg_descr(alone) == alone


def test_calls_that_do_not_fit_are_refused() -> None:
    unit = lp.merge([columns("[k]: b[k, i] = twice([j]: a[i, j], 3)"), twice()])
    with pytest.raises(lp.TransformError, match="passes 2 and assigns 1"):
        lp.infer_arg_descr(unit)
