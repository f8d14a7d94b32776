from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pymbolic.primitives as p
import pytest

from kgen.analysis.typing import ExpressionTyper, UnknownType
from kgen.errors import TypeInferenceFailure
from kgen.frontend import make_kernel
from kgen.ir.data import GlobalArg
from kgen.ir.expr import (
    GroupHardwareAxisIndex,
    LinearSubscript,
    SubArrayRef,
    TaggedVariable,
    TypedLiteral,
)
from kgen.ir.language.expressions import parse
from kgen.ir.target import TargetBase
from kgen.ir.types import BOOL8, FLOAT64, INT32, INT64, NumpyType

NAMES = {
    "b": "bool",
    "b1": "int8",
    "h": "int16",
    "i4": "int32",
    "i8": "int64",
    "u1": "uint8",
    "u4": "uint32",
    "u8": "uint64",
    "f2": "float16",
    "f4": "float32",
    "f8": "float64",
    "c8": "complex64",
    "c16": "complex128",
}


def typer(**options: Any) -> ExpressionTyper:
    arrays = [GlobalArg(name, dtype, shape="n") for name, dtype in NAMES.items()]
    unit = make_kernel(
        "{ [i, k]: 0 <= i, k < n }",
        "out[i] = " + " + ".join(f"{name}[i]" for name in NAMES),
        [*arrays, "..."],
        target=TargetBase(),
        **options,
    )
    return ExpressionTyper(unit.default_entrypoint)


TYPER = typer()


def type_of(text: str) -> str:
    dtype = TYPER(parse(text))
    assert isinstance(dtype, NumpyType)
    return dtype.dtype.name


@pytest.mark.parametrize("operator", ["+", "*"])
@pytest.mark.parametrize(("a", "b"), list(product(NAMES, repeat=2)))
def test_arithmetic_promotes_as_numpy_does(operator: str, a: str, b: str) -> None:
    expected = np.result_type(NAMES[a], NAMES[b])
    if {a, b} == {"i4", "f4"}:  # loop variables do not widen float32
        expected = np.dtype("float32")
    if a == b == "b":  # truth values are counted
        expected = np.dtype("int32")
    assert type_of(f"{a}[i] {operator} {b}[i]") == expected.name


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2*f4[i]", "float32"),
        ("2.5*f4[i]", "float32"),
        ("0.1*f4[i]", "float32"),
        ("0.1*f8[i]", "float64"),
        ("2.5*f2[i]", "float16"),
        ("1e10*f2[i]", "float32"),
        ("1e300*f4[i]", "float64"),
        ("i4[i] + 1", "int32"),
        ("i8[i] + 1", "int64"),
        ("b1[i] + 1", "int8"),
        ("b1[i] + 1000", "int32"),
        ("u1[i] - 1", "uint8"),
        ("u8[i] - 1", "uint64"),
        ("-u4[i]", "uint32"),
        ("i4[i] + 3000000000", "int64"),
        ("2.5*i4[i]", "float32"),
        ("0.1*i4[i]", "float64"),
        ("2.5*i8[i]", "float64"),
        ("b[i]*2", "int32"),
        ("b[i]*f4[i]", "float32"),
        ("2*c8[i]", "complex64"),
        ("2.5*c8[i]", "complex64"),
        ("i4[i] + 2 + 3", "int32"),
    ],
)
def test_literals_adapt(text: str, expected: str) -> None:
    assert type_of(text) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (5, "int32"),
        (-(2**31), "int32"),
        (3000000000, "int64"),
        (2**63, "uint64"),
        (2.5, "float32"),
        (0.1, "float64"),
        (1e300, "float64"),
        (float("inf"), "float32"),
        (1j, "complex128"),
        (True, "bool"),
        (np.float64(2), "float64"),
        (np.int8(2), "int8"),
    ],
)
def test_constants_alone(value: Any, expected: str) -> None:
    assert TYPER(value).dtype.name == expected


@pytest.mark.parametrize(
    ("text", "alone", "beside"),
    [
        ("2.5*i4[i]", "float32", {"f2": "float32", "f4": "float32", "f8": "float64"}),
        ("3.0*i4[i]/i4[i]", "float64", {"f4": "float32", "f8": "float64"}),
        ("sqrt(1.0*i4[i]) + 1", "float32", {"f4": "float32", "f8": "float64"}),
        ("0.1*i4[i]", "float64", {"f4": "float64", "f8": "float64"}),
    ],
)
def test_whole_numbers_beside_literals_adapt(text: str, alone: str, beside: dict[str, str]) -> None:
    expr = parse(text)
    assert TYPER(expr).dtype.name == alone
    for kind, expected in beside.items():
        near = NumpyType(np.dtype(kind))
        found = TYPER.beside(expr, near)
        assert found.dtype.name == expected


