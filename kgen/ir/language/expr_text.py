"""Expressions as text, in the instruction language: what the parser reads back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pymbolic.primitives as p
from pymbolic.mapper.stringifier import (
    PREC_CALL,
    PREC_COMPARISON,
    PREC_LOGICAL_AND,
    PREC_NONE,
    PREC_PRODUCT,
    PREC_SUM,
    PREC_UNARY,
)
from pymbolic.mapper.stringifier import (
    StringifyMapper as _StringifyMapper,
)

if TYPE_CHECKING:
    from kgen.ir.expr import (
        GroupHardwareAxisIndex,
        LinearSubscript,
        LocalHardwareAxisIndex,
        Reduction,
        SubArrayRef,
        TaggedVariable,
        TruncQuotient,
        TruncRemainder,
        TypeCast,
        TypedLiteral,
    )

_FRACTIONS: Final = (p.Quotient, p.FloorDiv, p.Remainder)
_MULTIPLICATIVE: Final = (p.Product, *_FRACTIONS)
_SUFFIXES: Final = {"float32": "f", "float64": "d", "uint32": "u", "int64": "l", "uint64": "ul"}


class StringifyMapper(_StringifyMapper[[]]):
    """Print an expression in the instruction language."""

    def map_foreign(self, expr: Any, *args: Any, **kwargs: Any) -> str:
        """Write what is no expression as Python does: messages show what was given."""
        try:
            return str(super().map_foreign(expr, *args, **kwargs))
        except ValueError:
            return repr(expr)

    def map_variable(self, expr: p.Variable, enclosing_prec: int) -> str:
        return expr.name

    def map_tagged_variable(self, expr: TaggedVariable, enclosing_prec: int) -> str:
        return "$".join([expr.name, *sorted(str(tag) for tag in expr.tags)])

    def map_constant(self, expr: Any, enclosing_prec: int) -> str:
        if isinstance(expr, np.generic):
            expr = expr.item()
        return str(super().map_constant(expr, enclosing_prec))

    def map_typed_literal(self, expr: TypedLiteral, enclosing_prec: int) -> str:
        suffix = _SUFFIXES.get(expr.type.numpy_dtype.name)
        if suffix is None or not np.isfinite(expr.value):
            return f"cast({expr.type}, {expr.value!r})"
        text = f"{expr.value!r}{suffix}"
        return f"({text})" if text.startswith("-") and enclosing_prec > PREC_SUM else text

    # -- arithmetic ---------------------------------------------------------------------

    def map_sum(self, expr: p.Sum, enclosing_prec: int) -> str:
        text = ""
        for k, term in enumerate(expr.children):
            opposite = _opposite(term) if k else None
            sign = "" if not k else " + " if opposite is None else " - "
            shown = term if opposite is None else opposite
            text += sign + str(self.rec(shown, PREC_PRODUCT if k else PREC_SUM))
        return self.parenthesize_if_needed(text, enclosing_prec, PREC_SUM)

    def map_product(self, expr: p.Product, enclosing_prec: int) -> str:
        if not expr.children:
            return "Product(())"
        first, *rest = expr.children
        is_negative = bool(rest) and _is_negative(first)
        if is_negative and first == -1 and len(rest) == 1:
            text = "-" + str(self.rec(rest[0], PREC_UNARY))
        else:
            head = f"{first}" if is_negative else self._factor(first, _FRACTIONS)
            text = "*".join([head, *(self._factor(factor, _MULTIPLICATIVE) for factor in rest)])
        return self.parenthesize_if_needed(
            text, enclosing_prec, PREC_SUM if is_negative else PREC_PRODUCT
        )

    def _factor(self, expr: Any, in_parentheses: tuple[type[Any], ...]) -> str:
        text = str(self.rec(expr, PREC_PRODUCT))
        return f"({text})" if isinstance(expr, in_parentheses) else text

    def map_trunc_quotient(self, expr: TruncQuotient, enclosing_prec: int) -> str:
        return str(self.rec(p.FloorDiv(expr.numerator, expr.denominator), enclosing_prec))

    def map_trunc_remainder(self, expr: TruncRemainder, enclosing_prec: int) -> str:
        return str(self.rec(p.Remainder(expr.numerator, expr.denominator), enclosing_prec))

    def map_comparison(self, expr: p.Comparison, enclosing_prec: int) -> str:
        left, right = (self.rec(side, PREC_COMPARISON + 1) for side in (expr.left, expr.right))
        text = f"{left} {expr.operator} {right}"
        return self.parenthesize_if_needed(text, enclosing_prec, PREC_COMPARISON)

    def map_logical_not(self, expr: p.LogicalNot, enclosing_prec: int) -> str:
        text = f"not {self.rec(expr.child, PREC_UNARY)}"
        return self.parenthesize_if_needed(text, enclosing_prec, PREC_LOGICAL_AND)

    # -- kgen's nodes -------------------------------------------------------------------

    def map_group_hardware_axis_index(
        self, expr: GroupHardwareAxisIndex, enclosing_prec: int
    ) -> str:
        return f"gid({expr.axis})"

    def map_local_hardware_axis_index(
        self, expr: LocalHardwareAxisIndex, enclosing_prec: int
    ) -> str:
        return f"lid({expr.axis})"

    def map_type_cast(self, expr: TypeCast, enclosing_prec: int) -> str:
        return f"cast({expr.type}, {self.rec(expr.child, PREC_NONE)})"

    def map_reduction(self, expr: Reduction, enclosing_prec: int) -> str:
        word = "simul_reduce" if expr.allow_simultaneous else "reduce"
        parts = ", ".join(self.rec(part, PREC_NONE) for part in expr.exprs)
        return f"{word}({expr.operation}, [{', '.join(expr.inames)}], {parts})"

    def map_sub_array_ref(self, expr: SubArrayRef, enclosing_prec: int) -> str:
        swept = ", ".join(self.rec(v, PREC_NONE) for v in expr.swept_inames)
        return f"[{swept}]: {self.rec(expr.subscript, PREC_NONE)}"

    def map_linear_subscript(self, expr: LinearSubscript, enclosing_prec: int) -> str:
        index = self.rec(expr.index, PREC_NONE)
        return f"{self.rec(expr.aggregate, PREC_CALL)}[[{index}]]"


def _is_negative(expr: Any) -> bool:
    return isinstance(expr, int | float) and expr < 0


def _opposite(expr: Any) -> Any:
    """Return what a negative number or product is the negation of, ``None`` for others."""
    if _is_negative(expr):
        return -expr
    if isinstance(expr, p.Product) and len(expr.children) > 1 and _is_negative(expr.children[0]):
        first, *rest = expr.children
        if first != -1:
            return p.Product((-first, *rest))
        return rest[0] if len(rest) == 1 else p.Product(tuple(rest))
    return None


_TEXT: Final = StringifyMapper()


def to_text(expr: Any) -> str:
    """Print *expr* in the instruction language."""
    return str(_TEXT(expr, PREC_NONE))
