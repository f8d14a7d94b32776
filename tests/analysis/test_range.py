from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kgen as lp
from kgen.analysis.infer import infer_types
from kgen.analysis.range import PARAM_LIMIT, Ranges, index_type, loop_type
from kgen.analysis.shapes import infer_argument_shapes
from kgen.ir.construction.make import make_loop_kernel
from kgen.ir.data import GlobalArg, ValueArg
from kgen.ir.expr import TruncQuotient, TruncRemainder
from kgen.ir.kernel import LoopKernel
from kgen.ir.language.expressions import parse
from kgen.ir.sets.interval import ANYTHING, Interval
from kgen.ir.target import TargetBase
from kgen.ir.types import INT32, INT64, auto


def kernel(
    shape: Any,
    *,
    domain: Any = "{ [i]: 0 <= i < n }",
    instructions: str = "a[0] = 0*i",
    n: Any = np.int32,
    arg: dict[str, Any] | None = None,
    **options: Any,
) -> LoopKernel:
    if isinstance(shape, tuple):
        instructions = f"a[{', '.join('0' for _ in shape)}] = 0*i" if shape else "a = 0*i"
    data = [GlobalArg("a", np.float32, shape=shape, **arg or {}), ValueArg("n", n), "..."]
    made = make_loop_kernel(domain, instructions, data, name="knl", target=TargetBase(), **options)
    return infer_types(infer_argument_shapes(made))


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        (("n",), INT32),
        (("n + 15",), INT32),
        (("n", "n"), INT64),
        (("n", 1), INT32),
        (("n", 2), INT64),
        (("n // 4", 4), INT32),
        (("n % 1000", 1000), INT32),
        ((46340, 46340), INT32),
        ((46341, 46341), INT64),
        ((2**31,), INT32),
        ((2**31 + 1,), INT64),
        (("2*n",), INT64),
        ((), INT32),
    ],
)
def test_indices_are_32_bits_where_the_largest_fits(shape: Any, expected: Any) -> None:
    assert index_type(kernel(shape), "a") == expected


@pytest.mark.parametrize(
    ("assumptions", "expected"),
    [("n <= 1000", INT32), ("n <= 46340", INT32), ("n <= 46341", INT64), ("n >= 5", INT64)],
)
def test_assumptions_bound_sizes(assumptions: str, expected: Any) -> None:
    assert index_type(kernel(("n", "n"), assumptions=assumptions), "a") == expected


@pytest.mark.parametrize(
    ("n", "expected"),
    [
        (np.int8, INT32),
        (np.uint16, INT32),
        (np.int16, INT32),
        (np.int64, INT64),
        (np.uint32, INT64),
    ],
)
def test_types_of_sizes_bound_them(n: Any, expected: Any) -> None:
    small = {np.int8: ("n", "n"), np.int16: ("n", "n"), np.uint16: ("n", 2)}
    shape: tuple[Any, ...] = small.get(n, ("n",))
    assert index_type(kernel(shape, n=n), "a") == expected


def test_wide_index_types_stay_wide() -> None:
    knl = kernel(("n",), index_dtype=np.int64, n=np.int64, assumptions="n <= 10")
    assert (index_type(knl, "a"), loop_type(knl, "i")) == (INT64, INT64)


@pytest.mark.parametrize(
    ("arg", "expected"),
    [
        ({"strides": (1,)}, INT32),
        ({"strides": (2,)}, INT64),
        ({"strides": (auto,)}, INT64),
        ({"offset": 100}, INT32),
        ({"offset": 2**20}, INT32),
        ({"offset": 2**20 + 1}, INT64),
        ({"offset": auto}, INT64),
    ],
)
def test_strides_and_offsets_count(arg: dict[str, Any], expected: Any) -> None:
    assert index_type(kernel(("n",), arg=arg), "a") == expected


@pytest.mark.parametrize(
    ("instruction", "expected"),
    [
        ("a[i + 100] = 1", INT32),
        ("a[2*i] = 1", INT64),
        ("a[i % 16] = 1", INT32),
        ("a[i*i] = 1", INT64),
        ("a[[i]] = 1", INT64),
    ],
)
def test_arrays_of_unknown_extent_go_by_their_accesses(instruction: str, expected: Any) -> None:
    assert index_type(kernel(None, instructions=instruction), "a") == expected


