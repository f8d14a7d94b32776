"""Arguments of overloaded functions, which the compiler chooses by the types of the text."""

from __future__ import annotations

import pymbolic.primitives as p
from pymbolic.mapper.stringifier import PREC_UNARY

from kgen.ir.expr import Expr, TypeCast
from kgen.ir.promotion import Literal
from kgen.ir.types import INT32, NumpyType
from kgen.targets.conversions import is_promoted_to_int
from kgen.targets.writers.context import WriterContext
from kgen.targets.writers.indices import parenthesized

__all__ = ["overloaded"]


def overloaded(writer: WriterContext, operand: Expr, dtype: NumpyType, prec: int) -> str:
    """Write an argument whose text has the type *dtype*.

    In C, the type of integers depends on the context: constants, and values computed as int.
    """
    while isinstance(operand, TypeCast) and operand.type == dtype:
        operand = operand.child
    own = writer.own_type(operand, dtype)
    if own == dtype and _has_other_text(writer, operand, dtype):
        text = f"({writer.type_name(dtype)}) {writer.rec(operand, PREC_UNARY, own)}"
        return parenthesized(text, PREC_UNARY, prec)
    return writer.converted(operand, dtype, prec)


def _has_other_text(writer: WriterContext, operand: Expr, dtype: NumpyType) -> bool:
    """Tell whether the text of an operand of type *dtype* may have another type."""
    if dtype == INT32:
        return writer.integers.is_long(operand)  # of wider loop variables
    if not dtype.is_integral() or isinstance(operand, p.Variable | p.Subscript):
        return False
    if isinstance(writer.typer.operand(operand), Literal) or is_promoted_to_int(dtype):
        return True
    return writer.text_type(operand, dtype) != dtype
