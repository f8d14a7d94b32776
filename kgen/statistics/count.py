"""The number of integer points of a parametric set, computed exactly with isl.

The set is cut into disjoint pieces; in each, one dimension after the other is summed over: its
bounds split the piece into regions with one lower and one upper bound, over which a polynomial
has a closed sum (Faulhaber). Floors of summed variables are eliminated by stepping through a
period.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from math import lcm

import islpy as isl

from kgen.errors import KernelError
from kgen.ir.kernel import LoopKernel
from kgen.ir.sets.dims import (
    Set,
    add_axis,
    axis_max,
    axis_min,
    isl_int,
    n_dims,
    param_names,
    param_variable,
)
from kgen.ir.sets.effort import STEP, answer
from kgen.statistics.chambers import Chambers, TooManyPieces, added, multiplied
from kgen.statistics.interval import Interval
from kgen.statistics.polyhedron import (
    Emptiness,
    Part,
    Polyhedron,
    all_of,
    components,
    distinct,
    join_tiles,
    read_basic_set,
    solve_equalities,
)
from kgen.statistics.quasi import (
    ONE,
    Atoms,
    Floor,
    Form,
    Poly,
    add,
    constant,
    plus,
    scaled,
    sum_over,
)

__all__ = ["count", "zero_count"]


#: Marks, in the key of a condition, whether it is an equality.
IS_ZERO = -2

#: The maximum number of regions of an exact formula; with more, the count is an interval.
MAX_REGIONS = 4000


def count(
    within: LoopKernel | Set | isl.BasicSet, points: Set | isl.BasicSet | None = None
) -> isl.PwQPolynomial | Interval:
    """Return the number of points of a set as a function of its parameters.

    ``count(points)`` is valid for all parameters, ``count(kernel, points)`` for those that the
    assumptions of the kernel allow.

    ::

        [n] -> { [i, j] : 0 <= i <= j < n }    gives    [n] -> { (1/2 * n + 1/2 * n^2) : n > 0 }

    The answer is an :class:`islpy.PwQPolynomial`, exact for every value of the parameters. If the
    exact count would take too long, it is an :class:`Interval` between two of them, with the
    reason. *points* is an ``islpy.Set`` or an ``islpy.BasicSet``.

    Raises :class:`KernelError` for a set with infinitely many points.
    """
    kernel = within if isinstance(within, LoopKernel) else None
    if points is None and not isinstance(within, LoopKernel):
        points = within
    if points is None or (kernel is None and points is not within):
        raise KernelError("the points to count are one set\n  hint: count(kernel, points)")
    if isinstance(points, isl.BasicSet):
        points = isl.Set.from_basic_set(points)
    if kernel is not None:
        points = points.intersect_params(kernel.assumptions)
    exact = answer(lambda: _count_exactly(points), STEP)
    return _hull(points) if exact is None else exact


def _count_exactly(points: Set) -> isl.PwQPolynomial | None:
    """Return the number of points; ``None`` if the formula would have too many pieces."""
    points = points.coalesce().compute_divs()
    if points.n_basic_set() > 1:
        points = points.make_disjoint().compute_divs()
    counter = _Counter(points.get_space().params())
    try:
        return counter.total(counter.count(basic) for basic in points.get_basic_sets())
    except TooManyPieces:
        return None


def zero_count(space: isl.Space) -> isl.PwQPolynomial:
    """Return the count that is 0 everywhere, for the parameters of *space*."""
    return isl.PwQPolynomial.zero(add_axis(space.params()))


@dataclass
class _Bounds:
    """The bounds of one dimension, ``lows/a <= x`` and ``x <= highs/b``, and other conditions."""

    lows: list[tuple[Form, int]]
    highs: list[tuple[Form, int]]
    others: list[Form]

    def where(self, k: int, m: int) -> tuple[Form, ...] | None:
        """Return when lower bound *k* is the largest and upper bound *m* the least.

        The first of equal ones counts; there may be no integer between the two. ``None`` if this is
        never so.
        """
        (low, a), (high, b) = self.lows[k], self.highs[m]
        forms = [*self.others, plus(scaled(high, a), low, -b)]
        for other, (low2, a2) in enumerate(self.lows):
            if other != k:
                forms.append(plus(plus(scaled(low, a2), low2, -a), {ONE: -int(other < k)}))
        for other, (high2, b2) in enumerate(self.highs):
            if other != m:
                forms.append(plus(plus(scaled(high2, b), high, -b2), {ONE: -int(other < m)}))
        return distinct(forms)


class _Counter:
    """Counts the basic sets of one space."""

    def __init__(self, space: isl.Space) -> None:
        self.space = space
        names = param_names(space)
        self.atoms = Atoms(names)
        self.params = {name: k for k, name in enumerate(names)}
        self.budget = MAX_REGIONS
        self._isl_atoms: dict[int, isl.Aff] = {}

    @cached_property
    def _local(self) -> isl.LocalSpace:
        return isl.LocalSpace.from_space(self.space)

    def count(self, basic: isl.BasicSet) -> Chambers:
        """Count one basic set: the product of the counts of its independent parts."""
        part = all_of(read_basic_set(basic, self.atoms, self.params))
        solved = solve_equalities(part, self.atoms)
        joined = None if solved is None else join_tiles(solved.region)
        if joined is None:
            return []
        conditions, *regions = components(joined)
        emptiness = Emptiness(self.atoms, conditions.at_least)
        result: Chambers = [(self._domain(conditions), constant(1))]
        for region in regions:
            parts = self._sum(all_of(region), emptiness, basic)
            result = multiplied(result, added(self._merged(parts)))
        return result

    def total(self, counts: Iterable[Chambers]) -> isl.PwQPolynomial:
        """Return the sum of counts, in isl's form."""
        chambers = added([piece for chambers in counts for piece in chambers])
        result = zero_count(self.space)
        for domain, poly in chambers:
            piece = isl.PwQPolynomial.alloc(domain, self._polynomial(poly))
            result = result.add_disjoint(piece)
        return result

    # -- summing --------------------------------------------------------------------------

    def _sum(self, part: Part, emptiness: Emptiness, basic: isl.BasicSet) -> list[Part]:
        """Sum over all dimensions: parts without any, their conditions may overlap."""
        self.budget -= 1
        if self.budget < 0:
            raise TooManyPieces
        solved = solve_equalities(part, self.atoms)
        if solved is None:
            return []
        part = solved
        if not part.region.dims:
            return [part]
        variable, bounds = self._choose(part)
        if not bounds.lows or not bounds.highs:
            if basic.is_empty():
                return []
            raise _infinite(basic)
        floors = self.atoms.floors_of(part.poly, variable)
        period = lcm(*(self.atoms.period(floor, variable) for floor in floors))
        if period > 1:
            return self._stepped(part, variable, period, emptiness, basic)
        return [
            part_of_sum
            for region in self._split(part, variable, bounds, emptiness)
            for part_of_sum in self._sum(region, emptiness, basic)
        ]

    def _split(
        self, part: Part, variable: int, bounds: _Bounds, emptiness: Emptiness
    ) -> Iterator[Part]:
        """Sum over one dimension: in each region between one lower and one upper bound."""
        rest = tuple(d for d in part.region.dims if d != variable)
        for k, (low, a) in enumerate(bounds.lows):
            for m, (high, b) in enumerate(bounds.highs):
                kept = bounds.where(k, m)
                if kept is None:
                    continue
                region = emptiness.simplified(Polyhedron(rest, kept, part.region.zero))
                if region is None:
                    continue
                first = self.atoms.floor(plus(low, {ONE: a - 1}), a)  # rounded up
                last = self.atoms.floor(high, b)
                poly = sum_over(part.poly, variable, first, last)
                if poly:
                    yield Part(region, poly)

    def _choose(self, part: Part) -> tuple[int, _Bounds]:
        """Choose the dimension whose sum has the fewest regions and floors."""
        best: tuple[tuple[int, int, int], int, _Bounds] | None = None
        for variable in part.region.dims:
            bounds = _Bounds([], [], [])
            for form in part.region.at_least:
                factor = form.get(variable, 0)
                rest = {v: k for v, k in form.items() if v != variable}
                if factor > 0:
                    bounds.lows.append((scaled(rest, -1), factor))
                elif factor < 0:
                    bounds.highs.append((rest, -factor))
                else:
                    bounds.others.append(form)
            steps = sum(
                self.atoms.period(floor, variable)
                for floor in self.atoms.floors_of(part.poly, variable)
            )
            dims = set(part.region.dims)
            divisors = sum(
                d - 1 for form, d in (*bounds.lows, *bounds.highs) if any(v in dims for v in form)
            )
            cost = (steps + divisors, len(bounds.lows) * len(bounds.highs), variable)
            if best is None or cost < best[0]:
                best = (cost, variable, bounds)
        assert best is not None
        return best[1], best[2]

    def _stepped(
        self, part: Part, variable: int, period: int, emptiness: Emptiness, basic: isl.BasicSet
    ) -> list[Part]:
        """Replace a variable by ``period*steps + k`` for each k, to remove it from floors."""
        result: list[Part] = []
        for k in range(period):
            value = {variable: period, ONE: k} if k else {variable: period}
            forms = distinct(
                self.atoms.replace_in_form(form, variable, value) for form in part.region.at_least
            )
            if forms is None:
                continue
            region = emptiness.simplified(Polyhedron(part.region.dims, forms, part.region.zero))
            if region is not None:
                poly = self.atoms.replace(part.poly, variable, value)
                result += self._sum(Part(region, poly), emptiness, basic)
        return result

    # -- back to isl ----------------------------------------------------------------------

    def _merged(self, parts: list[Part]) -> Chambers:
        """Add up the parts with the same conditions; they may overlap."""
        polys: dict[frozenset[frozenset[tuple[int, int]]], tuple[Polyhedron, Poly]] = {}
        for part in parts:
            region = part.region
            key = frozenset(
                frozenset(form.items()) | {(IS_ZERO, is_zero)}
                for is_zero, forms in ((0, region.at_least), (1, region.zero))
                for form in forms
            )
            _, known = polys.get(key, (region, {}))
            polys[key] = region, add(known, part.poly)
        return [(self._domain(region), poly) for region, poly in polys.values() if poly]

    def _domain(self, region: Polyhedron) -> Set:
        domain = isl.BasicSet.universe(self.space)
        for form in region.at_least:
            domain = domain.add_constraint(isl.Constraint.inequality_from_aff(self._aff(form)))
        for form in region.zero:
            domain = domain.add_constraint(isl.Constraint.equality_from_aff(self._aff(form)))
        return isl.Set.from_basic_set(domain)

    def _polynomial(self, poly: Poly) -> isl.QPolynomial:
        total = isl.QPolynomial.zero_on_domain(self.space)
        for monomial, coefficient in sorted(poly.items()):
            value = isl_int(coefficient.numerator).div(isl_int(coefficient.denominator))
            term = isl.QPolynomial.val_on_domain(self.space, value)
            for variable, exponent in monomial:
                factor = isl.QPolynomial.from_aff(self._atom(variable))
                term = term.mul(factor.pow(exponent))
            total = total.add(term)
        return total

    def _aff(self, form: Form) -> isl.Aff:
        total = isl.Aff.val_on_domain(self._local, isl_int(form.get(ONE, 0)))
        for variable, value in form.items():
            if variable != ONE:
                total = total.add(self._atom(variable).scale_val(isl_int(value)))
        return total

    def _atom(self, variable: int) -> isl.Aff:
        known = self._isl_atoms.get(variable)
        if known is None:
            meaning = self.atoms.meaning[variable]
            if isinstance(meaning, Floor):
                inner = self._aff(dict(meaning.form))
                known = inner.scale_down_val(isl_int(meaning.divisor)).floor()
            else:
                known = param_variable(self.space, meaning)
            self._isl_atoms[variable] = known
        return known


def _infinite(basic: isl.BasicSet) -> KernelError:
    return KernelError(
        f"the set '{basic}' has infinitely many points",
        hint="give each of its dimensions a lower and an upper bound",
    )


def _hull(points: Set) -> Interval:
    """Return the bounds of a count: 1 if there is a point, and the size of the bounding box."""
    space = points.get_space().params()
    one = isl.PwQPolynomial.from_qpolynomial(isl.QPolynomial.one_on_domain(space))
    high = one.intersect_domain(points.params())
    for axis in range(n_dims(points)):
        last = axis_max(points, axis)
        extent = last.sub(axis_min(points, axis)).add_constant_val(isl_int(1))
        high = high.mul(isl.PwQPolynomial.from_pw_aff(extent))
    low = one.intersect_domain(points.params())
    reason = "the exact count of a set has too many pieces, or takes too long"
    return Interval(low, high.coalesce(), (reason,))
