"""Sums, products and quotients of real and complex operands as C text."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

import pymbolic.primitives as p
from pymbolic.mapper.stringifier import (
    PREC_CALL,
    PREC_NONE,
    PREC_PRODUCT,
    PREC_SUM,
    PREC_UNARY,
)

from kgen.ir.expr import Expr, TruncQuotient, TruncRemainder
from kgen.ir.promotion import arithmetic, settle
from kgen.ir.types import NumpyType
from kgen.ir.vector_values import numbers_of
from kgen.targets.base import ComplexStyle
from kgen.targets.conversions import is_promoted_to_int, real_part
from kgen.targets.writers.complex import call_operation, stem
from kgen.targets.writers.context import WriterContext
from kgen.targets.writers.indices import parenthesized
from kgen.targets.writers.terms import negated

__all__ = ["chain_text", "truncated"]

#: The precedence that operands after an operator need; others bind tightest. A sum that is a
#: term keeps its parentheses, to preserve the written order of evaluation.
_INNER_PRECEDENCE: Final = {"+": PREC_PRODUCT, "-": PREC_PRODUCT}
_FRACTIONS: Final = (p.Quotient, p.FloorDiv, p.Remainder, TruncQuotient, TruncRemainder)


class Operand(NamedTuple):
    """An operand, the operator before it, its type, and the type that its text must have."""

    sign: str
    expr: Expr
    own: NumpyType
    wanted: NumpyType


def chain_text(
    writer: WriterContext,
    parts: Iterable[tuple[str, Expr]],
    result: NumpyType,
    own_prec: int,
    prec: int,
    *,
    first_as: NumpyType | None = None,
) -> str:
    """Write operands, each preceded by its operator; the first one has ``-`` or none.

    The text is evaluated from left to right, with casts where C would combine two operands in
    another type than numpy.

    *own_prec* is the precedence of the operators; *first_as* the type that the first
    operand is cast to.
    """
    if result.kind == "V":
        return _of_vectors(writer, parts, result, own_prec, prec)
    chain = []
    for sign, part in parts:
        own = writer.own_type(part, result)
        chain.append(Operand(sign, part, own, own))
    if first_as is not None:
        chain[0] = chain[0]._replace(wanted=first_as)
    if result.is_complex() and writer.target.complex_style is not ComplexStyle.BUILTIN:
        return _complex(writer, chain, result, own_prec, prec)
    return _real(writer, chain, result, own_prec, prec)


def _of_vectors(
    writer: WriterContext,
    parts: Iterable[tuple[str, Expr]],
    result: NumpyType,
    own_prec: int,
    prec: int,
) -> str:
    """Write operations of vectors and numbers; numbers have the vectors' element type."""
    numbers = numbers_of(result.dtype)
    assert numbers is not None
    base = NumpyType(numbers[0])
    texts: list[str] = []
    for sign, part in parts:
        inner = _INNER_PRECEDENCE.get(sign, PREC_UNARY) if sign else own_prec
        if writer.typer.operand(part) == result:
            text = writer.rec(part, inner, result)
        else:
            text = writer.converted(part, base, inner)
        texts.append(f" {sign} {text}" if texts else negated(text) if sign else text)
    return parenthesized("".join(texts), own_prec, prec)


def _real(
    writer: WriterContext, chain: list[Operand], result: NumpyType, own_prec: int, prec: int
) -> str:
    parts = [_first(writer, chain[0], own_prec)]
    done = chain[0].wanted
    text_type = done if chain[0].sign else writer.text_type(chain[0].expr, done)
    for operand in chain[1:]:
        step = _step(done, operand.wanted, result)
        if step != done and is_promoted_to_int(done) and (len(parts) > 1 or chain[0].sign):
            parts = [f"({writer.type_name(done)}) ({''.join(parts)})"]
        wanted = writer.text_type(operand.expr, operand.wanted)
        inner = _INNER_PRECEDENCE.get(operand.sign, PREC_UNARY)
        if operand.sign == "+" and _is_index(operand, done):
            inner = PREC_SUM
        parts.append(f" {operand.sign} ")
        if _fits(writer, text_type, wanted, step):
            parts.append(_operand(writer, operand, operand.wanted, inner))
        else:
            if not writer.target.conversions.mixes(text_type, step):
                done_text = "".join(parts[:-1])
                is_whole = len(parts) == 2 and _is_element(chain[0])
                done_text = done_text if is_whole else f"({done_text})"
                parts[:-1] = [writer.cast_text(done_text, text_type, step)]
            parts.append(writer.exact(operand.expr, step, inner))
        done = text_type = step
    return truncated(writer, "".join(parts), result, own_prec, prec)


