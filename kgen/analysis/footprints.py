"""The sets of elements that accesses touch, over the loops around them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias, TypeGuard

import islpy as isl
import numpy as np
import pymbolic.primitives as p

from kgen.analysis.access import Access, Place, collect_accesses, subscript_names
from kgen.errors import ExpressionToAffineConversionError
from kgen.ir.data import ValueArg
from kgen.ir.domain import PwAff, Set, param_names, sample_point
from kgen.ir.expr import Expr, variable_names
from kgen.ir.kernel import LoopKernel
from kgen.ir.quasi_affine import pw_aff_from_expr, set_from_condition

__all__ = ["AxisValues", "Footprints", "span_key", "split_constant"]

#: A place and the part of a subscript that is no constant.
Key: TypeAlias = tuple[Place, Expr]
SpanKey: TypeAlias = tuple[tuple[Key, int, int], ...]

_PARAM = isl.dim_type.param
_SET = isl.dim_type.set


@dataclass(frozen=True, slots=True)
class AxisValues:
    """What subscripts of the form ``base + constant`` take along an axis, at one place.

    ``low`` and ``high`` are the least and the largest constant, ``access`` an access with
    each of these. ``base`` is ``None`` for a subscript that is only a constant.
    """

    place: Place
    base: Expr
    low: int
    high: int
    lowest: Access
    highest: Access

    @property
    def key(self) -> Key:
        """What footprints are kept by."""
        return self.place, self.base


def span_key(groups: tuple[AxisValues, ...]) -> SpanKey:
    """Return what the extent of an axis depends on: equal keys, equal extents."""
    return tuple((group.key, group.low, group.high) for group in groups)


def _sizes(kernel: LoopKernel) -> frozenset[str]:
    """Return the values that callers pass and that loops or subscripts use: integers."""
    values = {a.name for a in kernel.args if isinstance(a, ValueArg) and a.dtype is None}
    used = set(kernel.all_params())
    if values - used:
        used |= subscript_names(kernel)
    return frozenset(values & used)


class Footprints:
    """The accesses of a kernel, and the sets of elements that they touch.

    isl is asked once per distinct question: a thousand instructions with the same subscripts
    in the same loops cost one. ``Footprints.of(kernel)`` is shared by kernels that differ in
    declarations only.
    """

    def __init__(self, kernel: LoopKernel, integers: frozenset[str]) -> None:
        self.kernel = kernel
        self._integers = integers
        self._domains: dict[Place, tuple[Set, bool]] = {}
        self._values: dict[Key, Set | None] = {}
        self._highest: dict[Key, PwAff] = {}
        self._least: dict[Key, int | None] = {}
        self._reaches: dict[tuple[Key, int, Expr], bool] = {}
        #: Extents by :func:`span_key` of the subscripts, constant ones preferred or not.
        self.extents: dict[tuple[bool, SpanKey], Expr] = {}

    @classmethod
    def of(cls, kernel: LoopKernel) -> Footprints:
        """Return the footprints of *kernel*, found anew only if loops or statements changed."""
        integers = frozenset(
            arg.name
            for arg in kernel.args
            if isinstance(arg, ValueArg) and arg.dtype is not None and arg.dtype.is_integral()
        )
        key = (cls, tuple(kernel.array_vars), integers)
        found: Footprints | None = kernel.loop_memo.get(key)
        if found is None:
            found = kernel.loop_memo[key] = cls(kernel, integers | _sizes(kernel))
        return found

    @cached_property
    def accesses(self) -> Mapping[str, tuple[Access, ...]]:
        """The accesses of each array, in program order."""
        found: dict[str, list[Access]] = {}
        for access in collect_accesses(self.kernel):
            found.setdefault(access.array, []).append(access)
        return {name: tuple(some) for name, some in found.items()}

    def with_params(self, domain: Set, *exprs: Expr) -> Set:
        """Add the integer parameters that *exprs* mention and *domain* does not have."""
        for name in variable_names(*exprs):
            if (
                name in self._integers
                and domain.find_dim_by_name(_PARAM, name) < 0
                and domain.find_dim_by_name(_SET, name) < 0
            ):
                at = domain.dim(_PARAM)
                domain = domain.insert_dims(_PARAM, at, 1).set_dim_name(_PARAM, at, name)
        return domain

    def domain(self, place: Place) -> tuple[Set, bool]:
        """Return the iterations that reach a place, and whether these are exactly those.

        They are not where a condition or a loop bound depends on data, which is left out.
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
        """Return ``{ [inames] -> [index] }``; ``None`` where a subscript is not affine."""
        if access.index is None:
            return None
        domain = self.with_params(self.domain(access.place)[0], *access.index)
        result = isl.Map.from_domain_and_range(domain, isl.Set("{ [] }"))
        for index in access.index:
            try:
                value = pw_aff_from_expr(domain.get_space(), index)
            except ExpressionToAffineConversionError:
                return None
            result = result.flat_range_product(isl.Map.from_pw_aff(value))
        return result

    # -- one axis at a time --------------------------------------------------------------

    def axis_values(self, accesses: tuple[Access, ...], axis: int) -> tuple[AxisValues, ...]:
        """Group the subscripts of *accesses* along an axis: same place, same base."""
        groups: dict[Key, AxisValues] = {}
        for access in accesses:
            assert access.index is not None
            base, constant = split_constant(access.index[axis])
            key = (access.place, base)
            old = groups.get(key)
            if old is None:
                groups[key] = AxisValues(access.place, base, constant, constant, access, access)
            elif constant < old.low:
                groups[key] = AxisValues(*key, constant, old.high, access, old.highest)
            elif constant > old.high:
                groups[key] = AxisValues(*key, old.low, constant, old.lowest, access)
        return tuple(groups.values())

    def values(self, key: Key) -> Set | None:
        """Return the values of a base over its place, ``{ [v] }``; ``None``: not affine."""
        if key not in self._values:
            self._values[key] = self._find_values(*key)
        return self._values[key]

    def _find_values(self, place: Place, base: Expr) -> Set | None:
        domain = self.domain(place)[0]
        if base is None:
            base = 0
        if isinstance(base, p.Variable):
            at = domain.find_dim_by_name(_SET, base.name)
            if at >= 0:
                after = domain.dim(_SET) - at - 1
                return domain.project_out(_SET, at + 1, after).project_out(_SET, 0, at)
        domain = self.with_params(domain, base)
        try:
            value = pw_aff_from_expr(domain.get_space(), base)
        except ExpressionToAffineConversionError:
            return None
        return isl.Map.from_pw_aff(value).intersect_domain(domain).range()

    def highest(self, key: Key) -> PwAff:
        """Return the largest value of an affine base as a function of the parameters."""
        found = self._highest.get(key)
        if found is None:
            values = self.values(key)
            assert values is not None
            found = self._highest[key] = values.dim_max(0)
        return found

    def least(self, key: Key) -> int | None:
        """Return the least value of an affine base over all parameters; ``None``: unbounded.

        An empty footprint has the least value 0.
        """
        if key not in self._least:
            values = self.values(key)
            assert values is not None
            least = values.intersect_params(self.kernel.assumptions).dim_min_val(0)
            self._least[key] = (
                least.to_python() if least.is_int() else 0 if least.is_nan() else None
            )
        return self._least[key]

    def is_extent(self, groups: tuple[AxisValues, ...], extent: Expr) -> bool:
        """Tell whether *extent* was found as that of the subscripts in *groups*."""
        key = span_key(groups)
        return any(self.extents.get((flag, key)) == extent for flag in (False, True))

    def reaches(self, group: AxisValues, extent: Expr) -> bool:
        """Tell whether a subscript can be *extent* or more; not if one of them is not affine."""
        key = (group.key, group.high, extent)
        found = self._reaches.get(key)
        if found is None:
            found = self._reaches[key] = self._find_reaches(*key)
        return found

    def _find_reaches(self, key: Key, high: int, extent: Expr) -> bool:
        values = self.values(key)
        if values is None:
            return False
        values = self.with_params(values, extent)
        space = values.get_space()
        try:
            end = pw_aff_from_expr(space, extent)
        except ExpressionToAffineConversionError:
            return False
        top = isl.Aff.var_on_domain(isl.LocalSpace.from_space(space), _SET, 0)
        top = top.add_constant_val(isl.Val.int_from_si(isl.DEFAULT_CONTEXT, high))
        outside = values.intersect(isl.PwAff.from_aff(top).ge_set(end))
        return not outside.intersect_params(self.kernel.assumptions).is_empty()

    # -- examples ------------------------------------------------------------------------

    def first_where(
        self, access: Access, axis: int, *, below: int | None = None, at_least: Expr = None
    ) -> dict[str, int] | None:
        """Return a point where a subscript is less than *below*, or not less than *at_least*.

        Parameters and loop variables by name; ``None`` where there is none.
        """
        assert access.index is not None
        index = access.index[axis]
        bound = at_least if below is None else below
        domain = self.with_params(self.domain(access.place)[0], index, bound)
        wrong = p.Comparison(index, ">=" if below is None else "<", bound)
        domain = domain.intersect(set_from_condition(domain.get_space(), wrong))
        return sample_point(domain.intersect_params(self.kernel.assumptions))

    def element(self, access: Access, point: Mapping[str, int]) -> tuple[int, ...]:
        """Return the element that an access touches at a point; all subscripts are affine."""
        relation = self.relation(access)
        assert relation is not None
        for kind in (isl.dim_type.in_, _PARAM):
            for at in range(relation.dim(kind)):
                name = relation.get_dim_name(kind, at)
                value = isl.Val.int_from_si(isl.DEFAULT_CONTEXT, point[str(name)])
                relation = relation.fix_val(kind, at, value)
        found = relation.range().sample_point()
        return tuple(
            found.get_coordinate_val(_SET, at).to_python() for at in range(relation.dim(_SET))
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


def _is_int(expr: Expr) -> TypeGuard[int]:
    return isinstance(expr, int | np.integer)
