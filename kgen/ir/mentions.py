"""The names in an expression: free variables, functions, subscripts, bound loop variables."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import pymbolic.primitives as p

from kgen.ir.data import SubstitutionRule
from kgen.ir.expr import (
    Expr,
    IdentityMapper,
    LinearSubscript,
    Reduction,
    SubArrayRef,
    TaggedVariable,
    TypedLiteral,
)
from kgen.ir.reductions import REDUCTIONS

__all__ = ["POSITIONS", "Mentions", "get_dependencies", "mentions_of", "resolve_reductions"]

#: Functions of the position of an element, which do not read it.
POSITIONS: Final = frozenset(("indexof", "indexof_vec"))


@dataclass(slots=True)
class Mentions:
    """Names in order of appearance (dicts serve as ordered sets).

    ``variables`` are the free ones: the loop variables of a reduction count only outside
    it. ``ranks`` are the numbers of subscripts with which each array occurs; 0 without
    subscripts, -1 for a linear subscript.

    A use of one of *rules* represents the names in the rule, through all levels: a variable that
    is free in a rule is not free in a reduction over it.
    """

    variables: dict[str, None] = field(default_factory=dict)
    functions: dict[str, None] = field(default_factory=dict)
    ranks: dict[tuple[str, int], None] = field(default_factory=dict)
    reduced: dict[str, None] = field(default_factory=dict)
    swept: dict[str, None] = field(default_factory=dict)
    #: all nodes except sums, products, calls, variables and numbers; the last ones come first
    nodes: list[p.ExpressionNode] = field(default_factory=list)
    rules: Mapping[str, SubstitutionRule] = field(default_factory=dict)
    #: the names in each rule, computed on demand
    _of_rules: dict[str, Mentions] = field(default_factory=dict)

    def add(self, *exprs: Expr) -> Mentions:
        """Add the names in *exprs*; returns this."""
        stack: list[Any] = list(exprs)
        while stack:
            expr = stack.pop()
            kind = type(expr)
            if kind is p.Variable or kind is TaggedVariable:
                if expr.name in self.rules:
                    self._add_rule(expr.name)
                    continue
                self.variables[expr.name] = None
                self.ranks[expr.name, 0] = None
            elif kind is int or kind is float or kind is TypedLiteral:
                continue
            elif kind is p.Subscript or kind is LinearSubscript:
                self._add_subscript(expr, stack)
            elif kind is p.Sum or kind is p.Product:
                stack.extend(expr.children)
            elif kind is p.Call or kind is p.CallWithKwargs:
                self._add_call(expr, stack)
            elif kind is tuple:
                stack.extend(expr)
            elif isinstance(expr, p.ExpressionNode):
                self._add_node(expr, stack)
        return self

    def has(self, *kinds: type[p.ExpressionNode]) -> bool:
        """Tell whether a node of one of the given types is among the :attr:`nodes`."""
        return any(isinstance(node, kinds) for node in self.nodes)

    def _add_node(self, expr: p.ExpressionNode, stack: list[Any]) -> None:
        self.nodes.append(expr)
        if isinstance(expr, Reduction):
            self.reduced.update(dict.fromkeys(expr.inames))
            self.merge(self._inside(*expr.exprs), bound=expr.inames)
        elif isinstance(expr, SubArrayRef):
            swept = tuple(v.name for v in expr.swept_inames)
            self.swept.update(dict.fromkeys(swept))
            self.merge(self._inside(expr.subscript), bound=swept)
        else:
            fields = dataclasses.fields(expr)  # type: ignore[arg-type]
            stack.extend(getattr(expr, field.name) for field in fields)

    def _add_subscript(self, expr: p.Subscript | LinearSubscript, stack: list[Any]) -> None:
        self.nodes.append(expr)
        is_linear = isinstance(expr, LinearSubscript)
        array = expr.aggregate
        index = (expr.index,) if is_linear else expr.index_tuple  # type: ignore[union-attr]
        if isinstance(array, p.Variable):
            self.variables[array.name] = None
            self.ranks[array.name, -1 if is_linear else len(index)] = None
        else:
            stack.append(array)
        stack.extend(index)

    def _add_call(self, expr: p.Call | p.CallWithKwargs, stack: list[Any]) -> None:
        if isinstance(expr.function, p.Variable):
            if expr.function.name in self.rules:
                self._add_rule(expr.function.name)
            else:
                self.functions[expr.function.name] = None
            if expr.function.name in POSITIONS:  # which read no element
                self._add_positions(expr, stack)
                return
        stack.extend(expr.parameters)
        if isinstance(expr, p.CallWithKwargs):
            stack.extend(expr.kw_parameters.values())

    def _add_positions(self, expr: p.Call | p.CallWithKwargs, stack: list[Any]) -> None:
        for element in expr.parameters:
            stack.extend(element.index_tuple if isinstance(element, p.Subscript) else (element,))

    def merge(self, other: Mentions, bound: Iterable[str] = ()) -> None:
        """Add the names of *other*, except the variables *bound*."""
        for name in other.variables:
            if name not in bound:
                self.variables[name] = None
        for name, rank in other.ranks:
            if name not in bound:
                self.ranks[name, rank] = None
        self.functions.update(other.functions)
        self.reduced.update(other.reduced)
        self.swept.update(other.swept)
        self.nodes += other.nodes

    def _inside(self, *exprs: Expr) -> Mentions:
        """Return the names in *exprs*, with the same rules."""
        return Mentions(rules=self.rules, _of_rules=self._of_rules).add(*exprs)

    def _add_rule(self, name: str) -> None:
        found = self._of_rules.get(name)
        rule = self.rules[name]
        if found is None:
            self._of_rules[name] = Mentions()  # for rules that use each other cyclically
            found = self._of_rules[name] = self._inside(rule.expression)
        self.merge(found, bound=rule.arguments)


def mentions_of(*exprs: Expr, rules: Mapping[str, SubstitutionRule] | None = None) -> Mentions:
    """Return the names in *exprs*; uses of *rules* represent the names in the rules.

    >>> from kgen.ir.language.expressions import parse
    >>> sorted(mentions_of(parse("sum(k, a[i,k]) + f(n)")).variables)
    ['a', 'i', 'n']
    """
    return Mentions(rules=rules or {}).add(*exprs)


def get_dependencies(expr: Expr) -> frozenset[str]:
    """Return the variables that an expression depends on.

    These exclude functions that it calls, and the loop variables of its reductions.

    >>> from kgen.symbolic import parse
    >>> sorted(get_dependencies(parse("sum(k, a[i,k]) + f(n)")))
    ['a', 'i', 'n']
    """
    return frozenset(mentions_of(expr).variables)


# -- max(i, a[i]) ---------------------------------------------------------------------


def resolve_reductions(expr: Expr, inames: Iterable[str]) -> Expr:
    """Turn calls such as ``max(i, a[i])`` into reductions if *i* is one of *inames*.

    A call is a reduction if nothing outside it depends on *i*, and no reduction around it runs
    over *i*; otherwise, ``max`` and ``min`` are functions of two values.
    """
    candidates = frozenset(inames)
    if not candidates:
        return expr
    first = _ReductionResolver(candidates)
    resolved = first(expr)
    if not first.found:
        return expr
    # a loop variable that also occurs outside the reductions is not theirs
    outside = candidates & set(mentions_of(resolved).variables)
    return _ReductionResolver(candidates - outside)(expr) if outside else resolved


class _ReductionResolver(IdentityMapper):
    def __init__(self, inames: frozenset[str]) -> None:
        super().__init__()
        self.inames = inames
        self.found = False

    def map_call(self, expr: p.Call, *args: Any) -> Expr:
        operands = expr.parameters
        operation = (
            REDUCTIONS.get(expr.function.name) if isinstance(expr.function, p.Variable) else None
        )
        if operation is not None and len(operands) == operation.arg_count + 1:
            names = self._names(operands[0])
            if names:
                self.found = True
                parts = tuple(map(_ReductionResolver(self.inames - set(names)), operands[1:]))
                return Reduction(operation, names, parts if len(parts) > 1 else parts[0])
        return p.Call(expr.function, tuple(self.rec(part) for part in operands))

    def _names(self, expr: Expr) -> tuple[str, ...]:
        parts = expr if isinstance(expr, tuple) else (expr,)
        names = tuple(v.name for v in parts if type(v) is p.Variable and v.name in self.inames)
        return names if len(names) == len(parts) else ()

    def map_reduction(self, expr: Reduction, *args: Any) -> Expr:
        inner = _ReductionResolver(self.inames - set(expr.inames))
        changed = IdentityMapper.map_reduction(inner, expr)
        self.found = self.found or inner.found
        return changed
