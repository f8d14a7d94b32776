"""Mappers of loopy that are given functions, rules or candidates, and need no subclass."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pymbolic.mapper as pm
from pymbolic.mapper.unifier import UnidirectionalUnifier as _UnidirectionalUnifier

from kgen.ir.data import SubstitutionRule
from kgen.ir.expansion import RuleExpander
from kgen.ir.expr import Expr, Reduction
from kgen.ir.mappers import IdentityMapper

__all__ = [
    "CallbackMapper",
    "ReductionCallbackMapper",
    "SubstitutionRuleExpander",
    "UnidirectionalUnifier",
]


class CallbackMapper(pm.CallbackMapper):  # type: ignore[type-arg]
    """Map each part of an expression by ``function(expr, mapper, *args)``.

    The function visits the parts of *expr* with ``mapper.fallback_mapper(expr)``.

    >>> from kgen.ir.language.expressions import parse
    >>> def double(expr, mapper):
    ...     return 2*expr if expr == parse("x") else mapper.fallback_mapper(expr)
    >>> print(CallbackMapper(double, IdentityMapper())(parse("sum(k, a[k] + x)")))
    reduce(sum, [k], a[k] + 2*x)
    """

    def __init__(self, function: Callable[..., Any], fallback_mapper: Callable[..., Any]) -> None:
        super().__init__(function, fallback_mapper)  # type: ignore[no-untyped-call]

    def _called(self, expr: Expr, *args: Any, **kwargs: Any) -> Any:
        return self.function(expr, self, *args, **kwargs)

    map_tagged_variable = _called
    map_typed_literal = _called
    map_group_hardware_axis_index = _called
    map_local_hardware_axis_index = _called
    map_trunc_quotient = _called
    map_trunc_remainder = _called
    map_type_cast = _called
    map_reduction = _called
    map_sub_array_ref = _called
    map_linear_subscript = _called


class ReductionCallbackMapper(IdentityMapper):
    """Replace reductions by ``callback(reduction, rec)``; ``None`` visits their operands.

    >>> from kgen.ir.language.expressions import parse
    >>> first = ReductionCallbackMapper(lambda expr, rec: rec(expr.expr))
    >>> print(first(parse("1 + sum(k, a[k] + sum(j, b[j]))")))
    1 + a[k] + b[j]
    """

    def __init__(self, callback: Callable[..., Any]) -> None:
        super().__init__()
        self.callback = callback

    def map_reduction(self, expr: Reduction, *args: Any, **kwargs: Any) -> Expr:
        """Replace a reduction, if the callback does."""
        new = self.callback(expr, self.rec, *args, **kwargs)
        return super().map_reduction(expr, *args, **kwargs) if new is None else new


class SubstitutionRuleExpander:
    """Replace the uses of *rules* in an expression by what the rules stand for.

    >>> from kgen.ir.language.expressions import parse
    >>> square = SubstitutionRule("f", ("x",), parse("x*x"))
    >>> print(SubstitutionRuleExpander({"f": square})(parse("1 + f(a[i])")))
    1 + a[i]*a[i]
    """

    def __init__(self, rules: Mapping[str, SubstitutionRule]) -> None:
        self.rules = rules
        self._expander = RuleExpander(rules)

    def __call__(self, expr: Expr) -> Expr:
        """Return *expr* without uses of the rules."""
        return self._expander.rec(expr, ())

    rec = __call__


class UnidirectionalUnifier(_UnidirectionalUnifier):
    """Find the values of the variables *lhs_mapping_candidates* of a pattern.

    >>> from kgen.ir.language.expressions import parse
    >>> (found,) = UnidirectionalUnifier({"x"})(parse("a[x + 1]"), parse("a[j + 1]"))
    >>> found.lmap
    {'x': Variable('j')}
    """

    def handle_unsupported_expression(self, expr: Expr, other: Expr, urecs: Any) -> Any:
        """Accept only equal nodes of kinds that pymbolic does not know."""
        return urecs if expr == other else []