@pytest.mark.parametrize(
    ("domain", "expected"),
    [
        ("{ [i]: 0 <= i < n }", INT32),
        ("{ [i]: 0 <= i < n + 1000 }", INT32),
        ("{ [i]: 0 <= i < 2*n }", INT64),
        ("{ [i]: 0 <= 128*i < n + 127 }", INT32),
        ("{ [i]: 0 <= i <= 2147483646 and n >= 0 }", INT32),
        ("{ [i]: 0 <= i <= 2147483647 and n >= 0 }", INT64),
        ("{ [i]: -n <= i < n }", INT32),
        ("{ [i]: i = 5 and 1 = 0 and n >= 0 }", INT32),
    ],
)
def test_loop_variables(domain: str, expected: Any) -> None:
    assert loop_type(kernel((4,), domain=domain), "i") == expected


def test_an_inner_loop_ranges_over_all_outer_ones() -> None:
    domain = ["{ [i]: 0 <= i < n }", "[i] -> { [k]: i <= k < 2*i + 3 }"]
    knl = kernel((4,), domain=domain, instructions="a[0] = i + k")
    assert (loop_type(knl, "i"), loop_type(knl, "k")) == (INT32, INT64)


@pytest.mark.parametrize(
    ("text", "is_large"),
    [
        ("n + i", True),
        ("n - i", False),
        ("n - i - n", True),
        ("(n + i) // 2", True),
        ("(n + i) % 4", True),
        ("2*i - 2*n", True),
        ("a[0] + n + i", False),
        ("if(i < n, i + 1, 3*i)", True),
    ],
)
def test_steps_on_the_way_to_an_expression_may_be_too_large(text: str, is_large: bool) -> None:
    assert Ranges.of(kernel(("n",))).survey(parse(text))[1] == is_large


def test_intervals() -> None:
    sizes = "n <= 10 and 3 <= m <= 5 and p = 4"
    domain = "{ [i]: 0 <= i < n and i < p }"
    ranges = Ranges.of(kernel(("n", "m"), domain=domain, assumptions=sizes))
    assert ranges.anywhere("n") == Interval(0, 10)
    for text, expected in {
        "n*m + 1": (1, 51),
        "n - m": (-5, 7),
        "(n + 3) // 4": (0, 3),
        "m % 3": (0, 2),
        "if(n > m, n, m - 7)": (-4, 10),
        "p*p": (16, 16),
    }.items():
        assert ranges.interval(parse(text)) == Interval(*expected)
    for numerator, expected in {"n - m": (-1, 2), "n + m": (1, 5), "-n - m": (-5, -1)}.items():
        assert ranges.interval(TruncQuotient(parse(numerator), 3)) == Interval(*expected)
    assert ranges.interval(TruncRemainder(parse("n - m"), 3)) == Interval(-2, 2)
    assert ranges.interval(parse("a[0]")) == ANYTHING


def test_types_bound_parameters() -> None:
    knl = kernel((4,), domain="{ [i]: 0 <= i < n + s }")
    more = ValueArg("short", np.int16), ValueArg("long", np.uint64)
    ranges = Ranges.of(knl.copy(args=(*knl.args, *more)))
    assert ranges.anywhere("n") == ranges.anywhere("s") == Interval(-PARAM_LIMIT, PARAM_LIMIT)
    assert ranges.anywhere("short") == Interval(-(2**15), 2**15 - 1)
    assert ranges.anywhere("long") == Interval(0, 2**64 - 1)


def test_an_extent_is_never_negative() -> None:
    knl = lp.make_kernel("{[i, j]: 0 <= i, j < n}", "a[i + 1, j + 1] = 0", assumptions="n <= 999")
    assert index_type(knl.default_entrypoint, "a") == INT32


@pytest.mark.parametrize(
    ("expr", "low", "high"),
    [
        ("abs(i - 3)", 0, 6),
        ("abs(3 - 2*i)", 0, 15),
        ("min(i, 4)", 0, 4),
        ("i**3", 0, 729),
        ("i << 4", 0, 144),
        ("(i - 3) >> 1", -2, 3),
        ("i & 5", 0, 5),
        ("i | 4", 0, 15),
        ("i ^ 9", 0, 15),
        ("~i", -10, -1),
        ("2**i", None, None),
        ("i & (i - 20)", 0, 9),
    ],
)
def test_bounds_of_functions_and_bits(expr: str, low: int | None, high: int | None) -> None:
    knl = lp.make_kernel("{ [i]: 0 <= i < 10 }", f"a[i] = {expr}").default_entrypoint
    insn = knl.instructions[0]
    assert isinstance(insn, lp.Assignment)
    found = Ranges.of(knl).interval(insn.expression)
    assert (found.low, found.high) == (low, high)
    values = [eval(expr, {"i": i}) for i in range(10)]  # noqa: S307 (our own text)
    assert low is None or (low <= min(values) and max(values) <= (high or 0))
