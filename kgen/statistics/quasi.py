"""Quasi-polynomials: polynomials in integers and in floors of their quotients, and their sums.

Variables are numbers that an :class:`Atoms` hands out: names, or floors ``floor(form / m)``.
A *form* is a linear one with integer coefficients, ``{variable: coefficient}``, its constant
under ``ONE``. A *polynomial* is ``{monomial: coefficient}``, a monomial the sorted pairs of
variables and exponents.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from fractions import Fraction
from functools import cache
from typing import NamedTuple, TypeAlias

__all__ = ["ONE", "Atoms", "Floor", "Form", "Poly"]

Form: TypeAlias = dict[int, int]
Monomial: TypeAlias = tuple[tuple[int, int], ...]
Poly: TypeAlias = dict[Monomial, Fraction]

#: The key of a form's constant.
ONE = -1


class Floor(NamedTuple):
    """``floor(form / divisor)``, the form as sorted pairs."""

    form: tuple[tuple[int, int], ...]
    divisor: int


def plus(left: Mapping[int, int], right: Mapping[int, int], factor: int = 1) -> Form:
    """Return ``left + factor*right``."""
    result = dict(left)
    for variable, coefficient in right.items():
        total = result.get(variable, 0) + factor * coefficient
        if total:
            result[variable] = total
        else:
            result.pop(variable, None)
    return result


def scaled(form: Mapping[int, int], factor: int) -> Form:
    """Return ``factor*form``."""
    return {variable: factor * value for variable, value in form.items()} if factor else {}


def add(left: Poly, right: Poly) -> Poly:
    """Return the sum of two polynomials."""
    result = dict(left)
    for monomial, coefficient in right.items():
        total = result.get(monomial, Fraction(0)) + coefficient
        if total:
            result[monomial] = total
        else:
            result.pop(monomial, None)
    return result


def times(left: Poly, right: Poly) -> Poly:
    """Return the product of two polynomials."""
    result: Poly = {}
    for first, a in left.items():
        for second, b in right.items():
            exponents = dict(first)
            for variable, exponent in second:
                exponents[variable] = exponents.get(variable, 0) + exponent
            key = tuple(sorted(exponents.items()))
            total = result.get(key, Fraction(0)) + a * b
            if total:
                result[key] = total
            else:
                result.pop(key, None)
    return result


def constant(value: int | Fraction) -> Poly:
    """Return the polynomial of one number."""
    return {(): Fraction(value)} if value else {}


def of_form(form: Mapping[int, int]) -> Poly:
    """Return a form as a polynomial."""
    return {
        () if variable == ONE else ((variable, 1),): Fraction(value)
        for variable, value in form.items()
    }


@cache
def _power_sum(exponent: int) -> tuple[Fraction, ...]:
    """Return the coefficients of ``1**k + ... + N**k`` as a polynomial in N, constant first.

    From ``(N+1)**(k+1) - 1 = sum over j <= k of binomial(k+1, j) * S_j(N)``.
    """
    total = [Fraction(math.comb(exponent + 1, j)) for j in range(exponent + 2)]
    total[0] -= 1
    for j in range(exponent):
        for power, coefficient in enumerate(_power_sum(j)):
            total[power] -= math.comb(exponent + 1, j) * coefficient
    return tuple(coefficient / (exponent + 1) for coefficient in total)


def _power_sum_to(exponent: int, end: Poly) -> Poly:
    result: Poly = {}
    for coefficient in reversed(_power_sum(exponent)):
        result = add(times(result, end), constant(coefficient))
    return result


def sum_over(poly: Poly, variable: int, low: Form, high: Form) -> Poly:
    """Return the sum of *poly* over ``low <= variable <= high``; no floor in it has *variable*.

    It is valid if ``high >= low - 1``.
    """
    by_power: dict[int, Poly] = {}
    for monomial, coefficient in poly.items():
        exponents = dict(monomial)
        power = exponents.pop(variable, 0)
        by_power.setdefault(power, {})[tuple(exponents.items())] = coefficient
    before, end = of_form(plus(low, {ONE: -1})), of_form(high)
    result: Poly = {}
    for power, factor in by_power.items():
        below = times(constant(-1), _power_sum_to(power, before))
        result = add(result, times(factor, add(_power_sum_to(power, end), below)))
    return result


class Atoms:
    """The variables of one calculation; equal floors are one variable."""

    def __init__(self, names: Iterable[str]) -> None:
        self.meaning: list[str | Floor] = list(names)
        self._floors: dict[Floor, int] = {}
        self._bases: list[frozenset[int]] = [frozenset((k,)) for k in range(len(self.meaning))]

    def new(self, name: str) -> int:
        """Create another named variable."""
        self.meaning.append(name)
        self._bases.append(frozenset((len(self.meaning) - 1,)))
        return len(self.meaning) - 1

    def bases(self, variable: int) -> frozenset[int]:
        """Return the named variables on which *variable* depends."""
        return self._bases[variable]

    def floor(self, form: Form, divisor: int) -> Form:
        """Return ``floor(form / divisor)`` as a form, whose floor is as simple as possible."""
        whole: Form = {}
        rest: Form = {}
        for variable, value in form.items():
            quotient, remainder = divmod(value, divisor)
            if quotient:
                whole[variable] = quotient
            if remainder:
                rest[variable] = remainder
        offset = rest.pop(ONE, 0)
        if not rest:
            return whole
        common = math.gcd(divisor, *rest.values())
        # floor((g*y + c) / (g*m)) = floor((y + floor(c / g)) / m)
        if common > 1:
            return plus(
                whole,
                self.floor(
                    {**{v: k // common for v, k in rest.items()}, ONE: offset // common},
                    divisor // common,
                ),
            )
        if offset:
            rest[ONE] = offset
        key = Floor(tuple(sorted(rest.items())), divisor)
        known = self._floors.get(key)
        if known is None:
            known = self._floors[key] = len(self.meaning)
            self.meaning.append(key)
            self._bases.append(frozenset[int]().union(*(self._bases[v] for v in rest if v != ONE)))
        return plus(whole, {known: 1})

    def period(self, variable: int, of: int) -> int:
        """Return a step of *of* over which *variable* grows by a constant."""
        meaning = self.meaning[variable]
        if isinstance(meaning, str) or of not in self._bases[variable]:
            return 1
        inner = math.lcm(*(self.period(v, of) for v, _ in meaning.form if v != ONE))
        step = sum(k * self._slope(v, of, inner) for v, k in meaning.form if v != ONE)
        return inner * (meaning.divisor // math.gcd(meaning.divisor, step))

    def _slope(self, variable: int, of: int, step: int) -> int:
        """Return by how much *variable* grows when *of* grows by *step*, a period of it."""
        if variable == of:
            return step
        meaning = self.meaning[variable]
        if isinstance(meaning, str) or of not in self._bases[variable]:
            return 0
        total = sum(k * self._slope(v, of, step) for v, k in meaning.form if v != ONE)
        return total // meaning.divisor

    def floors_of(self, poly: Poly, variable: int) -> list[int]:
        """Return the floors in *poly* that depend on *variable*."""
        found = {
            v: None
            for monomial in poly
            for v, _ in monomial
            if v != variable and variable in self._bases[v]
        }
        return list(found)

    def replace_in_form(self, form: Form, variable: int, value: Form) -> Form:
        """Substitute *value* for *variable*, inside floors as well."""
        result: Form = {}
        for item, factor in form.items():
            if item == ONE or variable not in self._bases[item]:
                result = plus(result, {item: factor})
            else:
                result = plus(result, self._replaced(item, variable, value), factor)
        return result

    def _replaced(self, item: int, variable: int, value: Form) -> Form:
        if item == variable:
            return value
        meaning = self.meaning[item]
        assert isinstance(meaning, Floor)
        inner = self.replace_in_form(dict(meaning.form), variable, value)
        return self.floor(inner, meaning.divisor)

    def replace(self, poly: Poly, variable: int, value: Form) -> Poly:
        """Substitute *value* for *variable* in a polynomial, inside floors as well."""
        result: Poly = {}
        powers: dict[tuple[int, int], Poly] = {}
        for monomial, coefficient in poly.items():
            if not any(variable in self._bases[v] for v, _ in monomial):
                result = add(result, {monomial: coefficient})
                continue
            term = constant(coefficient)
            for item, exponent in monomial:
                if variable not in self._bases[item]:
                    factor: Poly = {((item, exponent),): Fraction(1)}
                elif (item, exponent) in powers:
                    factor = powers[item, exponent]
                else:
                    base = of_form(self._replaced(item, variable, value))
                    factor = constant(1)
                    for _ in range(exponent):
                        factor = times(factor, base)
                    powers[item, exponent] = factor
                term = times(term, factor)
            result = add(result, term)
        return result
