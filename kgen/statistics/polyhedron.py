"""Integer polyhedra over numbered variables: equalities, tiles, independent parts, emptiness.

A :class:`Polyhedron` holds the points at which all *at_least* forms are nonnegative and all
*zero* forms vanish. Its dimensions are counted over; all other variables are parameters, or
floors of parameters.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import islpy as isl

from kgen.ir.sets.dims import BasicSet, with_coefficients
from kgen.ir.sets.domain import ConstraintRows, quotient_rows
from kgen.statistics.quasi import ONE, Atoms, Floor, Form, Poly, constant, plus, scaled

__all__ = ["Part", "Polyhedron", "read_basic_set"]


@dataclass(frozen=True)
class Polyhedron:
    """The integer points of linear constraints."""

    dims: tuple[int, ...]
    at_least: tuple[Form, ...]
    zero: tuple[Form, ...] = ()


@dataclass(frozen=True)
class Part:
    """A summand, and the points over which it is summed."""

    region: Polyhedron
    poly: Poly


def read_basic_set(basic: BasicSet, atoms: Atoms, params: dict[str, int]) -> Polyhedron:
    """Read a basic set whose quotients are known; each becomes a dimension of its own.

    A quotient has one value at each point, so the number of points does not change.
    """
    rows = ConstraintRows.of(basic)
    variables = [params[name] for name in rows.params]
    dims = tuple(atoms.new(f"d{k}") for k in range(len(rows.dims) + rows.n_existential))
    variables += [*dims, ONE]
    at_least = [_form(variables, row) for row in rows.inequalities]
    for variable, (row, divisor) in zip(dims[len(rows.dims) :], quotient_rows(basic), strict=True):
        at_least += _of_quotient(_form(variables, row), divisor, variable)
    return Polyhedron(
        dims, tuple(at_least), tuple(_form(variables, row) for row in rows.equalities)
    )


def _form(variables: Sequence[int], row: Sequence[int]) -> Form:
    return {v: k for v, k in zip(variables, row, strict=True) if k}


def _of_quotient(numerator: Form, divisor: int, variable: int) -> list[Form]:
    """Return ``0 <= numerator - divisor*variable <= divisor - 1``."""
    form = plus(numerator, {variable: -divisor})
    return [form, plus({ONE: divisor - 1}, form, -1)]


# -- constraints ----------------------------------------------------------------------------


def tightened(form: Form) -> Form | None:
    """Divide ``form >= 0`` by the divisor of its coefficients; ``None`` if it is always true.

    One that is never true becomes ``-1 >= 0``.
    """
    common = math.gcd(*(k for v, k in form.items() if v != ONE))
    if common == 0:
        return None if form.get(ONE, 0) >= 0 else {ONE: -1}
    if common == 1:
        return form
    result = {v: k // common for v, k in form.items()}
    return result if result.get(ONE) != 0 else {v: k for v, k in result.items() if v != ONE}


def distinct(forms: Iterable[Form]) -> tuple[Form, ...] | None:
    """Tighten forms, and keep the strictest of parallel ones; ``None`` if they contradict."""
    strictest: dict[tuple[tuple[int, int], ...], int] = {}
    for form in forms:
        short = tightened(form)
        if short is None:
            continue
        if short.keys() == {ONE}:
            return None
        key = tuple(sorted((v, k) for v, k in short.items() if v != ONE))
        value = short.get(ONE, 0)
        strictest[key] = min(value, strictest.get(key, value))
    for key, value in strictest.items():
        opposite = strictest.get(tuple((v, -k) for v, k in key))
        if opposite is not None and value + opposite < 0:
            return None
    return tuple({**dict(key), ONE: k} if k else dict(key) for key, k in strictest.items())


def solve_equalities(part: Part, atoms: Atoms) -> Part | None:
    """Eliminate the equalities that have dimensions; ``None`` if one has no solution.

    A dimension with coefficient 1 is substituted; others are combined until there is one, or until
    a single dimension is a quotient of parameters, with the condition that it is an integer.
    """
    region, poly = part.region, part.poly
    dims, at_least = region.dims, region.at_least
    todo, conditions = list(region.zero), []
    while todo:
        form = todo.pop()
        inside = [d for d in dims if d in form]
        common = math.gcd(*(k for v, k in form.items() if v != ONE))
        if common == 0 or form.get(ONE, 0) % common:
            if form.get(ONE, 0):
                return None
            continue
        form = {v: k // common for v, k in form.items()}
        if not inside:
            conditions.append(form)
            continue
        first, value, left = _solved(form, inside, atoms)
        if left is not None:
            todo.append(left)
        todo = [atoms.replace_in_form(f, first, value) for f in todo]
        at_least = tuple(atoms.replace_in_form(f, first, value) for f in at_least)
        poly = atoms.replace(poly, first, value)
        if first not in value:
            dims = tuple(d for d in dims if d != first)
    found = distinct(at_least)
    if found is None:
        return None
    return Part(Polyhedron(dims, found, tuple(conditions)), poly)


def _solved(form: Form, inside: list[int], atoms: Atoms) -> tuple[int, Form, Form | None]:
    """Solve ``form = 0`` for a dimension: return it, its value, and the remaining condition."""
    first = min(inside, key=lambda d: abs(form[d]))
    step = form[first]
    rest = {v: k for v, k in form.items() if v != first}
    if abs(step) == 1:
        return first, scaled(rest, -step), None
    if len(inside) == 1:
        value = atoms.floor(scaled(rest, -1 if step > 0 else 1), abs(step))
        return first, value, plus(rest, value, step)
    # a change of coordinates: first = new - integer multiples of the others
    value = {first: 1}
    for other in inside:
        if other != first:
            value = plus(value, {other: -(form[other] // step)})
    return first, value, form


def join_tiles(region: Polyhedron) -> Polyhedron | None:
    """Replace ``outer`` and ``0 <= inner < m`` by ``m*outer + inner``, if only that is used.

    The number of points does not change: ``outer`` and ``inner`` are quotient and remainder.
    ``None`` if there are none.
    """
    found: tuple[tuple[int, ...], list[Form]] | None = (region.dims, list(region.at_least))
    while found is not None:
        forms = distinct(found[1])
        if forms is None:
            return None
        region = Polyhedron(found[0], forms, region.zero)
        candidates = (_join(region, *tile) for tile in _slices(forms))
        found = next((joined for joined in candidates if joined is not None), None)
    return region


def _slices(forms: Sequence[Form]) -> list[tuple[Form, Form, int]]:
    """Return pairs of constraints ``0 <= form`` and ``form <= size - 1``."""
    by_key = {tuple(sorted((v, k) for v, k in f.items() if v != ONE)): f for f in forms}
    found = []
    for key, form in by_key.items():
        opposite = by_key.get(tuple((v, -k) for v, k in key))
        if opposite is not None:
            size = form.get(ONE, 0) + opposite.get(ONE, 0) + 1
            if size > 1:
                found.append((form, opposite, size))
    return found


def _join(
    region: Polyhedron, low: Form, high: Form, size: int
) -> tuple[tuple[int, ...], list[Form]] | None:
    """Join a quotient and the remainder bounded by *low* and *high*."""
    others = [f for f in region.at_least if f is not low and f is not high]
    for inner in region.dims:
        if low.get(inner) != 1:
            continue
        # inner = new - rest, so that 0 <= new < size
        value = {inner: 1, **{v: -k for v, k in low.items() if v != inner}}
        moved = [_with(f, inner, value) for f in others]
        for outer in region.dims:
            if outer == inner or not any(inner in f for f in moved):
                continue
            joined = [_joined_form(f, inner, outer, size) for f in moved]
            forms = [f for f in joined if f is not None]
            if len(forms) == len(joined):
                return tuple(d for d in region.dims if d != inner), forms
    return None


def _with(form: Form, variable: int, value: Form) -> Form:
    factor = form.get(variable)
    if factor is None:
        return form
    return plus({v: k for v, k in form.items() if v != variable}, value, factor)


def _joined_form(form: Form, inner: int, outer: int, size: int) -> Form | None:
    """Write ``form >= 0`` in terms of ``size*outer + inner``, which replaces ``outer``."""
    a, b = form.get(inner, 0), form.get(outer, 0)
    if b == a * size:
        result = {v: k for v, k in form.items() if v not in (inner, outer)}
        return {**result, outer: a} if a else result
    if a == 0 and b == 1:  # outer >= -rest
        rest = {v: k for v, k in form.items() if v != outer}
        return {**scaled(rest, size), outer: 1}
    if a == 0 and b == -1:  # outer <= rest
        rest = {v: k for v, k in form.items() if v != outer}
        return {**plus(scaled(rest, size), {ONE: size - 1}), outer: -1}
    return None


def components(region: Polyhedron) -> list[Polyhedron]:
    """Split a polyhedron into independent ones; the one without dimensions comes first."""
    group = {d: d for d in region.dims}

    def root(d: int) -> int:
        while group[d] != d:
            d = group[d]
        return d

    for form in region.at_least:
        inside = [d for d in form if d in group]
        for d in inside[1:]:
            group[root(d)] = root(inside[0])
    members: dict[int | None, list[int]] = {None: []}
    for d in region.dims:
        members.setdefault(root(d), []).append(d)
    forms: dict[int | None, list[Form]] = {key: [] for key in members}
    for form in region.at_least:
        first = next((d for d in form if d in group), None)
        forms[None if first is None else root(first)].append(form)
    return [
        Polyhedron(tuple(dims), tuple(forms[key]), region.zero if key is None else ())
        for key, dims in members.items()
    ]


# -- back to isl ----------------------------------------------------------------------------


class Emptiness:
    """Asks isl whether polyhedra are empty, with the definitions of floors of parameters."""

    def __init__(self, atoms: Atoms, context: Sequence[Form]) -> None:
        self.atoms = atoms
        self.context = context

    def _basic_set(self, region: Polyhedron) -> tuple[isl.BasicSet, list[int]]:
        forms = [*region.at_least, *self.context]
        seen: dict[int, None] = dict.fromkeys(region.dims)
        stack = [v for f in (*forms, *region.zero) for v in f if v != ONE]
        while stack:
            variable = stack.pop()
            if variable in seen:
                continue
            seen[variable] = None
            meaning = self.atoms.meaning[variable]
            if isinstance(meaning, Floor):
                form = plus(dict(meaning.form), {variable: -meaning.divisor})
                forms += [form, plus({ONE: meaning.divisor - 1}, form, -1)]
                stack.extend(v for v, _ in meaning.form if v != ONE)
        variables = list(seen)
        position = {v: k for k, v in enumerate(variables)}

        def filled(item: isl.Constraint, form: Form) -> isl.Constraint:
            axes = {position[v]: k for v, k in form.items() if v != ONE}
            return with_coefficients(item, axes, form.get(ONE, 0))

        space = isl.LocalSpace.from_space(
            isl.Space.set_alloc(isl.DEFAULT_CONTEXT, 0, len(variables))
        )
        result = isl.BasicSet.universe(space.get_space())
        for form in forms:
            item = isl.Constraint.inequality_alloc(space)
            result = result.add_constraint(filled(item, form))
        for form in region.zero:
            item = isl.Constraint.equality_alloc(space)
            result = result.add_constraint(filled(item, form))
        return result, variables

    def is_empty(self, region: Polyhedron) -> bool:
        """Tell whether there is no integer point, for any values of the parameters."""
        return bool(self._basic_set(region)[0].is_empty())

    def simplified(self, region: Polyhedron) -> Polyhedron | None:
        """Drop redundant constraints, and find equalities; ``None`` if the polyhedron is empty."""
        basic, variables = self._basic_set(region)
        if basic.is_empty():
            return None
        if len(region.at_least) < 4:
            return region
        basic = basic.detect_equalities().remove_redundancies()
        rows = ConstraintRows.of(basic)
        if rows.n_existential:
            return region
        at_least, zero = (
            tuple(_form([*variables, ONE], row) for row in found)
            for found in (rows.inequalities, rows.equalities)
        )
        return Polyhedron(region.dims, at_least, zero)


def all_of(region: Polyhedron) -> Part:
    """Return the part that counts the points of a polyhedron."""
    return Part(region, constant(1))