def _fits(writer: WriterContext, done: NumpyType, wanted: NumpyType, step: NumpyType) -> bool:
    """Tell whether the language computes an operation on two types in the type *step*."""
    if done is wanted is step and step.kind != "b":
        return True
    conversions = writer.target.conversions
    return conversions.mixes(done, wanted) and conversions.fit(done, wanted, step)


def _first(writer: WriterContext, first: Operand, own_prec: int) -> str:
    if not first.sign:
        return _operand(writer, first, first.wanted, own_prec)
    if first.wanted.kind == "u":  # -(a / b) is not (-a) / b
        return negated(writer.exact(first.expr, first.wanted, PREC_UNARY))
    prec = PREC_UNARY if _begins_narrower(writer, first) else PREC_PRODUCT
    return negated(_operand(writer, first, first.wanted, prec))


def _begins_narrower(writer: WriterContext, operand: Operand) -> bool:
    """Tell whether the text of a product begins with an integer of another type than its own."""
    expr = operand.expr
    while isinstance(expr, (p.Product, *_FRACTIONS)):
        expr = expr.children[0] if isinstance(expr, p.Product) else expr.numerator
    own = writer.own_type(expr, operand.wanted)
    return own.is_integral() and own != operand.wanted


def _operand(writer: WriterContext, operand: Operand, wanted: NumpyType, prec: int) -> str:
    if wanted is operand.own:
        return writer.rec(operand.expr, prec, wanted)
    return writer.converted(operand.expr, wanted, prec)


def truncated(writer: WriterContext, text: str, result: NumpyType, own_prec: int, prec: int) -> str:
    """Truncate a result that C computed as an int to its type."""
    if is_promoted_to_int(result) and prec != PREC_NONE:
        text = f"({writer.type_name(result)}) ({text})"
        return parenthesized(text, PREC_UNARY, prec)
    return parenthesized(text, own_prec, prec)


def _complex(
    writer: WriterContext, chain: list[Operand], result: NumpyType, own_prec: int, prec: int
) -> str:
    """Write operands, at least one of them complex, each with the precision of its step."""
    if writer.target.complex_style is ComplexStyle.FUNCTIONS:
        own_prec = PREC_CALL
    text, done = _first_complex(writer, chain[0], own_prec), chain[0].wanted
    for operand in chain[1:]:
        step = _step(done, operand.wanted, result)
        left, right = _matching(done, step), _matching(operand.wanted, step)
        if left != done:
            text = writer.cast_text(f"({text})", done, left)
        text = _join(writer, text, operand, (left, right), step)
        done = step
    return parenthesized(text, own_prec, prec)


def _first_complex(writer: WriterContext, first: Operand, own_prec: int) -> str:
    if (
        writer.target.complex_style is ComplexStyle.CLASS
        or not first.wanted.is_complex()
        or not first.sign
    ):
        return _first(writer, first, own_prec)
    return f"{stem(first.wanted)}_neg({_operand(writer, first, first.wanted, PREC_NONE)})"


def _join(
    writer: WriterContext,
    left: str,
    operand: Operand,
    types: tuple[NumpyType, NumpyType],
    step: NumpyType,
) -> str:
    if step.is_complex() and writer.target.complex_style is ComplexStyle.FUNCTIONS:
        right = _operand(writer, operand, types[1], PREC_NONE)
        return call_operation(operand.sign, left, right, types, step)
    inner = _INNER_PRECEDENCE.get(operand.sign, PREC_UNARY)
    return f"{left} {operand.sign} {_operand(writer, operand, types[1], inner)}"


def _is_element(operand: Operand) -> bool:
    """Tell whether an operand is a variable or an element, which needs no parentheses."""
    return isinstance(operand.expr, p.Variable | p.Subscript) and not operand.sign


def _is_index(operand: Operand, done: NumpyType) -> bool:
    """Tell whether an operand is a variable, such as a loop variable, added to integers."""
    is_variable = isinstance(operand.expr, p.Variable)
    return is_variable and operand.own.is_integral() and done.is_integral()


def _step(done: NumpyType, wanted: NumpyType, result: NumpyType) -> NumpyType:
    """Return the type of a partial result of type *done* combined with the next operand.

    An integer does not widen a complex partial result: ``1j*f4*i4`` is complex64. Results of
    bitwise operations stay integers: ``u8 & i8`` is uint64.
    """
    if done is wanted is result and result.kind != "b":
        return result
    step = settle(arithmetic(done, wanted))
    if result.is_integral() and not step.is_integral():
        return result
    is_wider = step.is_complex() and result.is_complex() and step.itemsize > result.itemsize
    return result if is_wider else step


def _matching(own: NumpyType, step: NumpyType) -> NumpyType:
    """Return the type that an operand must have for an operation on complex numbers."""
    if not step.is_complex():
        return own
    return step if own.is_complex() else real_part(step)