def test_numpy_scalars_do_not_adapt() -> None:
    f4 = parse("f4[i]")
    assert TYPER(p.Product((np.float64(2), f4))) == FLOAT64
    assert TYPER(p.Product((1j, f4))).dtype.name == "complex64"
    assert TYPER(p.Product((np.complex128(1j), f4))).dtype.name == "complex128"


def test_equal_literals_of_different_kinds_are_told_apart() -> None:
    integers, reals = p.Product((2, parse("i4[i]"))), p.Product((2.0, parse("i4[i]")))
    assert integers == reals
    assert (TYPER(integers).dtype.name, TYPER(reals).dtype.name) == ("int32", "float32")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1/2", "float64"),
        ("i4[i]/2", "float64"),
        ("b1[i]/b1[i]", "float64"),
        ("f4[i]/2", "float32"),
        ("i4[i]/f4[i]", "float32"),
        ("c8[i]/2", "complex64"),
        ("i4[i]//2", "int32"),
        ("f4[i]//2", "float32"),
        ("i4[i] % i8[i]", "int64"),
        ("f4[i]**2", "float32"),
        ("f4[i]**0.5", "float32"),
        ("i4[i]**2", "int32"),
        ("c8[i]**2", "complex64"),
        ("2**f8[i]", "float64"),
        ("i4[i] << 2", "int32"),
        ("i4[i] >> i8[i]", "int64"),
        ("u1[i] & 1", "uint8"),
        ("u1[i] | i4[i]", "int32"),
        ("b[i] & b[i]", "bool"),
        ("~u1[i]", "uint8"),
    ],
)
def test_other_operations(text: str, expected: str) -> None:
    assert type_of(text) == expected


@pytest.mark.parametrize(
    "text", ["f4[i] < f8[i]", "f4[i] < 1 and i4[i] > 2", "f4[i] < 1 or b[i]", "not i4[i]"]
)
def test_conditions_are_truth_values(text: str) -> None:
    assert TYPER(parse(text)) == BOOL8


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("if(i4[i] < 0, f4[i], f8[i])", "float64"),
        ("f4[i] if b[i] else 0", "float32"),
        ("1 if b[i] else 0", "int32"),
        ("b[i] if b[i] else b[i]", "bool"),
        ("min(f4[i], 0)", "float32"),
        ("max(i4[i], i8[i], 1)", "int64"),
        ("cast(float32, i4[i])", "float32"),
        ("cast(int64, 1) + i4[i]", "int64"),
        ("sin(f4[i])", "float32"),
        ("sin(i4[i])", "float64"),
        ("sqrt(c8[i])", "complex64"),
        ("abs(c8[i])", "float32"),
        ("isnan(f4[i])", "int32"),
        ("pow(f4[i], 2)", "float32"),
        ("fmod(f4[i], 0.1)", "float32"),
        ("sqrt(2.0)*f4[i]", "float32"),
        ("sqrt(2.0)*f8[i]", "float64"),
        ("sqrt(2)*f8[i]", "float64"),
        ("max(2, 3)*f4[i]", "float32"),
        ("i", "int32"),
        ("n", "int32"),
        ("2*i + n", "int32"),
        ("i*f4[i]", "float32"),
    ],
)
def test_selections_calls_and_indices(text: str, expected: str) -> None:
    assert type_of(text) == expected


def test_functions_of_literals_are_computed_in_the_type_beside_them() -> None:
    root = parse("sqrt(2.0)")
    assert TYPER.beside(root, FLOAT64) == FLOAT64
    assert TYPER.beside(root, NumpyType(np.dtype("float32"))).dtype.name == "float32"
    assert TYPER.beside(parse("f4[i]"), FLOAT64).dtype.name == "float32"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("sum(k, f4[k])", "float32"),
        ("sum(k, b[k])", "int32"),
        ("sum(k, f4[k] < 0)", "int32"),
        ("reduce(max, k, b1[k])", "int8"),
        ("product(k, 2*f4[k])", "float32"),
        ("any(k, f4[k] < 0)", "bool"),
    ],
)
def test_reductions(text: str, expected: str) -> None:
    assert type_of(text) == expected


