"""Quotients and remainders of the same number, recombined: ``8*(i // 8) + i % 8`` is ``i``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pymbolic.primitives as p

from kgen.ir.affine import BoundsOf, LinearForm, linear_form
from kgen.ir.expr import Expr

__all__ = ["join_digits"]


def join_digits(expr: Expr, bounds_of: BoundsOf | None = None) -> Expr:
    """Recombine the digits of a number in an integer expression.

    ::

        8*(i // 8) + i % 8                              =>   i
        40*(i // 40) + 5*(i // 5 % 8) + i % 5           =>   i
        12*(i // 12) + 4*(i % 12 // 4) + i % 4          =>   i

    Such subscripts of contiguous arrays result from joining loops, and from reshaping
    arrays. Quotients that are constant, according to *bounds_of*, become that constant.

    >>> from pymbolic import parse
    >>> from kgen.ir.expr import to_text
    >>> to_text(join_digits(parse("n + 40*(i // 40) + 5*(i // 5 % 8) + i % 5")))
    'n + i'
    >>> to_text(join_digits(parse("16*(i // 8) + i % 8")))
    '16*(i // 8) + i % 8'
    """
    form = linear_form(expr, None, bounds_of)
    divisions = [term for term in form.terms if _is_division(term[1])]
    if len(divisions) < 2:
        return form.to_expr()
    for terms, whole in _related(divisions, bounds_of):
        if len(whole.terms) < len(terms) or not any(_is_division(atom) for _, atom in whole.terms):
            for coefficient, atom in terms:
                form.add(atom, -coefficient)
            form.add_form(whole, 1)
    return form.to_expr()


def _related(
    terms: list[tuple[int, Expr]], bounds_of: BoundsOf | None
) -> Iterator[tuple[list[tuple[int, Expr]], LinearForm]]:
    """Group terms with a common quotient; yield each group, and its sum by quotients."""
    groups: list[tuple[list[tuple[int, Expr]], LinearForm, set[Expr]]] = []
    for coefficient, atom in terms:
        whole, found = LinearForm(), [(coefficient, atom)]
        whole.add_form(_by_quotients(atom, bounds_of), coefficient)
        quotients = {atom for _, atom in whole.terms if _is_division(atom)}
        for group in [group for group in groups if group[2] & quotients]:
            groups.remove(group)
            found = group[0] + found
            whole.add_form(group[1], 1)
            quotients |= group[2]
        groups.append((found, whole, quotients))
    for found, whole, _ in groups:
        yield found, whole


def _by_quotients(expr: Expr, bounds_of: BoundsOf | None) -> LinearForm:
    """Replace remainders by quotients, ``x % d`` by ``x - d*(x // d)``."""
    form, result = linear_form(expr, None, bounds_of), LinearForm()
    result.constant = form.constant
    for coefficient, atom in form.terms:
        if not _is_division(atom):
            result.add(atom, coefficient)
            continue
        top, den = _by_quotients(atom.numerator, bounds_of), atom.denominator
        quotient = linear_form(p.FloorDiv(top.to_expr(), den), None, bounds_of)
        if isinstance(atom, p.Remainder):
            result.add_form(top, coefficient)
            coefficient *= -den
        result.constant += coefficient * quotient.constant
        for factor, part in quotient.terms:
            result.add_form(_in_one_division(part, bounds_of), coefficient * factor)
    return result


def _in_one_division(atom: Expr, bounds_of: BoundsOf | None) -> LinearForm:
    """Write ``(b*y + x // a) // c``, and ``x // a // c``, as one quotient by ``a*c``."""
    if isinstance(atom, p.FloorDiv) and _is_division(atom):
        numerator = linear_form(atom.numerator)
        for factor, inner in numerator.terms:
            if factor == 1 and isinstance(inner, p.FloorDiv) and _is_division(inner):
                den: Any = inner.denominator
                whole = LinearForm()
                whole.add_form(numerator, den)
                whole.add(inner, -den)
                whole.add_form(linear_form(inner.numerator), 1)
                quotient = p.FloorDiv(whole.to_expr(), den * atom.denominator)
                return _by_quotients(quotient, bounds_of)
    form = LinearForm()
    form.add(atom, 1)
    return form


def _is_division(atom: Expr) -> bool:
    """Tell whether an atom is a quotient or a remainder by a positive number."""
    is_either = isinstance(atom, p.FloorDiv | p.Remainder)
    return is_either and isinstance(atom.denominator, int) and atom.denominator > 0
