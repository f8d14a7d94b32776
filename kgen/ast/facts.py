"""What is known at a point of the code tree: assumptions, hardware axes, conditions around it."""

from __future__ import annotations

import islpy as isl
import pymbolic.primitives as p

from kgen.errors import ExpressionToAffineConversionError
from kgen.ir.domain import Set
from kgen.ir.expr import Expr, IdentityMapper, TruncQuotient, TruncRemainder, variable_names
from kgen.ir.quasi_affine import set_from_condition
from kgen.schedule.to_isl import axis_name

__all__ = ["Facts", "without_trunc"]


class Facts:
    """What is known at a point: the root's facts and the conditions around it."""

    def __init__(self, root: Set, conditions: tuple[Expr, ...]) -> None:
        self.root = root
        self.conditions = conditions
        self._known: Set | None = None

    def with_(self, *conditions: Expr) -> Facts:
        return Facts(self.root, (*self.conditions, *conditions))

    def imply(self, condition: Expr) -> bool:
        """Tell whether *condition* is proved."""
        known = self._set()
        space = _space_with(known.get_space(), condition)
        try:
            holds = set_from_condition(space, _named_axes(condition))
        except ExpressionToAffineConversionError:
            return False
        return bool(known.params().is_subset(holds.params()))

    def are_contradictory(self) -> bool:
        """Tell whether the point is never reached."""
        return bool(self._set().is_empty())

    def _set(self) -> Set:
        if self._known is None:
            known = self.root.params()
            for condition in self.conditions:
                space = _space_with(known.get_space(), condition)
                try:
                    holds = set_from_condition(space, _named_axes(condition))
                    known = known.intersect(holds.params())
                except ExpressionToAffineConversionError:
                    continue
            self._known = known
        return self._known


def _space_with(space: isl.Space, condition: Expr) -> isl.Space:
    space = space.params()
    for name in variable_names(_named_axes(condition)):
        if space.find_dim_by_name(isl.dim_type.param, name) < 0:
            at = space.dim(isl.dim_type.param)
            space = space.insert_dims(isl.dim_type.param, at, 1).set_dim_name(
                isl.dim_type.param, at, name
            )
    return space.set_from_params()


class _AxisNamer(IdentityMapper):
    """Put isl's parameters in the place of hardware axes, floor division for C's."""

    def map_group_hardware_axis_index(self, expr: Expr, *args: object) -> Expr:
        return p.Variable(axis_name(expr))

    map_local_hardware_axis_index = map_group_hardware_axis_index


def _named_axes(condition: Expr) -> Expr:
    return _AxisNamer()(condition)


class _TruncRemover(IdentityMapper):
    def map_trunc_quotient(self, expr: TruncQuotient, *args: object) -> Expr:
        return p.FloorDiv(self.rec(expr.numerator), self.rec(expr.denominator))

    def map_trunc_remainder(self, expr: TruncRemainder, *args: object) -> Expr:
        return p.Remainder(self.rec(expr.numerator), self.rec(expr.denominator))


def without_trunc(expr: Expr) -> Expr:
    """Put floor division in the place of C's, which equals it wherever it stands."""
    return _TruncRemover()(expr)
