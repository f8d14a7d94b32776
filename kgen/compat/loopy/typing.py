"""loopy.typing: names for the types of kernels' parts, and checks of values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, TypeGuard, TypeVar

import numpy as np
from pymbolic.primitives import ExpressionNode
from pymbolic.typing import ArithmeticExpression, Expression

from kgen.errors import KgenError
from kgen.ir.callables import CallMangleInfo
from kgen.ir.types import auto
from kgen.targets.builder import PreambleGenerator

__all__ = [
    "ArithmeticExpression",
    "Expression",
    "InameStr",
    "InameStrSet",
    "InsnId",
    "Integer",
    "PreambleGenerator",
    "ShapeType",
    "StridesType",
    "SymbolMangler",
    "assert_tuple",
    "auto",
    "integer_expr_or_err",
    "integer_or_err",
    "is_integer",
    "not_none",
]

T = TypeVar("T")

InameStr: TypeAlias = str
InameStrSet: TypeAlias = frozenset[str]
InsnId: TypeAlias = str
Integer: TypeAlias = int | np.integer[Any]
ShapeType: TypeAlias = tuple[ArithmeticExpression, ...]
StridesType: TypeAlias = tuple[ArithmeticExpression, ...]
#: From a kernel and a name to the type and the text of a symbol, or ``None``.
SymbolMangler: TypeAlias = Callable[[Any, str], tuple[Any, str] | CallMangleInfo | None]


def not_none(obj: T | None) -> T:
    """Return *obj*, which is not ``None``.

    >>> not_none(3)
    3
    """
    if obj is None:
        raise KgenError("a value is required, not None")
    return obj


def is_integer(obj: object) -> TypeGuard[Integer]:
    """Tell whether *obj* is an integer, of Python or numpy, and no truth value.

    >>> is_integer(3), is_integer(np.int8(3)), is_integer(True), is_integer(3.0)
    (True, True, False, False)
    """
    return isinstance(obj, int | np.integer) and not isinstance(obj, bool)


def integer_or_err(expr: Expression) -> Integer:
    """Return *expr*, which is an integer.

    >>> integer_or_err(3)
    3
    """
    if is_integer(expr):
        return expr
    raise KgenError(f"an integer is required, not {expr!r}")


def integer_expr_or_err(expr: Expression) -> Integer | ExpressionNode:
    """Return *expr*, which is an integer or an expression.

    >>> from pymbolic import var
    >>> integer_expr_or_err(3), integer_expr_or_err(var("n"))
    (3, Variable('n'))
    """
    if is_integer(expr) or isinstance(expr, ExpressionNode):
        return expr
    raise KgenError(f"an integer or an expression is required, not {expr!r}")


def assert_tuple(obj: tuple[T, ...] | object) -> tuple[T, ...]:
    """Return *obj*, which is a tuple.

    >>> assert_tuple((1, 2))
    (1, 2)
    """
    if not isinstance(obj, tuple):
        raise KgenError(f"a tuple is required, not {obj!r}\n  hint: ({obj!r},)")
    return obj
