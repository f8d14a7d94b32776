"""Quotients and remainders of the same number, recombined: ``8*(i // 8) + i % 8`` is ``i``."""

from __future__ import annotations

import pymbolic.primitives as p

from kgen.ir.affine import LinearForm, linear_form
from kgen.ir.expr import Expr

__all__ = ["join_digits"]


def join_digits(expr: Expr) -> Expr:
    """Put the digits of a number together, where an integer expression has several of them.

    ::

        8*(i // 8) + i % 8                       =>   i
        40*(i // 40) + 5*(i // 5 % 8) + i % 5    =>   i

    This is the subscript that loops which were joined leave behind in a contiguous array.

    >>> from pymbolic import parse
    >>> from kgen.ir.expr import to_text
    >>> to_text(join_digits(parse("n + 40*(i // 40) + 5*(i // 5 % 8) + i % 5")))
    'n + i'
    >>> to_text(join_digits(parse("16*(i // 8) + i % 8")))
    '16*(i // 8) + i % 8'
    """
    form = linear_form(expr)
    while (joined := _join_once(form)) is not None:
        form = joined
    return form.to_expr()


def _join_once(form: LinearForm) -> LinearForm | None:
    """Replace ``c*(x % d) + c*d*(x // d)`` by ``c*x``; ``None`` where there is no such pair."""
    terms = form.terms
    for low in terms:
        if isinstance(low[1], p.Remainder) and isinstance(low[1].denominator, int):
            top, den = low[1].numerator, low[1].denominator
            above = LinearForm()
            above.add_form(linear_form(p.FloorDiv(top, den)), low[0] * den)
            wanted = [_in_one_division(term) for term in above.terms]
            rest = [term for term in terms if term is not low]
            if _take(rest, wanted):
                joined = LinearForm()
                joined.constant = form.constant - above.constant
                for coefficient, atom in rest:
                    joined.add(atom, coefficient)
                joined.add_form(linear_form(top), low[0])
                return joined
    return None


def _take(rest: list[tuple[int, Expr]], wanted: list[tuple[int, Expr]]) -> bool:
    """Remove the terms *wanted*, all of them or none."""
    if not all(any(term == _in_one_division(other) for other in rest) for term in wanted):
        return False
    for term in wanted:
        rest.remove(next(other for other in rest if term == _in_one_division(other)))
    return True


def _in_one_division(term: tuple[int, Expr]) -> tuple[int, Expr]:
    """Write ``(b*y + x // a) // c``, and ``x // a // c``, as one quotient by ``a*c``."""
    coefficient, atom = term
    while isinstance(atom, p.FloorDiv) and isinstance(atom.denominator, int):
        numerator = linear_form(atom.numerator)
        inner = next(
            (other for factor, other in numerator.terms if _is_quotient(factor, other)), None
        )
        if inner is None or atom.denominator <= 0:
            return coefficient, p.FloorDiv(numerator.to_expr(), atom.denominator)
        whole = LinearForm()
        whole.add_form(numerator, inner.denominator)
        whole.add(inner, -inner.denominator)
        whole.add_form(linear_form(inner.numerator), 1)
        atom = p.FloorDiv(whole.to_expr(), inner.denominator * atom.denominator)
    return coefficient, atom


def _is_quotient(factor: int, atom: Expr) -> bool:
    """Tell whether a term is a quotient by a positive number, once."""
    is_quotient = isinstance(atom, p.FloorDiv) and isinstance(atom.denominator, int)
    return is_quotient and factor == 1 and atom.denominator > 0
