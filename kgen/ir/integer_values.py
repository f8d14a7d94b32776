"""The values of operations on Python integers, computed as in Python, up to a limit of size."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any, Final

import pymbolic.primitives as p

from kgen.ir.expr import Expr, TruncQuotient, TruncRemainder

__all__ = ["integer_operands", "integer_value"]

#: The most bits of a value: real numbers have no exponent larger than this.
_BITS: Final = 1024


def integer_value(expr: Expr, values: Sequence[int]) -> int | None:
    """Return the value of *expr* for these values of its operands; ``None`` if it is too large.

    >>> from pymbolic import parse
    >>> integer_value(parse("a*b"), [3, 5]), integer_value(parse("a**b"), [10, 10**6])
    (15, None)
    """
    if _bits_of(expr, values) > _BITS:
        return None
    if isinstance(expr, p.BitwiseNot):
        return ~values[0]
    return reduce(_OPERATIONS[type(expr)], values)


def integer_operands(expr: Expr) -> tuple[Expr, ...]:
    """Return the operands of an operation on integers; none for a number.

    >>> from pymbolic import parse
    >>> integer_operands(parse("2**i"))
    (2, Variable('i'))
    """
    match expr:
        case p.Power():
            return expr.base, expr.exponent
        case p.FloorDiv() | p.Remainder() | TruncQuotient() | TruncRemainder():
            return expr.numerator, expr.denominator
        case p.LeftShift() | p.RightShift():
            return expr.shiftee, expr.shift
        case p.BitwiseNot():
            return (expr.child,)
        case p.Sum() | p.Product() | p.BitwiseAnd() | p.BitwiseOr() | p.BitwiseXor():
            children: tuple[Expr, ...] = expr.children
            return children
    return ()


def _bits_of(expr: Expr, values: Sequence[int]) -> int:
    """Return a bound on the number of bits of the value, without computing it."""
    first, *others = values
    match expr:
        case p.Power():
            return 0 if abs(first) <= 1 else first.bit_length() * others[0]
        case p.LeftShift():
            return first.bit_length() + others[0]
        case p.Product():
            return sum(value.bit_length() for value in values)
    return max(value.bit_length() for value in values)


def _truncated(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _rest(a: int, b: int) -> int:
    return a - b * _truncated(a, b)


_OPERATIONS: Final[Mapping[Any, Callable[[int, int], int]]] = {
    p.Sum: operator.add,
    p.Product: operator.mul,
    p.Power: operator.pow,
    p.FloorDiv: operator.floordiv,
    p.Remainder: operator.mod,
    TruncQuotient: _truncated,
    TruncRemainder: _rest,
    p.LeftShift: operator.lshift,
    p.RightShift: operator.rshift,
    p.BitwiseAnd: operator.and_,
    p.BitwiseOr: operator.or_,
    p.BitwiseXor: operator.xor,
}
