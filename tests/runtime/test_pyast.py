"""Python syntax trees: expressions as pymbolic means them, functions from trees."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

import numpy as np
import pymbolic.primitives as p
import pytest
from pymbolic import parse
from pymbolic.mapper.evaluator import evaluate

from kgen.ir.expr import TruncQuotient, TruncRemainder
from kgen.runtime.pyast import (
    assign,
    const,
    define,
    from_expr,
    function_of,
    name,
    return_,
    to_code,
    to_text,
    tuple_,
)

N, M = p.Variable("n"), p.Variable("m")


def to_function(tree: ast.FunctionDef) -> Callable[..., Any]:
    return function_of(tree.name, to_code(tree), {})


@pytest.mark.parametrize(
    "expr",
    [
        parse("2*n - 3*m + 1"),
        parse("(n + 15) // 16 * 16"),
        parse("(n - m) % 7"),
        parse("n**2"),
        p.Max((N, M, 3)),
        p.Min((N, 2 * M)),
        p.If(p.Comparison(N, "<", M), N + 1, M),
        p.If(p.LogicalOr((p.Comparison(N, ">=", 3), p.Comparison(M, "==", 2))), 1, 0),
        p.If(p.LogicalNot(p.LogicalAnd((p.Comparison(N, "!=", M), p.Comparison(N, ">", 2)))), 1, 0),
        np.int64(3) * N,
        4,
    ],
)
def test_expressions_mean_the_same(expr: Any) -> None:
    function = to_function(
        define("f", ["n", "m"], [], ("more", "unknown"), [return_(from_expr(expr))])
    )
    for n in range(-3, 20, 4):
        for m in range(-2, 6):
            assert function(n, m) == evaluate(expr, {"n": n, "m": m})


def test_division_towards_zero() -> None:
    both = (from_expr(TruncQuotient(N, 3)), from_expr(TruncRemainder(N, 3)))
    function = to_function(define("f", ["n"], [], ("more", "unknown"), [return_(tuple_(both))]))
    found = [function(n) for n in range(-4, 5)]
    assert found == [(int(n / 3), n - 3 * int(n / 3)) for n in range(-4, 5)]


def test_arguments_may_have_names_of_builtins() -> None:
    body = [return_(from_expr(p.Max((p.Variable("max"), p.Variable("len")))))]
    assert to_function(define("f", ["max", "len"], [], ("more", "unknown"), body))(3, 5) == 5


def test_text_is_the_function() -> None:
    tree = define("f", ["a"], ["b"], ("more", "rest"), [assign("a", const(3)), return_(name("b"))])
    text = "def f(a=None, /, *more, b=None, **rest):\n    a = 3\n    return b"
    assert to_text(tree) == text
    assert ast.dump(ast.parse(text).body[0]) == ast.dump(ast.parse(to_text(tree)).body[0])
    assert to_function(tree)(1, b=7) == 7