def test_argmin_has_two_types() -> None:
    value, index = TYPER(parse("argmin(k, f4[k], k)"))
    assert (value.dtype.name, index) == ("float32", INT32)
    with pytest.raises(TypeInferenceFailure, match="has 2 values and is used as a single value"):
        TYPER(p.Sum((parse("argmin(k, f4[k], k)"), 1)))


def test_nodes_of_our_own() -> None:
    f4 = p.Variable("f4")
    float32 = NumpyType(np.dtype("float32"))
    assert TYPER(LinearSubscript(f4, p.Variable("i"))) == float32
    assert TYPER(SubArrayRef((p.Variable("i"),), p.Subscript(f4, p.Variable("i")))) == float32
    assert TYPER(TaggedVariable("f4", frozenset())[p.Variable("i")]) == float32
    assert TYPER(GroupHardwareAxisIndex(0)) == INT32
    assert TYPER(TypedLiteral(1, INT64)) == INT64


def test_loop_variables_have_the_index_type() -> None:
    assert typer(index_dtype=np.int64)(parse("2*i")) == INT64


def test_fields_of_structures() -> None:
    pair = np.dtype([("re", np.float32), ("count", np.int64)])
    unit = make_kernel(
        "{ [i]: 0 <= i < n }",
        "out[i] = a[i].re",
        [GlobalArg("a", pair, shape="n"), "..."],
        target=TargetBase(),
    )
    read = ExpressionTyper(unit.default_entrypoint)
    assert read(parse("a[i].count")) == INT64
    with pytest.raises(TypeInferenceFailure, match=r"no field 'cuont'\n.*'count'"):
        read(p.Lookup(parse("a[i]"), "cuont"))


def test_substitution_rules_and_symbols() -> None:
    unit = make_kernel(
        "{ [i]: 0 <= i < n }",
        """
        twice(x) := 2*x
        out[i] = twice(a[i])
        """,
        [GlobalArg("a", np.float32, shape="n"), "..."],
        target=TargetBase(),
        symbol_manglers=[lambda kernel, name: (np.float64, "M_PI") if name == "pi" else None],
    )
    read = ExpressionTyper(unit.default_entrypoint)
    assert read(parse("twice(a[i])")).dtype.name == "float32"
    assert read(p.Variable("pi")) == FLOAT64


def test_a_sum_of_thousand_terms() -> None:
    total: Any = parse("f4[i]")
    for _ in range(3000):
        total = p.Sum((total, parse("i4[i]")))
    assert TYPER(total).dtype.name == "float32"


def test_an_unknown_function_names_near_ones() -> None:
    with pytest.raises(TypeInferenceFailure, match=r"no function 'sine'[\s\S]*'sin'"):
        TYPER(parse("sine(f4[i])"))


def test_errors_name_what_is_wrong() -> None:
    with pytest.raises(UnknownType, match="type of 'out' is not known") as caught:
        TYPER(parse("2*out[i]"))
    assert caught.value.variable == "out"
    with pytest.raises(TypeInferenceFailure, match="there is no variable 'f5'"):
        TYPER(parse("f5[i]"))
    with pytest.raises(TypeInferenceFailure, match="bits of integers, but 'f4\\[i\\]' is float32"):
        TYPER(parse("f4[i] << 2"))
    with pytest.raises(TypeInferenceFailure, match="'erf' does not take complex numbers"):
        TYPER(parse("erf(c8[i])"))
    with pytest.raises(TypeInferenceFailure, match=r"no function 'if'\n.*symbolic\.parse"):
        TYPER(p.Variable("if")(p.Variable("i4"), 1, 2))  # as pymbolic's parser reads it


@pytest.mark.parametrize("dtype", ["float32", "float64", None])
def test_types_that_a_typer_leaves_hold_where_variables_have_theirs(dtype: str | None) -> None:
    kernel = make_kernel(
        "{ [i]: 0 <= i < 8 }", "out[i] = 2*a[i]", [GlobalArg("a, out", "float32", shape="8")]
    ).default_entrypoint
    (insn,) = kernel.instructions
    (value,) = insn.read_exprs()
    typer = ExpressionTyper(kernel)
    assert typer(value).dtype == "float32"
    typer.leave_to(kernel)
    again = ExpressionTyper(kernel.copy(args=[arg.copy(dtype=dtype) for arg in kernel.args]))
    if dtype is None:
        with pytest.raises(UnknownType, match="'a' is not known"):
            again(value)
    else:
        assert again(value).dtype == dtype
