"""The expression language: precedences, kgen's own forms, errors with their place."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pymbolic.primitives as p
import pytest
from constantdict import constantdict
from hypothesis import given, settings
from hypothesis import strategies as st
from pymbolic.mapper.evaluator import evaluate

from kgen.errors import KgenSyntaxError
from kgen.ir.expr import (
    LinearSubscript,
    Reduction,
    SubArrayRef,
    TaggedVariable,
    TypeCast,
    TypedLiteral,
    to_text,
)
from kgen.ir.language.expressions import parse, parse_type
from kgen.ir.mentions import resolve_reductions
from kgen.ir.reductions import REDUCTIONS
from kgen.ir.tags import StringTag
from kgen.ir.types import to_kgen_type

a, b, c, i, j, k, x = (p.Variable(name) for name in "abcijkx")


def element(*index: Any) -> p.Subscript:
    return p.Subscript(a, index if len(index) > 1 else index[0])


# -- arithmetic, as in Python ---------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("a + b - c", p.Sum((a, b, p.Product((-1, c))))),
        ("a - 2*b", p.Sum((a, p.Product((-2, b))))),
        ("a - 1", p.Sum((a, -1))),
        ("a*b*c", p.Product((a, b, c))),
        ("2*i//3", p.FloorDiv(p.Product((2, i)), 3)),
        ("a/b*c", p.Product((p.Quotient(a, b), c))),
        ("a % b // c", p.FloorDiv(p.Remainder(a, b), c)),
        ("-a**2", p.Product((-1, p.Power(a, 2)))),
        ("a**b**c", p.Power(a, p.Power(b, c))),
        ("a**-1", p.Power(a, -1)),
        ("a + (b + c)", p.Sum((a, p.Sum((b, c))))),
        ("not a == b", p.LogicalNot(p.Comparison(a, "==", b))),
        ("a < b <= c", p.LogicalAnd((p.Comparison(a, "<", b), p.Comparison(b, "<=", c)))),
        ("a and b or c", p.LogicalOr((p.LogicalAnd((a, b)), c))),
        ("a & b == c", p.Comparison(p.BitwiseAnd((a, b)), "==", c)),
        ("~a | b ^ c", p.BitwiseOr((p.BitwiseNot(a), p.BitwiseXor((b, c))))),
        ("a << b + 1", p.LeftShift(a, p.Sum((b, 1)))),
        ("a if b else c if x else i", p.If(b, a, p.If(x, c, i))),
        ("if(a < b, 1, c)", p.If(p.Comparison(a, "<", b), 1, c)),
        ("a, b", (a, b)),
        ("(a,)", (a,)),
        ("()", ()),
        ("True", True),
        ("0x1F", 31),
        ("0xFFul", TypedLiteral(255, to_kgen_type("uint64"))),
    ],
)
def test_meaning(text: str, meaning: object) -> None:
    assert parse(text) == meaning


leaves = st.sampled_from(["a", "b", "c", "2", "3", "-1"])
signs = st.sampled_from(
    ["+", "-", "*", "//", "%", "**", "<<", ">>", "&", "|", "^", "<", "<=", "==", "!=", "and", "or"]
)


@st.composite
def compound(draw: st.DrawFn, operands: st.SearchStrategy[str]) -> str:
    kind = draw(st.sampled_from(["plain", "plain", "parenthesis", "minus", "not", "if"]))
    left, right = draw(operands), draw(operands)
    match kind:
        case "plain":
            return f"{left} {draw(signs)} {right}"
        case "parenthesis":
            return f"({left})"
        case "minus":
            return f"-{left}"
        case "not":
            return f"(not {left})"
    return f"({left} if {right} else {draw(operands)})"


texts = st.recursive(leaves, compound, max_leaves=8).filter(lambda text: text.count("**") < 2)
POINT = {"a": 2, "b": 3, "c": 1}
PYTHON: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.USub: operator.neg,
    ast.Not: operator.not_,
}


def as_python_has_it(node: Any) -> Any:
    match node:
        case ast.Constant():
            return node.value
        case ast.Name():
            return POINT[node.id]
        case ast.UnaryOp():
            return PYTHON[type(node.op)](as_python_has_it(node.operand))
        case ast.BinOp():
            return PYTHON[type(node.op)](*map(as_python_has_it, (node.left, node.right)))
        case ast.BoolOp():
            combine = all if isinstance(node.op, ast.And) else any
            return combine(as_python_has_it(child) for child in node.values)
        case ast.Compare():
            left = as_python_has_it(node.left)
            for op, side in zip(node.ops, node.comparators, strict=True):
                right = as_python_has_it(side)
                if not PYTHON[type(op)](left, right):
                    return False
                left = right
            return True
    assert isinstance(node, ast.IfExp)
    chosen = node.body if as_python_has_it(node.test) else node.orelse
    return as_python_has_it(chosen)


def outcome(compute: Callable[[Any], Any], what: Any) -> Any:
    try:
        return compute(what)
    except (ArithmeticError, ValueError, TypeError) as err:
        return type(err)


def evaluated(text: str) -> Any:
    return outcome(lambda expr: evaluate(expr, POINT), parse(text))


@given(texts)
@settings(max_examples=300)
def test_precedences_are_those_of_python(text: str) -> None:
    expected = outcome(as_python_has_it, ast.parse(text, mode="eval").body)
    assert evaluated(text) == expected


@given(texts)
@settings(max_examples=300)
def test_printed_expressions_read_back(text: str) -> None:
    assert evaluated(to_text(parse(text))) == evaluated(text)


# -- what kgen adds -------------------------------------------------------------------


def sum_over(names: tuple[str, ...], expr: object) -> Reduction:
    return Reduction(REDUCTIONS["sum"], names, expr)


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("sum(k, a[k])", sum_over(("k",), a[k])),
        ("sum((i, j), a[i, j])", sum_over(("i", "j"), a[i, j])),
        ("sum([i, j], a[i, j])", sum_over(("i", "j"), a[i, j])),
        ("reduce(sum, (i, j), a[i, j])", sum_over(("i", "j"), a[i, j])),
        ("reduce(sum, i, a[i])", sum_over(("i",), a[i])),
        ("simul_reduce(sum, k, x)", Reduction(REDUCTIONS["sum"], ("k",), x, True)),
        ("argmin(i, a[i], i)", Reduction(REDUCTIONS["argmin"], ("i",), (a[i], i))),
        ("reduce(argmin, i, (a[i], i))", Reduction(REDUCTIONS["argmin"], ("i",), (a[i], i))),
        ("max([k], a[k])", Reduction(REDUCTIONS["max"], ("k",), a[k])),
        ("max(k, a[k])", p.Variable("max")(k, a[k])),
        ("max(a, b, c)", p.Variable("max")(a, b, c)),
        ("cast(np.float32, x)", TypeCast(to_kgen_type("float32"), x)),
        ('cast("float32", x)', TypeCast(to_kgen_type("float32"), x)),
        ("cast(np:dtype('int8'), x + 1)", TypeCast(to_kgen_type("int8"), x + 1)),
        ("a$load[i]", p.Subscript(TaggedVariable("a", frozenset({StringTag("load")})), i)),
        ("[i, j]: a[i, j]", SubArrayRef((i, j), element(i, j))),
        ("x([i]: a[i], b)", x(SubArrayRef((i,), element(i)), b)),
        ("a[[8*i + j]]", LinearSubscript(a, 8 * i + j)),
        ("a.b[i]", p.Subscript(p.Lookup(a, "b"), i)),
        ("a[:, ::2]", p.Subscript(a, (p.Slice((None, None)), p.Slice((None, None, 2))))),
        ("x(a, b=2)", p.CallWithKwargs(x, (a,), constantdict(b=2))),
    ],
)
def test_forms(text: str, meaning: object) -> None:
    assert parse(text) == meaning
    assert parse(to_text(parse(text))) == meaning


@pytest.mark.parametrize(
    ("text", "number", "dtype"),
    [
        ("1.5f", 1.5, np.float32),
        ("0.1f", float(np.float32(0.1)), np.float32),
        ("2.5e-3d", 0.0025, np.float64),
        ("7u", 7, np.uint32),
        ("10l", 10, np.int64),
        ("1UL", 1, np.uint64),
        ("3jf", 3j, np.complex64),
    ],
)
def test_typed_literals(text: str, number: complex, dtype: type[np.generic]) -> None:
    literal = parse(text)
    assert isinstance(literal, TypedLiteral)
    assert (literal.value, literal.type) == (number, to_kgen_type(dtype))
    assert type(literal.value) is type(number)


def test_literals_without_suffix_are_plain_numbers() -> None:
    found = parse("3, 1e-3, .5, 2., 3j")
    assert found == (3, 0.001, 0.5, 2.0, 3j)
    assert [type(number) for number in found] == [int, float, float, float, complex]


@pytest.mark.parametrize("text", ["1.5f", "7u", "2.0d", "(-1.5f)*a", "a + 2.0f"])
def test_typed_literals_print_as_they_are_written(text: str) -> None:
    assert to_text(parse(text)) == text


@pytest.mark.parametrize(
    "text", ["float64", "np.float64", "'float64'", "np:dtype('float64')", "float", "double"]
)
def test_type_names(text: str) -> None:
    assert parse_type(text) == to_kgen_type(np.float64)


@pytest.mark.parametrize("name", ["int", "uint", "short", "complex", "bool"])
def test_names_mean_what_they_mean_in_numpy(name: str) -> None:
    assert parse_type(name).numpy_dtype == np.dtype(name)


# -- max(k, a[k]) or max(a, b)? -------------------------------------------------------


def resolved(text: str, *inames: str) -> str:
    return to_text(resolve_reductions(parse(text), inames))


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("max(k, a[k])", "reduce(max, [k], a[k])"),
        ("1 + min(k, a[k])", "1 + reduce(min, [k], a[k])"),
        ("max(k, a[k]) + max(k, b[k])", "reduce(max, [k], a[k]) + reduce(max, [k], b[k])"),
        ("max(k, max(j, a[j, k]))", "reduce(max, [k], reduce(max, [j], a[j, k]))"),
        ("max(a, b)", "max(a, b)"),
        ("max(k, 3)", "reduce(max, [k], 3)"),
        ("max(k, a[k]) + k", "max(k, a[k]) + k"),
        ("sum(k, max(k, a[k]))", "reduce(sum, [k], max(k, a[k]))"),
        ("max(k, a[k]*min(k, 3))", "reduce(max, [k], a[k]*min(k, 3))"),
        ("max(j, max(k, a[max(j, k)]))", "reduce(max, [j], reduce(max, [k], a[max(j, k)]))"),
    ],
)
def test_max_is_a_reduction_over_a_loop_variable_of_its_own(text: str, meaning: str) -> None:
    assert resolved(text, "j", "k") == meaning


def test_max_of_values_remains_a_function() -> None:
    assert resolved("max(i, a[i])") == "max(i, a[i])"


# -- errors, size ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "column", "what"),
    [
        ("a + ", 5, "expected an expression, found the end"),
        ("a[i", 4, "expected ']', found the end"),
        ("(a", 3, "expected ')', found the end"),
        ("a b", 3, "expected an operator or the end, found 'b'"),
        ("a + 'b'", 5, "expected an expression, found 'b'"),
        ("sum(i, j, a)", 1, "takes 1 operand after its loop variables, not 2"),
        ("sum(i + 1, a)", 1, "is not the name of a loop variable"),
        ("reduce(smu, i, a)", 8, "did you mean 'sum'"),
        ("1.5q", 1, "'1.5q' is not a number"),
        ("1.5u", 1, "'1.5u' is not a number"),
        ("cast(floot32, a)", 6, "floot32"),
        ("a if b", 7, "expected 'else', found the end"),
        ("[i]: a", 6, "a sub-array reference ends in an array element"),
        ("f(x=1, 2)", 8, "expected a keyword argument"),
        ("and", 1, "expected an expression, found 'and'"),
        ("", 1, "expected an expression, found the end"),
    ],
)
def test_errors_name_the_column(text: str, column: int, what: str) -> None:
    with pytest.raises(KgenSyntaxError) as caught:
        parse(text)
    assert (caught.value.line, caught.value.column) == (1, column)
    assert what in str(caught.value)


def test_an_error_points_at_the_place() -> None:
    with pytest.raises(KgenSyntaxError) as caught:
        parse("a +\n  2*a[i + )")
    assert str(caught.value).splitlines() == [
        "line 2, column 11: expected an expression, found ')'",
        "    2*a[i + )",
        "            ^",
    ]


def test_a_long_sum_is_flat() -> None:
    terms = [f"{n}*a[{n}]" for n in range(5000)]
    found = parse(" + ".join(terms))
    assert isinstance(found, p.Sum)
    assert len(found.children) == 5000
    assert to_text(found) == " + ".join(terms)
