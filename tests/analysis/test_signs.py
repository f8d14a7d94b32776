"""Bounds of integer expressions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from pymbolic import parse

from kgen import ExecutableCTarget, make_kernel, remove_unused_arguments
from kgen.analysis.signs import Signs
from kgen.ir.data import GlobalArg, Iname, ValueArg
from kgen.ir.expr import LocalHardwareAxisIndex
from kgen.ir.kernel import LoopKernel
from kgen.ir.sets.interval import Interval
from kgen.ir.sets.text import parse_assumptions, parse_domain
from kgen.ir.tags import LocalInameTag
from kgen.ir.target import TargetBase


def signs() -> Signs:
    kernel = LoopKernel(
        name="k",
        domains=(parse_domain("{ [i, j, l]: 0<=i<n and -3<=j<=5 and 0<=l<16 }"),),
        instructions=(),
        inames={
            "i": Iname("i"),
            "j": Iname("j"),
            "l": Iname("l", frozenset({LocalInameTag(0)})),
        },
        args=(
            GlobalArg("a", np.float32, shape="n"),
            GlobalArg("u", np.uint16, shape="m, n + 3"),
            ValueArg("q", np.int32),
            ValueArg("c", np.uint32),
        ),
        assumptions=parse_assumptions("q >= 2 and q <= 9"),
        target=TargetBase(),
    )
    return Signs(kernel)


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("i", 0, None),
        ("2*j + 1", -5, 11),
        ("-j", -5, 3),
        ("q", 2, 9),
        ("n", 0, None),
        ("m", 0, None),
        ("c", 0, 2**32 - 1),
        ("u[i, j]", 0, 2**16 - 1),
        ("j // 2", -2, 2),
        ("j % 4", 0, 3),
        ("i % q", 0, 8),
        ("i // q", 0, None),
        ("i % n", None, None),
        ("i*q", 0, None),
        ("j*q", -27, 45),
        ("n - i", None, None),
        ("min(i, q)", 0, 9),
        ("max(j, q)", 2, 9),
        ("i < n", 0, 1),
        ("abs(j)", 0, 5),
        ("j if i < 3 else q", -3, 9),
    ],
)
def test_bounds(text: str, low: int | None, high: int | None) -> None:
    assert signs().interval(parse(text)) == Interval(low, high)


def test_work_items_are_as_many_as_the_group_has() -> None:
    assert signs().interval(LocalHardwareAxisIndex(0)) == Interval(0, 15)


def test_the_domain_of_a_statement_tells_more_than_its_variables() -> None:
    top, den = parse("n - 1 - i"), parse("n")
    assert not signs().divides_as_in_c(top, den)
    assert signs().divides_as_in_c(top, den, frozenset({"i"}))
    assert not signs().divides_as_in_c(parse("n - 2 - i"), den, frozenset({"i"}))


def test_bounds_of_loops_around_hold_where_they_were_found() -> None:
    outer = signs().within({}).inside("x", 0, 10).inside("y", parse("x + 1"), parse("2*x + 3"))
    assert outer.interval(parse("y")) == Interval(1, 20)
    below = outer.inside("x", 5).inside("z", parse("y"))
    assert below.interval(parse("x")) == Interval(5, 5)
    assert below.interval(parse("z")) == Interval(1, 20)


#: Expressions of integers of few bits that overflow, and what numpy computes.
OVERFLOWS: dict[str, Callable[..., Any]] = {
    "abs(a[i])": lambda a, b, one: np.abs(a),
    "abs(a[i]) + ONE": lambda a, b, one: np.abs(a) + one,
    "min(abs(a[i]), abs(b[i]))": lambda a, b, one: np.minimum(np.abs(a), np.abs(b)),
    "max(a[i], ONE) + max(b[i], ONE)": lambda a, b, one: np.maximum(a, one) + np.maximum(b, one),
    "max(a[i], ONE)*max(b[i], ONE)": lambda a, b, one: np.maximum(a, one) * np.maximum(b, one),
    "max(a[i], ONE)**2": lambda a, b, one: np.maximum(a, one) ** 2,
}


@pytest.mark.parametrize("dtype", [np.int8, np.int16])
@pytest.mark.parametrize("text", OVERFLOWS)
@pytest.mark.parametrize("operation", ["//", "%"])
def test_results_of_few_bits_may_be_negative_where_they_overflow(
    dtype: type[np.signedinteger[Any]], text: str, operation: str
) -> None:
    info = np.iinfo(dtype)
    a = np.array([info.min, info.max, info.max - 1, -1, 5, 77], dtype)
    knl = make_kernel(
        "{ [i]: 0<=i<6 }",
        f"out[i] = ({text}) {operation} 3".replace("ONE", f"cast(np.{info.dtype}, 1)"),
        [GlobalArg("a, b", dtype, 6), GlobalArg("out", dtype, 6)],
        target=ExecutableCTarget(),
    )
    knl = remove_unused_arguments(knl)
    given = {"a": a, "b": a[::-1].copy()}
    used = [name for name in given if f"{name}[" in text]
    _, (out,) = knl(**{name: given[name] for name in used})
    with np.errstate(over="ignore"):
        value = OVERFLOWS[text](a, a[::-1], dtype(1))
    assert np.array_equal(out, value // 3 if operation == "//" else value % 3)
