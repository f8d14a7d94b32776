"""Provably non-negative integer expressions, for which C's division is floor division."""

from __future__ import annotations

from collections.abc import Mapping

import pymbolic.primitives as p
from constantdict import constantdict

from kgen.analysis.intervals import AXIS_TAGS, IntervalFinder, assumed_of
from kgen.analysis.typing import ExpressionTyper
from kgen.errors import ExpressionToAffineConversionError, KgenError
from kgen.ir.analyses import Analysis
from kgen.ir.data import ArrayBase, ValueArg
from kgen.ir.expr import (
    Expr,
    GroupHardwareAxisIndex,
    LinearSubscript,
    LocalHardwareAxisIndex,
    TypeCast,
    TypedLiteral,
    walk,
)
from kgen.ir.kernel import LoopKernel
from kgen.ir.sets.dims import from_named, has_param
from kgen.ir.sets.domain import constant_bounds
from kgen.ir.sets.interval import ANYTHING, Interval, range_of_type
from kgen.ir.sets.quasi_affine import pw_aff_from_expr
from kgen.ir.types import NumpyType

__all__ = ["Signs"]

#: Operations whose results are truncated to 8 and 16 bits if the operands have no more.
_TRUNCATED = (p.Sum, p.Product, p.Call, p.Power, p.LeftShift, p.FloorDiv, p.BitwiseNot)
_IS_NARROW = Analysis[bool](
    LoopKernel, "instructions", "args", "temporary_variables", "substitutions"
)


class Signs(IntervalFinder):
    """Bounds of the integer expressions of one kernel.

    The known facts are loop domains, assumptions, non-negative extents of arrays, and
    unsigned types. ``axes`` has the constraints of enclosing conditions on hardware axes.
    """

    axes: Mapping[Expr, Interval] = constantdict()

    def __init__(self, kernel: LoopKernel) -> None:
        super().__init__(kernel)
        self._assumed = assumed_of(kernel, (p.Variable,))
        is_narrow = kernel.analyses.answer(_IS_NARROW, None, lambda: _has_narrow(kernel))
        self._typer = ExpressionTyper(kernel) if is_narrow else None

    def interval(self, expr: Expr) -> Interval:
        """Return bounds on *expr*, wherever it is evaluated."""
        found = super().interval(expr)
        if self._typer is None or not isinstance(expr, _TRUNCATED):
            return found
        try:
            dtype = self._typer.operand(expr)
        except KgenError:  # of something that has no type yet
            return found
        if not isinstance(dtype, NumpyType) or not _is_narrow(dtype):
            return found
        of_type = range_of_type(dtype.numpy_dtype)
        return found if found.is_inside(of_type) else of_type

    def under(self, *conditions: Expr) -> Signs:
        """Return this with the constraints of *conditions* on hardware axes: ``lid(0) < 8``."""
        signs = self
        for condition in conditions:
            match condition:
                case p.Comparison(axis, ("<" | ">=") as sign, int() as bound) if (
                    type(axis) in AXIS_TAGS
                ):
                    said = Interval(None, bound - 1) if sign == "<" else Interval(bound)
                    known = signs.interval(axis).both(said)
                    signs = signs._with(axes={**signs.axes, axis: known})
        return signs

    def is_at_least(self, expr: Expr, least: int, inames: frozenset[str] | None = None) -> bool:
        """Tell whether ``expr >= least`` is proved.

        With *inames*, it only needs to be true at the instances of a statement inside those loops.
        """
        if self.interval(expr).is_at_least(least):
            return True
        return inames is not None and self._holds_in_domain(p.Sum((expr, -least)), inames)

    def divides_as_in_c(
        self, numerator: Expr, denominator: Expr, inames: frozenset[str] | None = None
    ) -> bool:
        """Tell whether C's ``/`` and ``%`` give the floor quotient and the modulus."""
        return self.is_at_least(denominator, 1, inames) and self.is_at_least(numerator, 0, inames)

    def _holds_in_domain(self, expr: Expr, inames: frozenset[str]) -> bool:
        """Tell whether *expr* is non-negative in the domain of *inames*."""
        domain = self.kernel.domain_of(self.kernel.in_order(inames))
        domain = domain.intersect_params(self._assumed)
        try:
            value = pw_aff_from_expr(domain.get_space(), expr)
        except ExpressionToAffineConversionError:
            return False
        return bool(domain.is_subset(value.nonneg_set()))

    # -- leaves ---------------------------------------------------------------------------

    def find(self, name: str) -> Interval:
        kernel = self.kernel
        if name in kernel.inames:
            return self.in_domain(name, self._assumed)
        if has_param(self._assumed, name):
            return constant_bounds(from_named(self._assumed, (name,)), name)
        return _of_data(kernel.variable(name))

    def element(self, expr: p.Subscript | LinearSubscript) -> Interval:
        """Return bounds of the elements of an array."""
        return _of_data(self.kernel.array_vars.get(getattr(expr.aggregate, "name", "")))

    def axis(self, expr: GroupHardwareAxisIndex | LocalHardwareAxisIndex) -> Interval:
        """Return bounds of the index along a hardware axis, under enclosing conditions."""
        return self.axes.get(expr) or super().axis(expr)


def _has_narrow(kernel: LoopKernel) -> bool:
    """Tell whether the kernel may compute with integers of 8 or 16 bits."""
    declared = (*kernel.args, *kernel.temporary_variables.values())
    if any(_is_narrow(one.dtype) for one in declared):
        return True
    bodies = [rule.expression for rule in kernel.substitutions.values()]
    exprs = (expr for insn in kernel.instructions for expr in insn.expressions())
    return any(
        isinstance(node, TypeCast | TypedLiteral) and _is_narrow(node.type)
        for node in walk(*exprs, *bodies)
    )


def _is_narrow(dtype: object) -> bool:
    return isinstance(dtype, NumpyType) and dtype.kind in "iu" and dtype.itemsize < 4


def _of_data(declared: ArrayBase | ValueArg | None) -> Interval:
    """Return the bounds of an unsigned type."""
    if declared is None or not declared.dtype or declared.dtype.kind not in "ub":
        return ANYTHING
    return range_of_type(declared.dtype.numpy_dtype)
