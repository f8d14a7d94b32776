"""Which integer expressions are provably not negative: where C's division is floor division."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import islpy as isl
import numpy as np
import pymbolic.primitives as p

from kgen.errors import ExpressionToAffineConversionError
from kgen.ir.data import ArrayBase
from kgen.ir.expr import (
    Expr,
    GroupHardwareAxisIndex,
    LinearSubscript,
    LocalHardwareAxisIndex,
    TruncQuotient,
    TruncRemainder,
    TypeCast,
    TypedLiteral,
)
from kgen.ir.kernel import LoopKernel
from kgen.ir.sets.domain import constant_bounds
from kgen.ir.sets.quasi_affine import pw_aff_from_expr
from kgen.ir.tags import AxisTag, GroupInameTag, LocalInameTag

__all__ = ["Interval", "Signs"]

_PARAM = isl.dim_type.param
_SET = isl.dim_type.set


@dataclass(frozen=True, slots=True)
class Interval:
    """All integers from *low* to *high*; ``None`` where there is no bound."""

    low: int | None = None
    high: int | None = None

    def __add__(self, other: Interval) -> Interval:
        return Interval(_both(self.low, other.low, _add), _both(self.high, other.high, _add))

    def __mul__(self, other: Interval) -> Interval:
        for one, two in ((self, other), (other, self)):
            if one.low is not None and one.low == one.high:
                return two.scaled(one.low)
        if _natural(self) and _natural(other):
            return Interval(_both(self.low, other.low, _mul), _both(self.high, other.high, _mul))
        ends = (self.low, self.high, other.low, other.high)
        if None in ends:
            return ANYTHING
        corners = [a * b for a in ends[:2] for b in ends[2:] if a is not None and b is not None]
        return Interval(min(corners), max(corners))

    def scaled(self, factor: int) -> Interval:
        """Return ``factor * self``."""
        low = None if self.low is None else factor * self.low
        high = None if self.high is None else factor * self.high
        return Interval(low, high) if factor >= 0 else Interval(high, low)

    def both(self, other: Interval) -> Interval:
        """Return what both have in common."""
        return Interval(_either(self.low, other.low, max), _either(self.high, other.high, min))

    def union(self, other: Interval) -> Interval:
        """Return the interval around both."""
        return Interval(_both(self.low, other.low, min), _both(self.high, other.high, max))


ANYTHING = Interval()
_TRUTH = Interval(0, 1)
_AXES: dict[type[Expr], type[AxisTag]] = {
    GroupHardwareAxisIndex: GroupInameTag,
    LocalHardwareAxisIndex: LocalInameTag,
}


def _add(a: int, b: int) -> int:
    return a + b


def _mul(a: int, b: int) -> int:
    return a * b


def _both(a: int | None, b: int | None, combine: Callable[[int, int], int]) -> int | None:
    return None if a is None or b is None else combine(a, b)


def _either(a: int | None, b: int | None, combine: Callable[[int, int], int]) -> int | None:
    if a is None or b is None:
        return a if b is None else b
    return combine(a, b)


def _natural(interval: Interval) -> bool:
    return interval.low is not None and interval.low >= 0


class Signs:
    """Bounds of the integer expressions of one kernel.

    What is known: loop domains, assumptions, that extents of arrays are not negative, and
    unsigned types. A loop domain holds where a statement runs. Bounds and conditions of loops
    are evaluated outside of it, too: for these, ``scope`` has what the loops around give their
    variables, and is ``None`` at statements.
    """

    def __init__(self, kernel: LoopKernel) -> None:
        self.kernel = kernel
        self.scope: Mapping[str, Interval] | None = None
        #: What conditions around say of hardware axes.
        self.axes: Mapping[Expr, Interval] = {}
        self._variables: dict[str, Interval] = {}
        self._hardware: dict[Expr, Interval] = {}
        self._context: isl.Set | None = None

    def interval(self, expr: Expr) -> Interval:
        """Return bounds on *expr*, wherever it is evaluated."""
        if isinstance(expr, int | np.integer):
            return Interval(int(expr), int(expr))
        method = _METHODS.get(type(expr))
        return ANYTHING if method is None else method(self, expr)

    def bounds(self, expr: Expr) -> tuple[int | None, int | None]:
        """Return the least and the largest value of *expr*; ``None`` where there is no bound."""
        found = self.interval(expr)
        return found.low, found.high

    @contextlib.contextmanager
    def under(self, *conditions: Expr) -> Iterator[None]:
        """Use what *conditions* say of hardware axes: ``lid(0) < 8``."""
        around = self.axes
        for condition in conditions:
            match condition:
                case p.Comparison(axis, ("<" | ">=") as sign, int() as bound) if (
                    type(axis) in _AXES
                ):
                    said = Interval(None, bound - 1) if sign == "<" else Interval(bound)
                    self.axes = {**self.axes, axis: self.interval(axis).both(said)}
        yield
        self.axes = around

    def is_at_least(self, expr: Expr, least: int, inames: frozenset[str] | None = None) -> bool:
        """Tell whether ``expr >= least`` is provable.

        With *inames* that need only hold at the instances of a statement inside those loops.
        """
        low = self.interval(expr).low
        if low is not None and low >= least:
            return True
        return inames is not None and self._holds_in_domain(p.Sum((expr, -least)), inames)

    def divides_as_in_c(
        self, numerator: Expr, denominator: Expr, inames: frozenset[str] | None = None
    ) -> bool:
        """Tell whether C's ``/`` and ``%`` give the floor quotient and the modulus."""
        return self.is_at_least(denominator, 1, inames) and self.is_at_least(numerator, 0, inames)

    def _holds_in_domain(self, expr: Expr, inames: frozenset[str]) -> bool:
        """Tell whether *expr* is not negative in the domain of *inames*."""
        order = self.kernel.iname_order
        domain = self.kernel.domain_of(tuple(sorted(inames, key=order.__getitem__)))
        domain = domain.intersect_params(self._assumed())
        try:
            value = pw_aff_from_expr(domain.get_space(), expr)
        except ExpressionToAffineConversionError:
            return False
        return bool(domain.is_subset(value.nonneg_set()))

    def _assumed(self) -> isl.Set:
        """Return the assumptions, and that extents of arrays are not negative."""
        if self._context is None:
            context = self.kernel.assumptions
            for name in self._extents():
                space = isl.Space.params_alloc(isl.DEFAULT_CONTEXT, 1)
                natural = isl.Set.universe(space.set_dim_name(_PARAM, 0, name))
                natural = natural.lower_bound_val(_PARAM, 0, isl.Val.zero(isl.DEFAULT_CONTEXT))
                context = context.intersect(natural)
            self._context = context
        return self._context

    def _extents(self) -> list[str]:
        names: dict[str, None] = {}
        for arg in self.kernel.args:
            if isinstance(arg, ArrayBase) and isinstance(arg.shape, tuple):
                names.update((axis.name, None) for axis in arg.shape if type(axis) is p.Variable)
        return list(names)

    # -- leaves ---------------------------------------------------------------------------

    def _variable(self, expr: p.Variable) -> Interval:
        if self.scope is not None and expr.name in self.scope:
            return self.scope[expr.name]
        found = self._variables.get(expr.name)
        if found is None:
            found = self._variables[expr.name] = self._find(expr.name)
        return found

    def _find(self, name: str) -> Interval:
        kernel = self.kernel
        if name in kernel.inames:
            domain = kernel.domain_of((name,)).intersect_params(self._assumed())
            return Interval(*constant_bounds(domain, name))
        at = self._assumed().find_dim_by_name(_PARAM, name)
        if at >= 0:
            one = isl.Set.from_params(self._assumed()).move_dims(_SET, 0, _PARAM, at, 1)
            return Interval(*constant_bounds(one, name))
        declared = kernel.temporary_variables.get(name) or kernel.arg_dict.get(name)
        return _of_type(declared.dtype.numpy_dtype if declared and declared.dtype else None)

    def _element(self, expr: p.Subscript | LinearSubscript) -> Interval:
        array = self.kernel.array_vars.get(getattr(expr.aggregate, "name", ""))
        return _of_type(array.dtype.numpy_dtype if array is not None and array.dtype else None)

    def _axis(self, expr: GroupHardwareAxisIndex | LocalHardwareAxisIndex) -> Interval:
        if expr in self.axes:
            return self.axes[expr]
        found = self._hardware.get(expr)
        if found is None:
            tag = _AXES[type(expr)](expr.axis)
            ends = [
                axis.extent.floor().max_val()
                for axis in self.kernel.axes.values()
                if axis.tag == tag
            ]
            is_bounded = bool(ends) and all(end.is_int() for end in ends)
            high = max(end.to_python() for end in ends) - 1 if is_bounded else None
            found = self._hardware[expr] = Interval(0, high)
        return found

    # -- operations -----------------------------------------------------------------------

    def _sum(self, expr: p.Sum) -> Interval:
        total = Interval(0, 0)
        for child in expr.children:
            total = total + self.interval(child)
            if total.low is None and total.high is None:
                break
        return total

    def _product(self, expr: p.Product) -> Interval:
        total = Interval(1, 1)
        for child in expr.children:
            total = total * self.interval(child)
        return total

    def _floor_div(self, expr: p.FloorDiv) -> Interval:
        top, den = self.interval(expr.numerator), expr.denominator
        if not isinstance(den, int) or den <= 0:
            positive = self.is_at_least(den, 1)
            return Interval(0, top.high) if _natural(top) and positive else ANYTHING
        low = None if top.low is None else top.low // den
        return Interval(low, None if top.high is None else top.high // den)

    def _modulo(self, expr: p.Remainder) -> Interval:
        den = self.interval(expr.denominator)
        if den.low is None or den.low < 1:
            return ANYTHING
        return Interval(0, None if den.high is None else den.high - 1)

    def _quotient_of_c(self, expr: TruncQuotient) -> Interval:
        if not _natural(self.interval(expr.numerator)):
            return ANYTHING
        return self._floor_div(p.FloorDiv(expr.numerator, expr.denominator))

    def _remainder_of_c(self, expr: TruncRemainder) -> Interval:
        rest = self._modulo(p.Remainder(expr.numerator, expr.denominator))
        if _natural(self.interval(expr.numerator)):
            return rest
        return Interval(None if rest.high is None else -rest.high, rest.high)

    def _minimum(self, expr: p.Min) -> Interval:
        parts = [self.interval(child) for child in expr.children]
        total = parts[0]
        for part in parts[1:]:
            low, high = _both(total.low, part.low, min), _either(total.high, part.high, min)
            total = Interval(low, high)
        return total

    def _maximum(self, expr: p.Max) -> Interval:
        parts = [self.interval(child) for child in expr.children]
        total = parts[0]
        for part in parts[1:]:
            low, high = _either(total.low, part.low, max), _both(total.high, part.high, max)
            total = Interval(low, high)
        return total

    def _if(self, expr: p.If) -> Interval:
        return self.interval(expr.then).union(self.interval(expr.else_))

    def _cast(self, expr: TypeCast) -> Interval:
        of_type = _of_type(expr.type.numpy_dtype)
        child = self.interval(expr.child)
        return child if of_type == ANYTHING and expr.type.itemsize >= 4 else of_type

    def _literal(self, expr: TypedLiteral) -> Interval:
        return self.interval(expr.value)

    def _call(self, expr: p.Call) -> Interval:
        name = getattr(expr.function, "name", "")
        if name == "abs":
            return Interval(0)
        if name in ("min", "max") and expr.parameters:
            return self.interval((p.Min if name == "min" else p.Max)(expr.parameters))
        return ANYTHING

    def _truth(self, expr: Expr) -> Interval:
        return _TRUTH


def _of_type(dtype: np.dtype[Any] | None) -> Interval:
    if dtype is None or dtype.kind not in "ub":
        return ANYTHING
    return _TRUTH if dtype.kind == "b" else Interval(0, int(np.iinfo(dtype).max))


_Method: TypeAlias = Callable[[Signs, Any], Interval]
_METHODS: dict[type[Any], _Method] = {
    p.Variable: Signs._variable,
    p.Subscript: Signs._element,
    LinearSubscript: Signs._element,
    GroupHardwareAxisIndex: Signs._axis,
    LocalHardwareAxisIndex: Signs._axis,
    p.Sum: Signs._sum,
    p.Product: Signs._product,
    p.FloorDiv: Signs._floor_div,
    p.Remainder: Signs._modulo,
    TruncQuotient: Signs._quotient_of_c,
    TruncRemainder: Signs._remainder_of_c,
    p.Min: Signs._minimum,
    p.Max: Signs._maximum,
    p.If: Signs._if,
    TypeCast: Signs._cast,
    TypedLiteral: Signs._literal,
    p.Call: Signs._call,
    p.Comparison: Signs._truth,
    p.LogicalAnd: Signs._truth,
    p.LogicalOr: Signs._truth,
    p.LogicalNot: Signs._truth,
}
