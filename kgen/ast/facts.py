"""Facts known at a point of the code tree: assumptions, hardware axes, enclosing conditions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

import pymbolic.primitives as p
from pymbolic.mapper import UnsupportedExpressionError
from pymbolic.mapper.evaluator import EvaluationMapper, UnknownVariableError

from kgen.analysis.instances import axis_name
from kgen.ast.nodes import For, If, Let
from kgen.errors import ExpressionToAffineConversionError
from kgen.ir.expr import Expr, IdentityMapper, variable_names
from kgen.ir.sets.dims import Set, param_names, param_values, params_space
from kgen.ir.sets.quasi_affine import set_from_condition

__all__ = ["Facts", "params_where", "value_at"]

#: Values of parameters, hardware axes and loop variables, by their names in sets.
_Point: TypeAlias = dict[str, int]


class Facts:
    """The facts at a point: the root's facts and the conditions around it.

    isl is only queried if no *witness* decides. A witness is a point where all facts are true:
    a condition that is false there does not follow. isl gives one with each of its answers,
    which may also be valid elsewhere in the tree.
    """

    def __init__(
        self,
        known: Set | Callable[[], Set] | None,
        above: Facts | None = None,
        conditions: tuple[Expr, ...] = (),
    ) -> None:
        self._known = known
        self._above = above
        self._conditions = conditions
        self._proved: set[Expr] = set()
        self._witnesses: list[_Point] = []
        self._taken_over = 0
        #: Where conditions are true, for all points in the tree.
        self._sets: dict[Expr, Set | None] = {} if above is None else above._sets

    def with_(self, *conditions: Expr) -> Facts:
        """Return the facts below *conditions*."""
        return Facts(None, self, conditions) if conditions else self

    def inside(self, node: For | If | Let) -> Facts:
        """Return the facts in the body of a node: bounds of a loop, a condition, or a value."""
        match node:
            case For():
                index = p.Variable(node.iname)
                below = p.Comparison(index, "<", node.stop)
                return self.with_(p.Comparison(index, ">=", node.first), below)
            case If():
                return self.with_(node.condition)
            case Let():
                return self.with_(p.Comparison(p.Variable(node.name), "==", node.value))

    def imply(self, condition: Expr) -> bool:
        """Tell whether *condition* is proved."""
        if self._is_proved(condition):
            return True
        if any(value_at(condition, point) is False for point in self._points()):
            return False
        parts = condition.children if isinstance(condition, p.LogicalOr) else (condition,)
        ways = [way for part in parts if (way := self._where(part)) is not None]
        if len(ways) < len(parts) or self._has_point(self._outside(ways)):
            return False
        self._proved.add(condition)
        return True

    def _outside(self, ways: Iterable[Set]) -> Set:
        """Return the known points that are in none of *ways*.

        A way that is true nowhere here is skipped, because it would only split the rest.
        """
        known = left = self._set()
        for way in ways:
            if not way.is_disjoint(known):
                left = left.subtract(way)
        return left

    def decides(self, condition: Expr) -> bool:
        """Tell whether *condition* is affine, so that facts can imply it."""
        return self._where(condition) is not None

    def are_contradictory(self) -> bool:
        """Tell whether the point is unreachable."""
        return not self._points() and not self._has_point(self._set())

    def _is_proved(self, condition: Expr) -> bool:
        above = self._above
        return condition in self._proved or (above is not None and above._is_proved(condition))

    def _has_point(self, places: Set) -> bool:
        """Tell whether a part of the known set is nonempty; keep a point of it as a witness."""
        point = places.sample_point()
        if point.is_void():
            return False
        self._keep(param_values(point, param_names(places)))
        return True

    def _keep(self, point: _Point) -> None:
        known = param_names(self._set())
        self._witnesses.append({name: point[name] for name in known})
        if self._above is not None:
            self._above._keep(point)
            self._taken_over += 1

    def _points(self) -> list[_Point]:
        """Return the witnesses so far, and the parent's that satisfy the conditions."""
        if self._above is not None:
            points = self._above._points()
            for point in points[self._taken_over :]:
                extended = _extended(point, self._conditions)
                if extended is not None:
                    self._witnesses.append(extended)
            self._taken_over = len(points)
        return self._witnesses

    def _where(self, condition: Expr) -> Set | None:
        if condition not in self._sets:
            self._sets[condition] = params_where(condition)
        return self._sets[condition]

    def _set(self) -> Set:
        if self._known is None:
            assert self._above is not None
            known = self._above._set()
            for condition in self._conditions:
                holds = self._where(condition)
                if holds is not None:
                    known = known.intersect(holds)
            self._known = known
        elif not isinstance(self._known, Set):
            self._known = self._known()
        return self._known


def params_where(condition: Expr) -> Set | None:
    """Return where *condition* is true; ``None`` if it is not affine."""
    named = _AxisNamer()(condition)
    names = variable_names(named)
    space = params_space(names)
    try:
        return set_from_condition(space.set_from_params(), named).params()
    except ExpressionToAffineConversionError:
        return None


class _AxisNamer(IdentityMapper):
    """Replace hardware axes by isl's parameters."""

    def map_group_hardware_axis_index(self, expr: Expr, *args: object) -> Expr:
        return p.Variable(axis_name(expr))

    map_local_hardware_axis_index = map_group_hardware_axis_index


class _Evaluator(EvaluationMapper[Any]):
    """Evaluates affine expressions at a point; truncating division counts as floor division."""

    map_trunc_quotient = EvaluationMapper.map_floor_div
    map_trunc_remainder = EvaluationMapper.map_remainder

    def map_group_hardware_axis_index(self, expr: Expr) -> Any:
        return self.context[axis_name(expr)]

    map_local_hardware_axis_index = map_group_hardware_axis_index

    map_quotient = map_power = EvaluationMapper.handle_unsupported_expression
    map_left_shift = map_right_shift = map_bitwise_not = map_quotient
    map_bitwise_and = map_bitwise_or = map_bitwise_xor = map_quotient


def value_at(expr: Expr, point: Mapping[str, int]) -> Any:
    """Return the value of *expr*; ``None`` if *point* does not determine it."""
    try:
        return _Evaluator(point)(expr)
    except (KeyError, UnknownVariableError, UnsupportedExpressionError, ZeroDivisionError):
        return None


def _extended(point: _Point, conditions: tuple[Expr, ...]) -> _Point | None:
    """Return *point* with the variables that the conditions define, if all conditions are true."""
    for condition in conditions:
        if (
            isinstance(condition, p.Comparison)
            and isinstance(condition.left, p.Variable)
            and condition.operator in ("==", ">=")
            and condition.left.name not in point
        ):
            value = value_at(condition.right, point)
            if value is None:
                return None
            point = {**point, condition.left.name: value}
        elif not value_at(condition, point):
            return None
    return point
