"""Expanding the uses of substitution rules."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import pymbolic.primitives as p

from kgen.ir.data import SubstitutionRule
from kgen.ir.expr import Expr, IdentityMapper

__all__ = ["RuleExpander"]


class RuleExpander(IdentityMapper):
    """Replace the uses of *rules*; the stack in ``rec(expr, stack)`` has the enclosing rules.

    >>> from kgen.ir.language.expressions import parse
    >>> square = SubstitutionRule("f", ("x",), parse("x*x"))
    >>> print(RuleExpander({"f": square}).rec(parse("1 + f(f(i))"), ()))
    1 + i*i*i*i
    """

    def __init__(self, rules: Mapping[str, SubstitutionRule]) -> None:
        super().__init__()
        self.rules = rules

    def map_variable(self, expr: p.Variable, *args: Any) -> Expr:
        return self.use(expr, expr, (), args[0]) if expr.name in self.rules else expr

    map_tagged_variable = map_variable

    def map_call(self, expr: p.Call, *args: Any) -> Expr:
        operands = self.map_tuple(expr.parameters, *args)
        if operands is not expr.parameters:
            expr = dataclasses.replace(expr, parameters=operands)
        function = expr.function
        if isinstance(function, p.Variable) and function.name in self.rules:
            return self.use(expr, function, operands, args[0])
        return expr

    def use(
        self, expr: Expr, name: p.Variable, operands: tuple[Expr, ...], stack: tuple[Any, ...]
    ) -> Expr:
        """Return the expansion of *expr*, a use of the rule *name*.

        Invalid uses stay, for the expansion of the kernel to reject: recursive
        rules, and those with too many or too few operands.
        """
        rule = self.rules[name.name]
        if rule.name in stack or len(operands) != len(rule.arguments):
            return expr
        return self.rec(rule.expand(operands), (*stack, rule.name))
