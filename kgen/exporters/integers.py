"""Integer expressions of the host in C: 64 bits wide, and without overflow."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Final, TypeAlias

import numpy as np
import pymbolic.primitives as p
from pymbolic.mapper import Mapper, UnsupportedExpressionError

from kgen.errors import CodegenError
from kgen.ir.expr import Expr, TruncQuotient, TruncRemainder, to_text

__all__ = ["IntegerWriter", "Range"]

#: The least and the greatest value of a number.
Range: TypeAlias = tuple[int, int]

_INT64: Final[Range] = (-(2**63), 2**63 - 1)
_TRUTH: Final[Range] = (0, 1)


@dataclass(frozen=True)
class _Written:
    """The text of an integer expression, and its range."""

    text: str
    range: Range
    is_atom: bool = False

    @property
    def inside(self) -> str:
        """The text as an operand."""
        return self.text if self.is_atom else f"({self.text})"


class IntegerWriter(Mapper[_Written, []]):
    """Writes integers and conditions of a call in C.

    ``ranges`` are those of the variables, which may have any integer type. A sum or product that
    may exceed 64 bits becomes a call of a function of the library (*prefix* and ``add``), which
    returns the nearest 64-bit number.

    >>> from pymbolic import parse
    >>> IntegerWriter("demo_", {"n": (0, 2**31)}).text(parse("(n + 31) // 32"))
    '((int64_t) n + 31) / 32'
    >>> IntegerWriter("demo_", {"n": (-8, 2**62)}).text(parse("(4*n + 31) // 32"))
    'demo_floor_div(demo_add(demo_mul(4, (int64_t) n), 31), 32)'
    """

    def __init__(self, prefix: str, ranges: Mapping[str, Range]) -> None:
        super().__init__()
        self.prefix = prefix
        self.ranges = ranges

    def text(self, expr: Expr) -> str:
        """Return *expr* in C."""
        return self._written(expr).text

    def operand(self, expr: Expr) -> str:
        """Return *expr* in C, in parentheses unless it is a name or a number."""
        return self._written(expr).inside

    def range_of(self, expr: Expr) -> Range:
        """Return the least and the greatest value of *expr*, if known."""
        return self._written(expr).range

    def _written(self, expr: Expr) -> _Written:
        try:
            return self.rec(expr)
        except (NotImplementedError, UnsupportedExpressionError):
            raise CodegenError(
                f"the number {to_text(expr)} cannot be computed by an exported function",
                because="it is not made of sums, products, quotients, minima and conditions",
                hint="pass it as an argument",
            ) from None

    def map_constant(self, expr: Any) -> _Written:
        value = int(expr)
        text = str(value) if abs(value) < 2**31 else f"INT64_C({value})"
        return _Written(text, (value, value), value >= 0)

    def map_variable(self, expr: p.Variable) -> _Written:
        text = f"(int64_t) {expr.name}"
        return _Written(text, self.ranges.get(expr.name, _INT64), is_atom=True)

    def map_sum(self, expr: p.Sum) -> _Written:
        return reduce(self._add, map(self.rec, expr.children))

    def map_product(self, expr: p.Product) -> _Written:
        return reduce(self._multiply, map(self.rec, expr.children))

    def _add(self, one: _Written, other: _Written) -> _Written:
        found = (one.range[0] + other.range[0], one.range[1] + other.range[1])
        if not _fits(found):
            return self._call("add", _limited(found), one, other)
        if other.text.startswith("-"):
            return _Written(f"{one.text} - {other.text[1:]}", found)
        return _Written(f"{one.text} + {other.text}", found)

    def _multiply(self, one: _Written, other: _Written) -> _Written:
        found = _corners(one.range, other.range, lambda a, b: a * b)
        if not _fits(found):
            return self._call("mul", _limited(found), one, other)
        return _Written(f"{one.inside} * {other.inside}", found)

    def map_power(self, expr: p.Power) -> _Written:
        if not isinstance(expr.exponent, int | np.integer) or expr.exponent < 0:
            raise NotImplementedError
        factors = [self.rec(expr.base)] * int(expr.exponent)
        return reduce(self._multiply, factors) if factors else self.map_constant(1)

    def map_floor_div(self, expr: p.FloorDiv) -> _Written:
        return self._divided(expr, "floor_div", "/", lambda a, b: _corners(a, b, operator.floordiv))

    def map_remainder(self, expr: p.Remainder) -> _Written:
        return self._divided(expr, "floor_mod", "%", lambda _, b: (0, b[1] - 1))

    def _divided(
        self, expr: Any, helper: str, sign: str, range_of: Callable[[Range, Range], Range]
    ) -> _Written:
        above, below = self.rec(expr.numerator), self.rec(expr.denominator)
        if below.range[0] <= 0:
            return self._call(helper, _INT64, above, below)
        found = range_of(above.range, below.range)
        if above.range[0] < 0:
            return self._call(helper, found, above, below)
        return _Written(f"{above.inside} {sign} {below.inside}", found)

    def map_trunc_quotient(self, expr: TruncQuotient) -> _Written:
        above, below = self.rec(expr.numerator), self.rec(expr.denominator)
        return _Written(f"{above.inside} / {below.inside}", _INT64)

    def map_trunc_remainder(self, expr: TruncRemainder) -> _Written:
        above, below = self.rec(expr.numerator), self.rec(expr.denominator)
        return _Written(f"{above.inside} % {below.inside}", _INT64)

    def map_min(self, expr: p.Min) -> _Written:
        return self._extreme("min", min, expr.children)

    def map_max(self, expr: p.Max) -> _Written:
        return self._extreme("max", max, expr.children)

    def _extreme(
        self, name: str, choose: Callable[[int, int], int], operands: Sequence[Expr]
    ) -> _Written:
        def joined(one: _Written, other: _Written) -> _Written:
            found = (choose(one.range[0], other.range[0]), choose(one.range[1], other.range[1]))
            return self._call(name, found, one, other)

        return reduce(joined, map(self.rec, operands))

    def map_if(self, expr: p.If) -> _Written:
        condition, then, otherwise = map(self.rec, (expr.condition, expr.then, expr.else_))
        low = min(then.range[0], otherwise.range[0])
        high = max(then.range[1], otherwise.range[1])
        text = f"({condition.inside} ? {then.inside} : {otherwise.inside})"
        return _Written(text, (low, high), is_atom=True)

    def map_comparison(self, expr: p.Comparison) -> _Written:
        left, right = self.rec(expr.left), self.rec(expr.right)
        operator = getattr(expr.operator, "value", expr.operator)
        return _Written(f"{left.text} {operator} {right.text}", _TRUTH)

    def map_logical_and(self, expr: p.LogicalAnd) -> _Written:
        return self._joined(" && ", expr.children, "1")

    def map_logical_or(self, expr: p.LogicalOr) -> _Written:
        return self._joined(" || ", expr.children, "0")

    def _joined(self, operator: str, operands: Sequence[Expr], empty: str) -> _Written:
        texts = [self.rec(operand).inside for operand in operands]
        return _Written(operator.join(texts) or empty, _TRUTH)

    def map_logical_not(self, expr: p.LogicalNot) -> _Written:
        return _Written(f"!({self.rec(expr.child).text})", _TRUTH, is_atom=True)

    def _call(self, name: str, found: Range, *operands: _Written) -> _Written:
        texts = ", ".join(operand.text for operand in operands)
        return _Written(f"{self.prefix}{name}({texts})", found, is_atom=True)


def _fits(found: Range) -> bool:
    return _INT64[0] < found[0] and found[1] < _INT64[1]


def _limited(found: Range) -> Range:
    return max(found[0], _INT64[0]), min(found[1], _INT64[1])


def _corners(one: Range, other: Range, operation: Callable[[int, int], int]) -> Range:
    values = [operation(a, b) for a in one for b in other]
    return min(values), max(values)
