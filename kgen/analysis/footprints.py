"""Footprints: the sets of elements accessed, as functions of the enclosing loops."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import NamedTuple, TypeGuard

import islpy as isl
import numpy as np
import pymbolic.primitives as p
from pymbolic.mapper import UnsupportedExpressionError
from pymbolic.mapper.evaluator import UnknownVariableError, evaluate

from kgen.analysis.access import (
    Access,
    Place,
    collect_accesses,
    collect_accesses_to,
    subscript_names,
)
from kgen.analysis.loop_bounds import reads_in_bounds
from kgen.errors import ExpressionToAffineConversionError, StaticValueFindingError
from kgen.ir.affine import linear_form
from kgen.ir.analyses import Analysis
from kgen.ir.data import ValueArg
from kgen.ir.expr import Expr, substitute, to_text, variable_names
from kgen.ir.kernel import LoopKernel
from kgen.ir.sets.dims import (
    Set,
    axis_max,
    axis_variable,
    has_dim,
    isl_int,
    least_on_axis,
    only_dim,
    param_names,
    with_params,
)
from kgen.ir.sets.domain import PwAff, sample_point
from kgen.ir.sets.quasi_affine import (
    aff_from_expr,
    compare,
    map_from_exprs,
    pw_aff_from_expr,
    set_from_condition,
)

__all__ = ["Footprints", "Span", "Values", "extremes", "split_constant"]


class Values:
    """A set of integers ``[params] -> { [v] }``, with cached queries.

    Equal sets are one object (:class:`Footprints` ensures this), so it can be a key.
    """

    def __init__(self, values: Set, assumptions: Set) -> None:
        self.values = values
        self.assumptions = assumptions
        self._reaches: dict[tuple[int, Expr], bool] = {}

    @cached_property
    def highest(self) -> PwAff:
        """The largest value as a function of the parameters.

        Raises :class:`StaticValueFindingError` if there is none.
        """
        try:
            return axis_max(self.values, 0)
        except isl.Error:
            raise StaticValueFindingError(f"'{self.values}' has no largest value") from None

    @cached_property
    def _assumed(self) -> Set:
        """The values for parameters that the assumptions allow."""
        return self.values.intersect_params(self.assumptions)

    @cached_property
    def least(self) -> float:
        """The least value over all parameters; ``inf`` if the set is empty."""
        least = least_on_axis(self._assumed, 0)
        if least.is_int():
            return int(least.to_python())
        return math.inf if least.is_nan() else -math.inf

    def reaches(self, extent: Expr, plus: int, with_params: Callable[..., Set]) -> bool:
        """Tell whether some value plus a constant is *extent* or more.

        ``with_params(set, expr)`` adds the parameters of *extent*; an extent that is not affine
        is never reached.
        """
        found = self._reaches.get((plus, extent))
        if found is None:
            found = self._reaches[plus, extent] = self._find_reaches(
                extent, plus, with_params(self._assumed, extent)
            )
        return found

    def is_below(self, extent: Expr, plus: int, with_params: Callable[..., Set]) -> bool:
        """Tell whether all values plus a constant are proved to be less than *extent*."""
        values = with_params(self.values, extent)
        try:
            pw_aff_from_expr(values.get_space(), extent)
        except ExpressionToAffineConversionError:
            return False
        return not self.reaches(extent, plus, with_params)

    def _find_reaches(self, extent: Expr, plus: int, values: Set) -> bool:
        space = values.get_space()
        try:
            end = aff_from_expr(space, extent)
        except ExpressionToAffineConversionError:
            return False
        top = axis_variable(space, 0).add_constant_val(isl_int(plus))
        return not values.is_disjoint(compare(top, "ge_set", end))


class Span(NamedTuple):
    """The range of subscripts ``base + constant`` with equal bases along an axis, in one context.

    ``values`` are those of the base, ``None`` if it is not affine; ``low`` and ``high``
    the least and the largest constant, ``lowest`` and ``highest`` accesses with these.
    """

    place: Place
    values: Values | None
    low: int
    high: int
    lowest: Access
    highest: Access


def extremes(spans: tuple[Span, ...]) -> tuple[tuple[Values, int, int], ...]:
    """Return distinct values with the least and largest constants; all of *spans* are affine.

    Axes with equal extremes have the same extent.
    """
    found: dict[Values, tuple[int, int]] = {}
    for span in spans:
        assert span.values is not None
        low, high = found.get(span.values, (span.low, span.high))
        found[span.values] = min(low, span.low), max(high, span.high)
    return tuple((values, *constants) for values, constants in found.items())


def _sizes(kernel: LoopKernel) -> frozenset[str]:
    """Return the integers that callers pass and that loops or subscripts use."""
    values = {a.name for a in kernel.args if isinstance(a, ValueArg) and a.dtype is None}
    used = set(kernel.all_params())
    if values - used:
        used |= subscript_names(kernel)
    return frozenset(values & used)


def _extents(kernel: LoopKernel) -> frozenset[str]:
    """Return the variables in shapes, strides and offsets that callers pass."""
    arrays = kernel.array_vars
    names = (name for array in arrays.values() for name in array.layout_names)
    return frozenset(name for name in names if name not in arrays)


class _Found:
    """Cached footprints without the kernel, whose cache holds them, to avoid reference cycles."""

    def __init__(self, integers: frozenset[str]) -> None:
        self._integers = integers
        self._accesses: dict[str, tuple[Access, ...]] = {}
        self._domains: dict[Place, tuple[Set, bool]] = {}
        self._relations: dict[tuple[Place, tuple[Expr, ...] | None], isl.Map | None] = {}
        self._values: dict[tuple[Place, Expr], Values | None] = {}
        self._distinct: dict[Set, Values] = {}
        self._steps: dict[str, tuple[tuple[int, int], ...]] = {}
        self._parts: dict[tuple[str, tuple[Expr, ...]], tuple[int, ...]] = {}
        #: The elements of accesses, from :func:`kgen.analysis.instances.elements_of`.
        self.elements: dict[tuple[Place, tuple[Expr, ...] | None], tuple[Set, bool]] = {}
        #: Inferred extents, by :func:`extremes` and whether constant ones are preferred.
        self.extents: dict[tuple[bool, tuple[tuple[Values, int, int], ...]], Expr] = {}


class Footprints(_Found):
    """The accesses of a kernel, and the sets of elements that they access.

    Each distinct query is sent to isl once: a thousand instructions with the same subscripts
    in the same loops cost one query. ``Footprints.of(kernel)`` is shared by kernels that differ
    only in declarations.

    >>> import kgen as lp
    >>> knl = lp.make_kernel("{ [i]: 0<=i<n }", "b[i] = a[2*i]").default_entrypoint
    >>> footprints = Footprints.of(knl)
    >>> footprints.relation(*footprints.accesses_to("a"))
    Map("[n] -> { [i] -> [2i] : 0 <= i < n }")
    """

    def __init__(self, kernel: LoopKernel, found: _Found) -> None:
        self.__dict__.update(found.__dict__)
        self.kernel = kernel

    @classmethod
    def of(cls, kernel: LoopKernel) -> Footprints:
        """Return the footprints of *kernel*, recomputed only if loops or statements changed."""
        return cls(kernel, kernel.analyses.answer(_OF_KERNEL, None, lambda: _found_of(kernel)))

    @property
    def accesses(self) -> Mapping[str, tuple[Access, ...]]:
        """The accesses of each array, in program order; those in bounds of loops come first."""
        if not self._accesses:
            found: dict[str, list[Access]] = {}
            for access in (*reads_in_bounds(self.kernel), *collect_accesses(self.kernel)):
                found.setdefault(access.array, []).append(access)
            self._accesses.update((name, tuple(some)) for name, some in found.items())
        return self._accesses

    def accesses_to(self, array: str) -> tuple[Access, ...]:
        """Return the accesses to one array, in program order."""
        if self._accesses:
            return self._accesses.get(array, ())
        return collect_accesses_to(self.kernel, array)

    def part(self, access: Access) -> tuple[int, ...]:
        """Return the remainders of the subscripts modulo the common strides of all accesses.

        If every access to the array has a constant subscript, this is the constant; if all have
        multiples of 3 and constants, as ``a[3*i + 1]`` does, this is the constant modulo 3.
        Accesses to one array with different remainders have no element in common.
        """
        if access.index is None:
            return ()
        key = access.array, access.index
        found = self._parts.get(key)
        if found is None:
            steps = self._steps_of(access.array)
            constants = [linear_form(access.index[axis]).constant for axis, _ in steps]
            found = self._parts[key] = tuple(
                constant % step if step else constant
                for constant, (_, step) in zip(constants, steps, strict=True)
            )
        return found

    def _steps_of(self, array: str) -> tuple[tuple[int, int], ...]:
        """Return the common divisor of the coefficients along each axis, unless it is 1."""
        found = self._steps.get(array)
        if found is None:
            indices = [access.index for access in self.accesses.get(array, ())]
            known = [index for index in indices if index is not None]
            n_axes = min(map(len, known), default=0) if len(known) == len(indices) else 0
            steps = [_common_step(index[axis] for index in known) for axis in range(n_axes)]
            found = self._steps[array] = tuple((a, s) for a, s in enumerate(steps) if s != 1)
        return found

    def with_params(self, domain: Set, *exprs: Expr) -> Set:
        """Add the integer parameters of *exprs* that *domain* does not have."""
        names = (name for name in variable_names(*exprs) if name in self._integers)
        return with_params(domain, [name for name in names if not has_dim(domain, name)])

    def domain(self, place: Place) -> tuple[Set, bool]:
        """Return the iterations that reach a place, and whether the set is exact.

        It is not if a condition or a loop bound depends on data, and is omitted.
        """
        found = self._domains.get(place)
        if found is None:
            domain = self.kernel.domain_of(place.inames)
            if domain.is_params():
                domain = domain.from_params()
            exact = not any(name in self.kernel.array_vars for name in param_names(domain))
            for condition in place.conditions:
                domain = self.with_params(domain, condition)
                try:
                    holds = set_from_condition(domain.get_space(), condition)
                    domain = domain.intersect(holds)
                except ExpressionToAffineConversionError:
                    exact = False
            found = self._domains[place] = domain, exact
        return found

    def relation(self, access: Access) -> isl.Map | None:
        """Return ``{ [inames] -> [index] }``; ``None`` if a subscript is not affine."""
        key = access.place, access.index
        if key not in self._relations:
            self._relations[key] = self._find_relation(access.place, access.index)
        return self._relations[key]

    def touched(self, access: Access) -> Set | None:
        """Return ``{ [index] }``, the elements accessed; ``None`` if these depend on data."""
        relation = self.relation(access)
        if relation is None or not self.domain(access.place)[1]:
            return None
        return relation.range()

    def _find_relation(self, place: Place, indices: tuple[Expr, ...] | None) -> isl.Map | None:
        if indices is None:
            return None
        domain = self.with_params(self.domain(place)[0], *indices)
        try:
            relation = map_from_exprs(domain.get_space(), indices)
        except ExpressionToAffineConversionError:
            return None
        return relation.intersect_domain(domain)

    # -- one axis at a time --------------------------------------------------------------

    def spans(self, accesses: tuple[Access, ...], axis: int) -> tuple[Span, ...]:
        """Group the subscripts of *accesses* along an axis: same place, same base."""
        groups: dict[tuple[Place, Expr], Span] = {}
        for access in accesses:
            assert access.index is not None
            base, constant = split_constant(access.index[axis])
            key = (access.place, base)
            old = groups.get(key)
            if old is None:
                values = self._values_of(key)
                groups[key] = Span(access.place, values, constant, constant, access, access)
            elif constant < old.low:
                groups[key] = old._replace(low=constant, lowest=access)
            elif constant > old.high:
                groups[key] = old._replace(high=constant, highest=access)
        return tuple(groups.values())

    def _values_of(self, key: tuple[Place, Expr]) -> Values | None:
        if key not in self._values:
            place, base = key
            around = place.inames
            if not place.conditions:
                around = self.kernel.deciding(around, frozenset(variable_names(base)))
            if around != place.inames:  # the values are the same in many loops
                self._values[key] = self._values_of((Place(around), base))
            else:
                self._values[key] = self._distinct_values(self._find_values(place, base))
        return self._values[key]

    def _distinct_values(self, found: Set | None) -> Values | None:
        values = None if found is None else self._distinct.get(found)
        if found is not None and values is None:
            values = self._distinct[found] = Values(found, self.kernel.assumptions)
        return values

    def _find_values(self, place: Place, base: Expr) -> Set | None:
        domain = self.domain(place)[0]
        if base is None:
            base = 0
        if isinstance(base, p.Variable) and has_dim(domain, base.name):
            return only_dim(domain, base.name)
        domain = self.with_params(domain, base)
        try:
            value = pw_aff_from_expr(domain.get_space(), base)
        except ExpressionToAffineConversionError:
            return None
        return isl.Map.from_pw_aff(value).intersect_domain(domain).range()

    def is_extent(self, spans: tuple[Span, ...], extent: Expr) -> bool:
        """Tell whether *extent* was inferred from the subscripts in *spans*."""
        if any(span.values is None for span in spans):
            return False
        key = extremes(spans)
        return any(self.extents.get((flag, key)) == extent for flag in (False, True))

    # -- examples ------------------------------------------------------------------------

    def first_where(
        self, access: Access, axis: int, *, below: int | None = None, at_least: Expr = None
    ) -> dict[str, int] | None:
        """Return a point where a subscript is less than *below*, or not less than *at_least*.

        Parameters and loop variables by name; ``None`` if there is none.
        """
        assert access.index is not None
        index = access.index[axis]
        bound = at_least if below is None else below
        domain = self.with_params(self.domain(access.place)[0], index, bound)
        wrong = p.Comparison(index, ">=" if below is None else "<", bound)
        domain = domain.intersect(set_from_condition(domain.get_space(), wrong))
        return sample_point(domain.intersect_params(self.kernel.assumptions))

    def element(self, access: Access, point: Mapping[str, int]) -> tuple[str, ...]:
        """Return the subscripts of an access at a point; non-affine ones stay as they are."""
        assert access.index is not None
        return tuple(_value_at(index, point) for index in access.index)


def _value_at(index: Expr, point: Mapping[str, int]) -> str:
    value = substitute(index, dict(point))
    try:
        return str(evaluate(value))
    except (UnknownVariableError, UnsupportedExpressionError):
        return to_text(value)


def _found_of(kernel: LoopKernel) -> _Found:
    """Return the footprints shared with kernels that have the same arrays and integers."""
    values = [arg for arg in kernel.args if isinstance(arg, ValueArg)]
    typed = {arg.name: arg.dtype.is_integral() for arg in values if arg.dtype is not None}
    integers = frozenset(name for name, is_integral in typed.items() if is_integral)
    integers |= _extents(kernel) - typed.keys()
    key = tuple(kernel.array_vars), integers
    return kernel.analyses.answer(_FOOTPRINTS, key, lambda: _Found(integers | _sizes(kernel)))


_OF_KERNEL = Analysis[_Found](LoopKernel)
#: Footprints by the names of arrays, and of integer arguments.
_FOOTPRINTS = Analysis[_Found](
    LoopKernel, "domains", "instructions", "inames", "substitutions", "assumptions"
)


def split_constant(index: Expr) -> tuple[Expr, int]:
    """Split a subscript into a base, ``None`` if there is none, and a constant.

    >>> split_constant(p.Variable("i") + 1)
    (Variable('i'), 1)
    """
    if isinstance(index, p.Sum):
        rest = tuple(child for child in index.children if not _is_int(child))
        if len(rest) < len(index.children):
            constant = int(sum(child for child in index.children if _is_int(child)))
            return rest[0] if len(rest) == 1 else p.Sum(rest) if rest else None, constant
        return index, 0
    return (None, int(index)) if _is_int(index) else (index, 0)


def _common_step(subscripts: Iterable[Expr]) -> int:
    """Return the greatest common divisor of all coefficients; 0 if there are none."""
    step = 0
    for subscript in dict.fromkeys(subscripts):
        step = math.gcd(step, *(coefficient for coefficient, _ in linear_form(subscript).terms))
        if step == 1:
            break
    return step


def _is_int(expr: Expr) -> TypeGuard[int]:
    return isinstance(expr, int | np.integer)
