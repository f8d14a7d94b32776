"""The signs of terms and factors in text."""

from __future__ import annotations

import pymbolic.primitives as p

from kgen.ir.expr import Expr, is_negation

__all__ = ["negated", "signed_terms"]

_NUMBERS = (int, float)


def negated(text: str) -> str:
    """Put a minus sign in front of a factor."""
    return f"-({text})" if text.startswith("-") else "-" + text


def signed_terms(children: tuple[Expr, ...]) -> list[tuple[bool, Expr]]:
    """Split off the signs of the terms of a sum: pairs ``(is negative, unsigned term)``."""
    terms = []
    for child in children:
        if isinstance(child, p.Product):
            terms.append(_signed_product(child))
        elif isinstance(child, _NUMBERS) and child < 0:
            terms.append((True, -child))
        else:
            terms.append((False, child))
    return terms


def _signed_product(expr: p.Product) -> tuple[bool, Expr]:
    """Split off the sign of a product, and a factor 1 that has no type of its own."""
    first, *rest = expr.children
    if not isinstance(first, _NUMBERS) or not (first < 0 or (first == 1 and rest)):
        return False, expr
    if type(first) is not int or abs(first) != 1 or not rest:
        return (True, p.Product((-first, *rest))) if first < 0 else (False, expr)
    if len(rest) > 1:
        rest = [p.Product(tuple(rest))]
    if is_negation(rest[0]):  # x - (-u) is not x + u if -u wraps
        return first < 0, rest[0]
    ((is_negative, factor),) = signed_terms((rest[0],))
    return is_negative != bool(first < 0), factor
