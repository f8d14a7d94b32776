"""Index parts of data expressions: arithmetic on loop variables, sizes and numbers only."""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import Final

import pymbolic.primitives as p

from kgen.analysis.range import is_int32
from kgen.ir.affine import simplify
from kgen.ir.expr import (
    Expr,
    GroupHardwareAxisIndex,
    LocalHardwareAxisIndex,
    TruncQuotient,
    TruncRemainder,
    is_constant,
    walk,
)
from kgen.ir.sets.interval import Interval
from kgen.ir.types import INT32
from kgen.targets.writers.access import has_division
from kgen.targets.writers.indices import IntegerWriter
from kgen.targets.writers.site import EmissionSite

__all__ = ["IndexParts"]

_CHAINS: Final = (p.Sum, p.Product)
_AXES: Final = (GroupHardwareAxisIndex, LocalHardwareAxisIndex)
_WHOLE: Final = (int, *_AXES)


class IndexParts:
    """Finds the index parts of expressions at a *site*; :class:`IntegerWriter` writes them."""

    def __init__(self, integers: IntegerWriter, site: EmissionSite) -> None:
        self.integers, self.site = integers, site
        self.names = integers.whole_names

    def index(self, expr: Expr) -> Expr | None:
        """Return an index expression with values substituted, simplified.

        ``None`` for other expressions, for indices that transformations left unchanged, and for
        those that may exceed 32 bits.
        """
        if not _is_whole(expr, self.names) or self.integers.type_of(expr) != INT32:
            return None
        if not self._was_replaced(expr):
            return None
        index = simplify(expr, self.site.values, self.site.signs.interval)
        found, has_large = self.integers.ranges.survey(index)
        return index if is_int32(found) and not has_large else None

    def known_quotient(self, expr: p.FloorDiv | p.Remainder) -> Expr | None:
        """Return a division of an index by a constant, if simplification removes the division."""
        if not is_constant(expr.denominator) or self.index(expr.numerator) is None:
            return None
        index = simplify(expr, self.site.values, self.site.signs.interval)
        return None if has_division(index) else index

    def long_quotient(self, expr: p.FloorDiv | p.Remainder) -> Expr | None:
        """Return the division of an index by a constant, simplified, if it needs 64 bits."""
        if not is_constant(expr.denominator) or not _is_whole(expr.numerator, self.names):
            return None
        index = simplify(expr, self.site.values, self.site.signs.interval)
        return index if self.integers.is_long(index) else None

    def _was_replaced(self, expr: Expr) -> bool:
        """Tell whether a loop variable has a value to substitute, or comes from a split loop."""
        return any(
            node.name in self.site.values
            if isinstance(node, p.Variable)
            else isinstance(node, p.Product) and isinstance(node.children[-1], int)
            for node in walk(expr)
        )

    def led_by_index(self, terms: tuple[Expr, ...]) -> tuple[Expr, ...]:
        """Combine the leading terms that are an index into one term; the last term stays apart."""
        end = 0
        while end < len(terms) - 1 and _is_whole(terms[end], self.names):
            end += 1
        for stop in range(end, 1, -1):
            if self.index(p.Sum(terms[:stop])) is not None:
                return (p.Sum(terms[:stop]), *terms[stop:])
        return terms

    def is_plain(self, expr: Expr) -> bool:
        """Tell whether *expr* consists of int32 loop variables, sizes, axes and numbers.

        None of these has a value that must be substituted and simplified.
        """
        match expr:
            case int():
                return is_int32(Interval(expr, expr))
            case p.Variable():
                name = expr.name
                is_plain = name not in self.integers.long_names and name not in self.site.values
                return is_plain and self.integers.is_int32_index(name)
            case p.Sum():
                return all(map(self.is_plain, expr.children))
            case p.Product():
                is_split = isinstance(expr.children[-1], int)
                return not is_split and all(map(self.is_plain, expr.children))
        return isinstance(expr, _AXES)

    def may_overflow(self, expr: Expr) -> bool:
        """Tell whether an index expression or an intermediate result may exceed 32 bits."""
        if not all(_is_whole(leaf, self.names) for leaf in _without_divisions(expr)):
            return False
        return self.integers.overflows(expr) or self.integers.is_long(expr)


def _is_whole(expr: Expr, names: Container[str]) -> bool:
    """Tell whether an expression consists of certain variables and integers."""
    todo = [expr]
    while todo:
        part = todo.pop()
        if isinstance(part, _CHAINS):
            todo.extend(part.children)
        elif isinstance(part, p.Variable):
            if part.name not in names:
                return False
        elif not isinstance(part, _WHOLE):
            return False
    return True


def _without_divisions(expr: Expr) -> Iterator[Expr]:
    """Yield the operands of nested quotients, remainders and conditionals between numbers."""
    match expr:
        case p.FloorDiv() | p.Remainder() | TruncQuotient() | TruncRemainder():
            yield from _without_divisions(expr.numerator)
            yield from _without_divisions(expr.denominator)
        case p.Sum() | p.Product() | p.Min() | p.Max():
            for child in expr.children:
                yield from _without_divisions(child)
        case p.If():
            yield from _without_divisions(expr.then)
            yield from _without_divisions(expr.else_)
        case _:
            yield expr
