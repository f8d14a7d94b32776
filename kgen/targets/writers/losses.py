"""Warnings of assignments that lose a part of the value."""

from __future__ import annotations

from collections.abc import Iterator

import pymbolic.primitives as p

from kgen.errors import message
from kgen.ir.expr import Expr, to_text
from kgen.ir.instruction import Assignment
from kgen.ir.types import NumpyType
from kgen.targets.writers.expressions import ExpressionWriter

__all__ = ["warn_of_losses"]

#: Functions whose results are values of their operands, apart from the sign.
_SELECTIONS = frozenset({"min", "max", "abs"})


def warn_of_losses(writer: ExpressionWriter, insn: Assignment, dtype: NumpyType) -> None:
    """Warn if an imaginary part, or the fraction of a quotient of integers, is lost.

    *dtype* is the type of the assignee.
    """
    if not dtype.is_complex() and writer.own_type(insn.expression, dtype).is_complex():
        name = insn.assignee_name
        text = message(
            f"the imaginary part of the value assigned to '{name}', of type {dtype.dtype}, is lost",
            kernel=writer.kernel.name,
            where=f"instruction '{insn}'",
            hint=f"declare '{name}' complex, or choose a part: real(...), abs(...)",
        )
        writer.kernel.warn(text, f"complex_to_real({insn.id})")
    if dtype.is_integral():
        _warn_of_quotient(writer, insn, dtype)


def _warn_of_quotient(writer: ExpressionWriter, insn: Assignment, dtype: NumpyType) -> None:
    """Warn if a real quotient of integers is truncated to an integer, unlike in C."""
    quotient = next(_QuotientFinder(writer).quotients(insn.expression), None)
    if quotient is None:
        return
    top, bottom = (to_text(part) for part in (quotient.numerator, quotient.denominator))
    text = message(
        f"'{insn.assignee_name}', of type {dtype.dtype}, is assigned a value computed from the "
        f"real number '{to_text(quotient)}', which is truncated last",
        kernel=writer.kernel.name,
        where=f"instruction '{insn}'",
        hint=f"write {top} // {bottom} for the quotient of integers, or floor(...) or cast(...) "
        "around the part to truncate",
    )
    writer.kernel.warn(text, f"quotient_to_integer({insn.id})")


class _QuotientFinder:
    """Finds real quotients of integers among the terms and factors of a value.

    A temporary, such as the accumulator of a sum, stands for the values that are assigned to it.
    """

    def __init__(self, writer: ExpressionWriter) -> None:
        self.typer = writer.typer
        self.kernel = writer.kernel
        self.seen: set[str] = set()

    def quotients(self, expr: Expr) -> Iterator[p.Quotient]:
        """Yield the quotients in *expr*."""
        match expr:
            case p.Quotient(numerator=top, denominator=bottom):
                if self.typer(top).is_integral() and self.typer(bottom).is_integral():
                    yield expr
                parts: tuple[Expr, ...] = (top, bottom)
            case p.Sum() | p.Product() | p.Min() | p.Max():
                parts = expr.children
            case p.If():
                parts = (expr.then, expr.else_)
            case p.Call(function=p.Variable(name=name)) if name in _SELECTIONS:
                parts = expr.parameters
            case p.Variable(name=name) | p.Subscript(aggregate=p.Variable(name=name)):
                parts = tuple(self._values(name))
            case _:
                return
        for part in parts:
            yield from self.quotients(part)

    def _values(self, name: str) -> Iterator[Expr]:
        """Yield the values that are assigned to a real temporary."""
        temporary = self.kernel.temporary_variables.get(name)
        if temporary is None or temporary.dtype.is_integral() or name in self.seen:
            return
        self.seen.add(name)
        for insn_id in sorted(self.kernel.writers[name]):
            insn = self.kernel.id_to_insn[insn_id]
            if isinstance(insn, Assignment):
                yield insn.expression
