"""Constant expressions: their values after substituting the values of loop variables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
import pymbolic.primitives as p
from pymbolic.mapper import UnsupportedExpressionError
from pymbolic.mapper.evaluator import UnknownVariableError, evaluate

from kgen.ir.expr import Expr, TypeCast, TypedLiteral, minus, variable_names
from kgen.ir.sets.interval import Interval

__all__ = ["decided", "evaluated", "integer_constant", "whole_number"]

#: Functions that map integers to integers.
_WHOLE_FUNCTIONS: Final = {"abs": abs, "max": max, "min": min}


def decided(
    condition: Expr, values: Mapping[str, Expr], difference: Callable[[Expr], Interval]
) -> bool | None:
    """Return whether a condition holds, if substituting *values* makes it constant.

    Other comparisons may follow from the values of the *difference* of both sides.
    """
    match condition:
        case p.Comparison():
            left, right = (
                whole_number(condition.left, values),
                whole_number(condition.right, values),
            )
            if left is None or right is None:
                between = difference(minus(condition.left, condition.right))
                return _follows(str(condition.operator), between)
            return bool(evaluate(p.Comparison(left, condition.operator, right)))
        case p.LogicalNot():
            child = decided(condition.child, values, difference)
            return None if child is None else not child
        case p.LogicalAnd() | p.LogicalOr():
            decisive = isinstance(condition, p.LogicalOr)
            children = [decided(child, values, difference) for child in condition.children]
            if decisive in children:
                return decisive
            return None if None in children else not decisive
        case bool() | int() | float() | np.generic():
            return bool(condition)
    return None


def _follows(operator: str, difference: Interval) -> bool | None:
    """Return whether a comparison holds, if all values of the difference of its sides agree."""
    low, high = difference.low, difference.high
    if operator in (">", ">="):
        low, high = (None if x is None else -x for x in (high, low))
    least = 0 if operator in ("<", ">") else 1
    if operator in ("==", "!=") or (high is None and low is None):
        return None
    if high is not None and high < least:
        return True
    return False if low is not None and low >= least else None


def whole_number(expr: Expr, values: Mapping[str, Expr]) -> int | None:
    """Return the integer that *expr* equals after substituting *values*, else ``None``."""
    names = variable_names(expr)
    if not all(isinstance(values.get(name), int) for name in names):
        return None
    value = evaluated(expr, {name: values[name] for name in names})
    return value if type(value) is int else None


def evaluated(expr: Expr, values: Mapping[str, Expr]) -> Any:
    """Return the value of *expr*, computed in Python; ``None`` if it is not constant."""
    try:
        return evaluate(expr, {**_WHOLE_FUNCTIONS, **values})
    except (ArithmeticError, TypeError, UnknownVariableError, UnsupportedExpressionError):
        return None


def integer_constant(expr: Expr) -> int | None:
    """Return the value of an integer literal, typed or not; ``None`` for other expressions."""
    match expr:
        case TypedLiteral() | TypeCast():
            value = expr.value if isinstance(expr, TypedLiteral) else expr.child
            return integer_constant(value) if expr.type.is_integral() else None
        case bool() | np.bool_():
            return None
        case int() | np.integer():
            return int(expr)
    return None
