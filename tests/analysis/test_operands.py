"""Operands that no operation takes are refused, by instruction; conditions without parts hold."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pymbolic.primitives as p
import pytest

import kgen as lp
from kgen.errors import KgenIndexError, TypeInferenceFailure
from kgen.ir.reductions import parse_reduction_op
from kgen.ir.types import NumpyType
from kgen.ir.vector_values import vector_type

FLOAT4: NumpyType = vector_type(np.dtype("float32"), 4)
TARGETS = [lp.CTarget(), lp.PyOpenCLTarget(), lp.CudaTarget()]


def code_of(instructions: Any, target: Any = TARGETS[0], **dtypes: Any) -> str:
    args = [lp.GlobalArg(name, dtype, shape=None) for name, dtype in dtypes.items()]
    domain = "{ [i]: 0 <= i < n }"
    unit = lp.make_kernel(domain, instructions, [*args, ...], target=target, name="knl")
    return lp.generate_code_v2(unit).device_code()


@pytest.mark.parametrize(
    "index", ["0.5*i", "i/2", "sqrt(i)", "x[i]", "x[i] // 1", "1.0", "i + 0.5"]
)
@pytest.mark.parametrize("text", ["out[i] = a[{}]", "a[{}] = x[i]", "out[i] = a[[{}]]"])
def test_a_subscript_is_an_integer_whatever_is_known_of_the_array(index: str, text: str) -> None:
    with pytest.raises(
        KgenIndexError, match=r"is not an integer: it is float(.|\n)*where: instruct"
    ):
        code_of(text.format(index), a="float32", x="float32")


def test_the_subscript_of_a_field_that_is_assigned_is_an_integer() -> None:
    pair = np.dtype([("x", np.float32), ("y", np.float32)])
    with pytest.raises(KgenIndexError, match=r"'0.5\*i' of 's\[0.5\*i\]' is not an integer"):
        code_of("s[0.5*i].x = 1", s=pair)


OF_VECTORS = [
    *("v[i] + v[i]", "2*v[i]", "v[i] - 1", "-v[i]", "v[i] / 2", "v[i]**2", "sqrt(v[i])"),
    *("max(v[i], v[i])", "v[i] < v[i]", "v[i] == v[i]", "not v[i]", "v[i] and i > 2"),
    *("1 if v[i] else 2", "cast(float32, v[i])", "sum(i, v[i])", "max(i, v[i])", "i // v[i]"),
    *("0 if i > 2 else v[i]", "x[v[i]]", "x[i] + v[i].x*v[i]"),
]


#: What OpenCL's operators do.
OF_OPENCL = {
    *("v[i] + v[i]", "2*v[i]", "v[i] - 1", "-v[i]", "v[i] / 2", "sum(i, v[i])"),
    "x[i] + v[i].x*v[i]",
}


@pytest.mark.parametrize(("text", "target"), list(product(OF_VECTORS, TARGETS)))
def test_operations_on_vectors_are_refused_by_name(text: str, target: Any) -> None:
    if text in OF_OPENCL and target.has_vector_arithmetic:
        return
    lhs = "out" if "(i," in text else "out[i]"
    with pytest.raises((TypeInferenceFailure, KgenIndexError), match=r"'knl'(.|\n)*where: instr"):
        code_of(f"{lhs} = {text}", target, v=FLOAT4, x="float32")


@pytest.mark.parametrize(
    "text", ["v[i] = 0", "v[i] = x[i]", "x[i] = v[i]", "if v[i]\nx[i] = 1\nend"]
)
def test_numbers_and_vectors_are_not_assigned_to_each_other(text: str) -> None:
    with pytest.raises(TypeInferenceFailure, match=r"vector(.|\n)*where: instruction"):
        code_of(text, v=FLOAT4, x="float32")


@pytest.mark.parametrize("target", TARGETS)
def test_vectors_are_copied_chosen_and_read_by_number(target: Any) -> None:
    text = ["w[i] = v[i] if i > 2 else v[0] {id=w}", "x[i] = v[i].x + v[i].w*v[i].s2 {dep=w}"]
    assert "i > 2 ? v[i] : v[0]" in code_of(text, target, v=FLOAT4, w=FLOAT4, x="float32")


@pytest.mark.parametrize("text", ["c[i] < 1", "c[i] // 2", "c[i] % 2", "max(c[i], 1)"])
def test_complex_numbers_have_no_order(text: str) -> None:
    with pytest.raises(TypeInferenceFailure, match=r"complex(.|\n)*where: instruction"):
        code_of(f"out[i] = {text}", c="complex64")


@pytest.mark.parametrize("text", ["argmin(i, a[i], c[i])", "argmax(i, a[i], 1j*i)"])
def test_the_index_of_an_extremum_is_a_real_number(text: str) -> None:
    with pytest.raises(
        TypeInferenceFailure, match=r"a real number, the index(.|\n)*where: instruction"
    ):
        code_of(f"m, k = {text}", a="float32", c="complex64")


def test_a_reduction_over_no_loop_is_its_operand() -> None:
    insn = lp.Assignment(
        "out[i]", lp.Reduction(parse_reduction_op("sum"), (), p.Variable("a")[p.Variable("i")])
    )
    assert "out[i] = a[i];" in code_of([insn], a="float32")


@pytest.mark.parametrize("node", [p.Sum(()), p.Product(()), p.BitwiseOr(()), p.Min(())])
def test_operations_have_operands(node: Any) -> None:
    with pytest.raises(TypeInferenceFailure, match=r"has no operands(.|\n)*where: instruction"):
        code_of([lp.Assignment("out[i]", node)])


NONE, ALL = p.LogicalOr(()), p.LogicalAnd(())


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        (NONE, "0"),
        (ALL, "1"),
        (p.If(NONE, 1, 2), "2"),
        (p.If(ALL, 1, 2), "1"),
        (p.LogicalAnd((ALL, p.Comparison(p.Variable("i"), "<", 3))), "i < 3"),
        (p.LogicalAnd((ALL, ALL)), "1"),
    ],
)
def test_conditions_without_parts(expr: Any, expected: str) -> None:
    assert f"out[i] = {expected};" in code_of([lp.Assignment("out[i]", expr)])


@pytest.mark.parametrize(("condition", "runs"), [(NONE, False), (ALL, True)])
def test_predicates_without_parts(condition: Any, runs: bool) -> None:
    insn = lp.Assignment("out[i]", 1, predicates=frozenset([condition]))
    assert ("out[i] = 1" in code_of([insn])) == runs


@pytest.mark.parametrize("target", TARGETS)
def test_a_scalar_with_an_empty_subscript(target: Any) -> None:
    t = p.Subscript(p.Variable("t"), ())
    insns = [lp.Assignment(t, 1.5, id="w"), lp.Assignment("out[i]", t + 1, depends_on="w")]
    data = [lp.TemporaryVariable("t", np.float32, shape=()), ...]
    unit = lp.make_kernel("{ [i]: 0 <= i < n }", insns, data, target=target)
    assert "t[" not in lp.generate_code_v2(unit).device_code().replace("out[", "")


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    "text",
    [
        *("i // 0", "5 % 0", "a[i] // (3 - 3)", "7u // 0", "i % (1 & 2)"),
        *("5 // cast(np.int32, 0)", "i % 0l", "i // (cast(np.int32, 3) - 3)"),
        *("i // cast(np.int8, 256)", "a[i] % (cast(np.uint8, 255) + cast(np.uint8, 1))"),
    ],
)
def test_integers_are_not_divided_by_zero(text: str, target: Any) -> None:
    with pytest.raises(TypeInferenceFailure, match=r"divided by zero(.|\n)*where: instruction"):
        code_of(f"out[i] = {text}", target, a="int32")


@pytest.mark.parametrize("text", ["a[i]**(-1)", "i**(1 - 3)", "pow(a[i], -2)", "0.5*2l**(-1)"])
def test_integers_have_no_negative_powers(text: str) -> None:
    with pytest.raises(TypeInferenceFailure, match=r"negative power of an(.|\n)*instruction 'out"):
        code_of(f"out[i] = {text}", a="int32")


@pytest.mark.parametrize(
    ("shift", "count"),
    [
        *(("1 << -1", -1), ("i << 32", 32), ("a[i] >> 64", 64), ("b[i] << 40", 40)),
        *(("i << 32l", 32), ("i >> cast(np.int32, -1)", -1)),
    ],
)
def test_shifts_by_more_bits_than_there_are_are_refused(shift: str, count: int) -> None:
    with pytest.raises(
        TypeInferenceFailure, match=rf"shifts by {count} bits\n  where: instruction"
    ):
        code_of(f"out[i] = {shift}", a="int64", b="uint8")


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        ("300", "uint8"),
        ("-1", "uint32"),
        ("1 << 40", "int32"),
        ("1e30", "int64"),
        ("2**64", "uint64"),
    ],
)
def test_a_number_that_its_type_does_not_hold_is_not_assigned(value: str, dtype: str) -> None:
    with pytest.raises(
        TypeInferenceFailure, match=rf"'a', of type {dtype}, cannot be (.|\n)*where:"
    ):
        code_of(f"a[i] = {value}", a=dtype)


@pytest.mark.parametrize(
    "text", ["10**20", "(2**64)*1", "-2 if u[i] else u[i]", "1 if u[i] > -2 else 0"]
)
def test_a_constant_that_no_code_can_contain_is_refused_by_instruction(text: str) -> None:
    with pytest.raises(
        lp.KgenError, match=r"(cannot be|is not a value)(.|\n)*where: instruction 'o"
    ):
        code_of(f"out[i] = {text}", u="uint64")


def test_a_number_of_any_size_may_be_part_of_a_smaller_one() -> None:
    code = code_of("out[i] = u[i] & (2**64 - 1)\nv[i] = b[i] + (300 - 50)", u="uint64", b="uint8")
    assert "u[i] & 18446744073709551615u" in code
    assert "b[i] + 250" in code
    with pytest.raises(TypeInferenceFailure, match="too large for every type of numbers"):
        code_of("out[i] = 10**1000000000")
