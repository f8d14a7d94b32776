"""Bounds of integer expressions, computed bottom-up from those of their operands."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property, reduce
from typing import Any, Self

import islpy as isl
import numpy as np
import pymbolic.primitives as p

from kgen.errors import ExpressionToAffineConversionError
from kgen.ir.analyses import Analysis
from kgen.ir.data import ArrayBase
from kgen.ir.expr import (
    Expr,
    GroupHardwareAxisIndex,
    LinearSubscript,
    LocalHardwareAxisIndex,
    TaggedVariable,
    TruncQuotient,
    TruncRemainder,
    TypeCast,
    TypedLiteral,
    variable_names,
)
from kgen.ir.kernel import LoopKernel
from kgen.ir.sets.dims import Set, bound_param, params_space
from kgen.ir.sets.domain import constant_bounds
from kgen.ir.sets.interval import ANYTHING, Interval, range_of_type
from kgen.ir.sets.quasi_affine import set_from_condition
from kgen.ir.tags import AxisTag, GroupInameTag, LocalInameTag

__all__ = ["AXIS_TAGS", "IntervalFinder", "assumed_of"]

#: The tags of loops whose variables are indices along hardware axes.
AXIS_TAGS: dict[type[Expr], type[AxisTag]] = {
    GroupHardwareAxisIndex: GroupInameTag,
    LocalHardwareAxisIndex: LocalInameTag,
}
_INTEGERS = (int, np.integer)
_TRUTH = Interval(0, 1)
#: Larger powers or shifts have no bounds.
_BITS = 64
_ASSUMED = Analysis[Set](LoopKernel, "assumptions", "args")


def assumed_of(kernel: LoopKernel, kinds: tuple[type[Any], ...]) -> Set:
    """Return the assumptions, with non-negative extents of arrays: ``n + 2`` gives ``n >= -2``.

    Only extents of the types *kinds* are used. The result is cached in the kernel.
    """
    shapes = [arg.shape for arg in kernel.args if isinstance(arg, ArrayBase)]
    axes = [axis for shape in shapes if isinstance(shape, tuple) for axis in shape]
    extents = tuple(dict.fromkeys(axis for axis in axes if type(axis) in kinds))
    return kernel.analyses.answer(_ASSUMED, extents, lambda: _assumed(kernel, extents))


def _assumed(kernel: LoopKernel, extents: tuple[Expr, ...]) -> Set:
    known = kernel.assumptions
    for extent in extents:
        any_sizes = isl.Set.universe(params_space(variable_names(extent)))
        if isinstance(extent, p.Variable):
            known = known.intersect(bound_param(any_sizes, extent.name, low=0))
            continue
        space = any_sizes.from_params().get_space()
        try:
            natural = set_from_condition(space, p.Comparison(extent, ">=", 0))
        except ExpressionToAffineConversionError:
            continue
        known = known.intersect(natural.params())
    return known


class LoopValues:
    """The values of a loop variable, whose bounds are computed on demand."""

    def __init__(self, finder: IntervalFinder, first: Expr, stop: Expr | None) -> None:
        self._finder = finder
        self._first = first
        self._stop = stop

    @cached_property
    def interval(self) -> Interval:
        """The bounds, from those of enclosing loop variables."""
        values = self._finder.interval(self._first)
        return values if self._stop is None else values.until(self._finder.interval(self._stop))


class IntervalFinder:
    """Bounds of the integer expressions of one kernel; subclasses bound the variables.

    Each operand is bounded on its own: ``n - n`` is as wide as two different variables.

    A loop domain applies where a statement runs. Bounds and conditions of loops are evaluated
    outside it, too: for these, ``scope`` has the values of enclosing loop variables; it
    is ``None`` at statements. Results without a scope are shared by all sites of a kernel.
    """

    scope: Mapping[str, Interval | LoopValues] | None = None

    def __init__(self, kernel: LoopKernel) -> None:
        self.kernel = kernel
        self._variables: dict[str, Interval] = {}
        self._axes: dict[Expr, Interval] = {}
        self._of_loops: dict[Set, Interval] = {}

    def _with(self, **changes: Any) -> Self:
        found = self.__class__.__new__(self.__class__)
        found.__dict__.update(self.__dict__, **changes)
        return found

    def within(self, scope: Mapping[str, Interval | LoopValues] | None) -> Self:
        """Return the finder for code whose variables have the values in *scope*."""
        return self if scope is self.scope else self._with(scope=scope)

    def inside(self, name: str, first: Expr, stop: Expr | None = None) -> Self:
        """Return the finder in a loop from *first* to before *stop*, or where *name* is *first*."""
        return self._with(scope={**(self.scope or {}), name: LoopValues(self, first, stop)})

    def interval(self, expr: Expr) -> Interval:
        """Return bounds on *expr*, wherever it is evaluated."""
        method = _METHODS.get(type(expr))
        if method is not None:
            found: Interval = getattr(self, method)(expr)
            return found
        return Interval(int(expr), int(expr)) if isinstance(expr, _INTEGERS) else ANYTHING

    def result(self, found: Interval) -> Interval:
        """Return the bounds of a sum up to one of its terms, or of a product, as they are."""
        return found

    # -- leaves ---------------------------------------------------------------------------

    def variable(self, expr: p.Variable) -> Interval:
        """Return bounds of a variable: those of enclosing loops, or those in any loop."""
        known = None if self.scope is None else self.scope.get(expr.name)
        if known is None:
            return self.anywhere(expr.name)
        return known.interval if isinstance(known, LoopValues) else known

    def anywhere(self, name: str) -> Interval:
        """Return bounds of a variable; for a loop variable those in its domain."""
        found = self._variables.get(name)
        if found is None:
            found = self._variables[name] = self.find(name)
        return found

    def find(self, name: str) -> Interval:
        """Compute the bounds that :meth:`anywhere` caches."""
        raise NotImplementedError

    def in_domain(self, iname: str, known: Set) -> Interval:
        """Return bounds of a loop variable, given facts *known* of parameters in all calls."""
        values = self.kernel.domain_of((iname,))  # equal for many loops
        found = self._of_loops.get(values)
        if found is None:
            found = constant_bounds(values.intersect_params(known), iname)
            self._of_loops[values] = found
        return found

    def element(self, expr: p.Subscript | LinearSubscript) -> Interval:
        """Return bounds of the elements of an array."""
        return ANYTHING

    def axis(self, expr: GroupHardwareAxisIndex | LocalHardwareAxisIndex) -> Interval:
        """Return bounds of the index along a hardware axis, in any launch."""
        found = self._axes.get(expr)
        if found is None:
            tag = AXIS_TAGS[type(expr)](expr.axis)
            lengths = [axis.length for axis in self.kernel.axes.values() if axis.tag == tag]
            longest = reduce(Interval.maximum, map(self.interval, lengths), Interval(1, 1))
            found = self._axes[expr] = Interval(0).until(longest)
        return found

    # -- operations -----------------------------------------------------------------------

    def _sum(self, expr: p.Sum) -> Interval:
        first, *others = expr.children or (0,)
        total = self.interval(first)
        for child in others:
            total = self.result(total + self.interval(child))
        return total

    def _product(self, expr: p.Product) -> Interval:
        return self.result(reduce(Interval.__mul__, map(self.interval, expr.children)))

    def _quotient(self, expr: p.FloorDiv | TruncQuotient) -> Interval:
        top, den = self.interval(expr.numerator), expr.denominator
        if isinstance(den, int) and den > 0:
            return top // den if type(expr) is p.FloorDiv else top.truncated(den)
        is_positive = self.interval(den).is_at_least(1)
        return Interval(0, top.high) if top.is_at_least(0) and is_positive else ANYTHING

    def _remainder(self, expr: p.Remainder | TruncRemainder) -> Interval:
        top, den = self.interval(expr.numerator), self.interval(expr.denominator)
        if not den.is_at_least(1):
            return ANYTHING
        rest = Interval(0).until(den)
        is_natural = type(expr) is p.Remainder or top.is_at_least(0)
        return rest if is_natural else rest.union(rest.scaled(-1))

    def _minimum(self, expr: p.Min) -> Interval:
        return reduce(Interval.minimum, map(self.interval, expr.children))

    def _maximum(self, expr: p.Max) -> Interval:
        return reduce(Interval.maximum, map(self.interval, expr.children))

    def _if(self, expr: p.If) -> Interval:
        return self.interval(expr.then).union(self.interval(expr.else_))

    def _cast(self, expr: TypeCast) -> Interval:
        found, of_type = self.interval(expr.child), range_of_type(expr.type.numpy_dtype)
        if expr.type.kind not in "ub" and expr.type.itemsize >= 4:
            return found  # overflow is undefined
        return found if found.is_inside(of_type) else of_type

    def _literal(self, expr: TypedLiteral) -> Interval:
        return self.interval(expr.value)

    def _call(self, expr: p.Call) -> Interval:
        name = getattr(expr.function, "name", "")
        found = [self.interval(parameter) for parameter in expr.parameters]
        if name == "abs" and found:
            return found[0].maximum(found[0].scaled(-1)).maximum(Interval(0, 0))
        if name in ("min", "max") and found:
            return reduce(Interval.minimum if name == "min" else Interval.maximum, found)
        return ANYTHING

    def _power(self, expr: p.Power) -> Interval:
        base, exponent = self.interval(expr.base), self.interval(expr.exponent).only
        if exponent is None or not 0 < exponent < _BITS:
            return ANYTHING
        found = base
        for _ in range(exponent - 1):
            found = self.result(found * base)
        return found

    def _left_shift(self, expr: p.LeftShift) -> Interval:
        found, factor = self.interval(expr.shiftee), self._shifted_by(expr.shift)
        return ANYTHING if factor is None else self.result(found.scaled(factor))

    def _right_shift(self, expr: p.RightShift) -> Interval:
        found, divisor = self.interval(expr.shiftee), self._shifted_by(expr.shift)
        return ANYTHING if divisor is None else found // divisor

    def _shifted_by(self, shift: Expr) -> int | None:
        by = self.interval(shift).only
        return 1 << by if by is not None and 0 <= by < _BITS else None

    def _bitwise_and(self, expr: p.BitwiseAnd) -> Interval:
        found = [self.interval(child) for child in expr.children]
        natural = [each for each in found if each.is_at_least(0)]
        return Interval(0, reduce(Interval.minimum, natural).high) if natural else ANYTHING

    def _bitwise_or(self, expr: p.BitwiseOr | p.BitwiseXor) -> Interval:
        found = [self.interval(child) for child in expr.children]
        largest = reduce(Interval.maximum, found).high
        if largest is None or not all(each.is_at_least(0) for each in found):
            return ANYTHING
        return Interval(0, 2 ** largest.bit_length() - 1)

    def _bitwise_not(self, expr: p.BitwiseNot) -> Interval:
        return self.interval(expr.child).scaled(-1) + Interval(-1, -1)

    def _truth(self, expr: Expr) -> Interval:
        return _TRUTH


#: The method for each type of expression; other types are unbounded.
_METHODS: dict[type[Any], str] = {
    p.Variable: "variable",
    TaggedVariable: "variable",
    p.Subscript: "element",
    LinearSubscript: "element",
    GroupHardwareAxisIndex: "axis",
    LocalHardwareAxisIndex: "axis",
    p.Sum: "_sum",
    p.Product: "_product",
    p.FloorDiv: "_quotient",
    TruncQuotient: "_quotient",
    p.Remainder: "_remainder",
    TruncRemainder: "_remainder",
    p.Min: "_minimum",
    p.Max: "_maximum",
    p.If: "_if",
    TypeCast: "_cast",
    TypedLiteral: "_literal",
    p.Call: "_call",
    p.Power: "_power",
    p.LeftShift: "_left_shift",
    p.RightShift: "_right_shift",
    p.BitwiseAnd: "_bitwise_and",
    p.BitwiseOr: "_bitwise_or",
    p.BitwiseXor: "_bitwise_or",
    p.BitwiseNot: "_bitwise_not",
    **dict.fromkeys((p.Comparison, p.LogicalAnd, p.LogicalOr, p.LogicalNot), "_truth"),
}
