"""Integer expressions in linear normal form: merged terms, comparisons without minus signs."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import reduce
from math import gcd
from operator import xor
from typing import Any, TypeAlias

import numpy as np
import pymbolic.primitives as p

from kgen.ir.expr import (
    Expr,
    GroupHardwareAxisIndex,
    LocalHardwareAxisIndex,
    TruncQuotient,
    TruncRemainder,
    TypeCast,
    minus,
    substitute,
    to_text,
)
from kgen.ir.sets.interval import ANYTHING, Interval

__all__ = [
    "BoundsOf",
    "LinearForm",
    "canonical",
    "expand_products",
    "linear_form",
    "memory_length",
    "move_to_sides",
    "simplify",
]

#: Returns an interval of the values of an expression.
BoundsOf: TypeAlias = Callable[[Expr], Interval]


class LinearForm:
    """``sum(coefficient * atom) + constant`` over the integers, atoms in order of appearance.

    An atom is anything but a sum or a multiple: a variable, a subscript, ``n // 4``,
    or a product of such, ``n * i``; the order of the factors does not matter.
    """

    __slots__ = ("_terms", "constant")

    def __init__(self) -> None:
        self._terms: dict[Any, tuple[int, Expr]] = {}
        self.constant = 0

    def add(self, atom: Expr, coefficient: int) -> None:
        """Add ``coefficient * atom``."""
        key = _key_of(atom)
        old = self._terms.get(key)
        self._terms[key] = (coefficient, atom) if old is None else (old[0] + coefficient, old[1])

    def add_form(self, other: LinearForm, factor: int) -> None:
        """Add ``factor * other``."""
        self.constant += factor * other.constant
        for coefficient, atom in other._terms.values():
            self.add(atom, factor * coefficient)

    @property
    def terms(self) -> list[tuple[int, Expr]]:
        """Coefficients, none of them 0, and their atoms."""
        return [term for term in self._terms.values() if term[0]]

    def to_expr(self) -> Expr:
        """Write the form as an expression, terms of high degree and large coefficient first."""
        return _sum(self.terms, self.constant)


def memory_length(extents: Iterable[Expr], strides: Iterable[Expr]) -> Expr:
    """Return the number of elements from the first to the last one of an array in memory.

    >>> n = p.Variable("n")
    >>> print(memory_length((n, 4), (5, 1)))
    5*n + -1
    """
    axes = zip(extents, strides, strict=True)
    return simplify(p.Sum((1, *(p.Product((stride, extent - 1)) for extent, stride in axes))))


def simplify(
    expr: Expr,
    values: Mapping[str, Expr] | None = None,
    bounds_of: BoundsOf | None = None,
) -> Expr:
    """Merge the terms of an expression over the integers; constants stand last.

    Variables in *values* are replaced by their values. Products of sums without constants
    stay factored. Not for floating point: the rounding would change.
    Divisions whose quotient is constant, according to *bounds_of*, become that constant, and
    their remainders become differences.

    >>> from pymbolic import parse
    >>> from kgen.ir.expr import to_text
    >>> to_text(simplify(parse("16*(i + 1) + 1*j + 0*k + 1")))
    '16*i + j + 17'
    >>> to_text(simplify(parse("(n + 2)*(i + 1) + j + (i - 1) % 16")))
    '(n + 2)*(i + 1) + j + (i + 15) % 16'
    """
    if isinstance(expr, p.Variable):
        value = values.get(expr.name, expr) if values else expr
        if value is expr or type(value) is int:
            return value
    elif type(expr) is int:
        return expr
    return linear_form(expr, values, bounds_of).to_expr()


def expand_products(expr: Expr) -> Expr:
    """Write a product of sums as a sum of products: ``n*(i + 1)`` as ``n*i + n``.

    >>> from pymbolic import parse
    >>> from kgen.ir.expr import to_text
    >>> to_text(simplify(expand_products(parse("n*(i + 1) - n"))))
    'n*i'
    """
    if isinstance(expr, p.Sum):
        return p.Sum(tuple(expand_products(child) for child in expr.children))
    if not isinstance(expr, p.Product):
        return expr
    terms: list[tuple[Expr, ...]] = [()]
    for child in expr.children:
        factor = expand_products(child)
        parts = factor.children if isinstance(factor, p.Sum) else (factor,)
        terms = [(*term, part) for term in terms for part in parts]
    return p.Sum(tuple(p.Product(term) for term in terms))


def canonical(expr: Expr) -> Expr:
    """Write an integer expression in canonical form, as a sum of products.

    >>> from pymbolic import parse
    >>> [str(canonical(parse(text))) for text in ("m*8", "8*m", "k + n*m", "m*n + k")]
    ['8*m', '8*m', 'm*n + k', 'm*n + k']
    """
    form, ordered = linear_form(expand_products(expr)), LinearForm()
    ordered.constant = form.constant
    terms = [(coefficient, _with_ordered_factors(atom)) for coefficient, atom in form.terms]
    for coefficient, atom in sorted(terms, key=lambda term: to_text(term[1])):
        ordered.add(atom, coefficient)
    return ordered.to_expr()


def _with_ordered_factors(atom: Expr) -> Expr:
    if not isinstance(atom, p.Product):
        return atom
    return p.Product(tuple(sorted(atom.children, key=to_text)))


def linear_form(
    expr: Expr,
    values: Mapping[str, Expr] | None = None,
    bounds_of: BoundsOf | None = None,
) -> LinearForm:
    """Collect the terms of an expression over the integers, replacing variables by *values*."""
    form = LinearForm()
    _Collector(values or {}, bounds_of or _unknown).add(form, 1, expr)
    return form


class _Collector:
    """Accumulates expressions in a linear form, replacing variables by their values."""

    def __init__(self, values: Mapping[str, Expr], bounds_of: BoundsOf) -> None:
        self.values = values
        self.bounds_of = bounds_of

    def form_of(self, expr: Expr) -> LinearForm:
        form = LinearForm()
        self.add(form, 1, expr)
        return form

    def simplified(self, expr: Expr) -> Expr:
        return self.form_of(expr).to_expr()

    def add(self, form: LinearForm, factor: int, expr: Expr) -> None:
        stack: list[tuple[int, Expr]] = [(factor, expr)]
        while stack:
            factor, top = stack.pop()
            kind = type(top)
            if kind is int:
                form.constant += factor * top
            elif kind is p.Sum:
                stack.extend([(factor, child) for child in top.children[::-1]])
            elif kind is p.Product:
                first, *others = top.children
                if type(first) is int and len(others) == 1:
                    stack.append((factor * first, others[0]))
                else:
                    self._add_product(form, factor, top)
            elif kind in _AXES:
                form.add(top, factor)
            elif isinstance(top, p.Variable):
                self._add_variable(form, factor, top)
            elif isinstance(top, _INTEGERS):
                form.constant += factor * int(top)
            else:
                self._add_other(form, factor, top)

    def _add_variable(self, form: LinearForm, factor: int, expr: p.Variable) -> None:
        value = self.values.get(expr.name)
        if value is None or value == expr:
            form.add(expr, factor)
        elif isinstance(value, int):
            form.constant += factor * int(value)
        else:
            _Collector({}, self.bounds_of).add(form, factor, value)

    def _add_product(self, form: LinearForm, number: int, expr: p.Product) -> None:
        """Add a product: numbers are multiplied out and distributed over a single sum."""
        factors: list[Expr] = []
        for child in expr.children:
            if isinstance(child, int):
                number *= child
            else:
                factors.append(child)
        if len(factors) == 1:
            self.add(form, number, factors[0])
            return
        rest: list[LinearForm] = []
        for child in factors:
            factor = self.form_of(child)
            terms = factor.terms
            if not terms:
                number *= factor.constant
            elif len(terms) == 1 and not factor.constant:
                number *= terms[0][0]
                rest.append(_form_of(terms[0][1]))
            else:
                rest.append(factor)
        if not rest:
            form.constant += number
        elif len(rest) == 1:
            form.add_form(rest[0], number)
        else:
            parts: list[Expr] = []
            for factor in rest:
                part = factor.to_expr()
                parts.extend(part.children if isinstance(part, p.Product) else (part,))
            form.add(p.Product(tuple(parts)), number)

    def _add_other(self, form: LinearForm, factor: int, expr: Expr) -> None:
        match expr:
            case p.FloorDiv() | p.Remainder():
                top, den = self.form_of(expr.numerator), self.simplified(expr.denominator)
                form.add_form(_divided(type(expr), top, den, self.bounds_of), factor)
            case TruncQuotient() | TruncRemainder():
                top, den = self.form_of(expr.numerator), self.simplified(expr.denominator)
                form.add_form(_truncated(type(expr), top, den, self.bounds_of), factor)
            case p.Min() | p.Max():
                children = tuple(self.simplified(child) for child in expr.children)
                if all(isinstance(child, int) for child in children):
                    choose = min if isinstance(expr, p.Min) else max
                    form.constant += factor * choose(children)
                else:
                    form.add(type(expr)(children), factor)
            case p.If():
                condition = substitute(expr.condition, self.values)
                holds = _decided(condition)
                if holds is not None:
                    self.add(form, factor, expr.then if holds else expr.else_)
                else:
                    then, other = self.simplified(expr.then), self.simplified(expr.else_)
                    form.add(p.If(condition, then, other), factor)
            case p.BitwiseXor():
                self._add_exclusive_or(form, factor, expr)
            case TypeCast() if expr.type.is_integral():
                form.add(TypeCast(expr.type, self.simplified(expr.child)), factor)
            case _:
                form.add(substitute(expr, self.values), factor)

    def _add_exclusive_or(self, form: LinearForm, factor: int, expr: p.BitwiseXor) -> None:
        forms = [self.form_of(child) for child in expr.children]
        number = reduce(xor, (each.constant for each in forms if not each.terms), 0)
        others = [each for each in forms if each.terms]
        if not others:
            form.constant += factor * number
        elif len(others) == 1 and not number:
            form.add_form(others[0], factor)
        else:
            numbers = (number,) if number else ()
            form.add(p.BitwiseXor((*(each.to_expr() for each in others), *numbers)), factor)


_INTEGERS = (int, np.integer)
_FLOORED: dict[type[Expr], type[Expr]] = {
    TruncQuotient: p.FloorDiv,
    TruncRemainder: p.Remainder,
}
_AXES = (GroupHardwareAxisIndex, LocalHardwareAxisIndex)


def _unknown(expr: Expr) -> Interval:
    return ANYTHING


def _decided(condition: Expr) -> bool | None:
    """Return the value of a comparison of two constants; ``None`` for other conditions."""
    match condition:
        case p.Comparison(int() as left, operator, int() as right):
            decided = move_to_sides(left, str(operator), right)
            return decided if isinstance(decided, bool) else None
    return None


def _form_of(atom: Expr) -> LinearForm:
    form = LinearForm()
    form.add(atom, 1)
    return form


def _divided(kind: type[Expr], top: LinearForm, den: Expr, bounds_of: BoundsOf) -> LinearForm:
    """Floor-divide, taking multiples of a constant divisor out of the numerator.

    The constant of the numerator becomes non-negative, so ``(i - 1) % 16`` becomes
    ``(i + 15) % 16``, which C's operator computes correctly for ``i >= 0``.
    """
    if not (isinstance(den, int) and den > 0):
        return _form_of(kind(top.to_expr(), den))
    is_div = issubclass(kind, p.FloorDiv)
    result, inside = LinearForm(), LinearForm()
    for coefficient, atom in top.terms:
        if coefficient % den:
            inside.add(atom, coefficient)
        elif is_div:
            result.add(atom, coefficient // den)
    quotient, inside.constant = divmod(top.constant, den)
    if is_div:
        result.constant = quotient
    if inside.terms:
        rest = inside.to_expr()
        known = (bounds_of(rest) // den).only
        if known is None:
            result.add(kind(rest, den), 1)
        elif is_div:
            result.constant += known
        else:
            result.add_form(inside, 1)
            result.constant -= known * den
    elif not is_div:
        result.constant = inside.constant
    return result


def _truncated(kind: type[Expr], top: LinearForm, den: Expr, bounds_of: BoundsOf) -> LinearForm:
    """Divide as C does; folds constants, and quotients of numerators known to be non-negative."""
    if not (isinstance(den, int) and den > 0):
        return _form_of(kind(top.to_expr(), den))
    if top.terms:
        whole = top.to_expr()
        if bounds_of(whole).is_at_least(0):
            result = _divided(_FLOORED[kind], top, den, bounds_of)
            if not any(isinstance(atom, p.FloorDiv | p.Remainder) for _, atom in result.terms):
                return result
        return _form_of(kind(whole, den))
    result = LinearForm()
    size, sign = abs(top.constant), -1 if top.constant < 0 else 1
    result.constant = sign * (size // den if kind is TruncQuotient else size % den)
    return result


def move_to_sides(lhs: Expr, op: str, rhs: Expr) -> p.Comparison | bool:
    """Compare integers with only positive terms on each side; ``bool`` if it is decided.

    >>> from pymbolic import parse
    >>> from kgen.ir.expr import to_text
    >>> to_text(move_to_sides(parse("-1 + n + -16*io + -ii"), ">=", 0))
    '16*io + ii < n'
    >>> move_to_sides(3, "<=", 4)
    True
    """
    form = linear_form(minus(lhs, rhs))
    terms, constant = form.terms, form.constant
    if op in ("==", "!="):
        return _equation(terms, constant, op)
    if op in ("<", "<="):
        terms, constant = [(-coefficient, atom) for coefficient, atom in terms], -constant
    elif op not in (">", ">="):
        raise ValueError(f"'{op}' is not a comparison")
    # terms + constant >= 0 from here on
    if op in ("<", ">"):
        constant -= 1
    if not terms:
        return constant >= 0
    if len(terms) == 1 and isinstance(terms[0][1], p.FloorDiv | TruncQuotient):
        return _quotient_compared(*terms[0], constant)
    common = gcd(*(coefficient for coefficient, _ in terms))
    return _inequality([(c // common, atom) for c, atom in terms], constant // common)


def _quotient_compared(
    factor: int, quotient: p.FloorDiv | TruncQuotient, constant: int
) -> p.Comparison | bool:
    """Write ``factor * quotient + constant >= 0``: ``i // 4 < 3`` as ``i < 12``.

    C's quotient is >= 1 exactly where the floor is, and equal to it there.
    """
    top, den = quotient.numerator, quotient.denominator
    bound = constant // abs(factor)
    least = -bound if factor > 0 else bound + 1
    is_floored = isinstance(quotient, p.FloorDiv) or least > 0
    if not (isinstance(den, int) and den > 0 and is_floored):
        return _inequality([(1 if factor > 0 else -1, quotient)], bound)
    return move_to_sides(top, ">=" if factor > 0 else "<", least * den)


def _inequality(terms: list[tuple[int, Expr]], constant: int) -> p.Comparison:
    """Write ``terms + constant >= 0``."""
    more = sorted((term for term in terms if term[0] > 0), key=_by_weight)
    less = sorted(((-c, atom) for c, atom in terms if c < 0), key=_by_weight)
    if not less:
        return p.Comparison(_sum(more, 0), ">=", -constant)
    if not more:
        return p.Comparison(_sum(less, 0), "<", constant + 1)
    if constant == 0:
        return p.Comparison(_sum(less, 0), "<=", _sum(more, 0))
    slack = constant + 1
    return p.Comparison(_sum(less, max(-slack, 0)), "<", _sum(more, max(slack, 0)))


def _by_weight(term: tuple[int, Expr]) -> int:
    return -term[0]


def _equation(terms: list[tuple[int, Expr]], constant: int, op: str) -> p.Comparison | bool:
    if not terms:
        return (constant == 0) == (op == "==")
    common = gcd(*(coefficient for coefficient, _ in terms))
    if constant % common:
        return op == "!="
    sign = 1 if any(coefficient > 0 for coefficient, _ in terms) else -1
    terms = [(sign * coefficient // common, atom) for coefficient, atom in terms]
    constant = sign * constant // common
    more = [term for term in terms if term[0] > 0]
    less = [(-coefficient, atom) for coefficient, atom in terms if coefficient < 0]
    if not less:
        return p.Comparison(_sum(more, 0), op, -constant)
    return p.Comparison(_sum(more, max(constant, 0)), op, _sum(less, max(-constant, 0)))


def _sum(terms: Sequence[tuple[int, Expr]], constant: int) -> Expr:
    """Order the terms of a sum, ``n*i + 16*jo + ji + 1``, with a positive one first if possible."""
    ordered = sorted(terms, key=_rank) if len(terms) > 1 else list(terms)
    first = next((k for k, (coefficient, _) in enumerate(ordered) if coefficient > 0), None)
    if first:
        ordered.insert(0, ordered.pop(first))
    children = [_times(coefficient, atom) for coefficient, atom in ordered]
    if constant > 0 and ordered and first is None:
        children.insert(0, constant)
    elif constant or not children:
        children.append(constant)
    return children[0] if len(children) == 1 else p.Sum(tuple(children))


def _rank(term: tuple[int, Expr]) -> tuple[int, int]:
    """Order by degree, then by the size of the coefficient, both descending."""
    coefficient, atom = term
    degree = len(atom.children) if isinstance(atom, p.Product) else 1
    return -degree, -abs(coefficient)


def _times(coefficient: int, atom: Expr) -> Expr:
    if coefficient == 1:
        return atom
    factors = atom.children if isinstance(atom, p.Product) else (atom,)
    return p.Product((coefficient, *factors))


def _key_of(atom: Expr) -> Hashable:
    """Return a key that is equal for equal atoms, in any order of factors: names, if possible."""
    if isinstance(atom, p.Product):
        return _key_of_product(atom.children)
    key: Hashable = atom.name if type(atom) is p.Variable else atom
    return key


def _key_of_product(factors: tuple[Expr, ...]) -> Hashable:
    names = sorted(factor.name for factor in factors if type(factor) is p.Variable)
    if len(names) == len(factors):
        return tuple(names)
    return frozenset((factor, factors.count(factor)) for factor in factors)
