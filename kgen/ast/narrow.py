"""Loops over work-items with conditions as bounds, and without strides."""

from __future__ import annotations

from dataclasses import dataclass

import pymbolic.primitives as p

from kgen.ast.expr import conjunction, conjuncts, minimum
from kgen.ast.nodes import For, If, Node
from kgen.ast.unroll import bind
from kgen.ir.affine import linear_form, simplify
from kgen.ir.expr import Expr, TruncRemainder, is_constant, minus, variable_names
from kgen.ir.fields import replace

__all__ = ["narrowed"]

_FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


def narrowed(loop: For, *, is_alike: bool) -> Node:
    """Return a loop over work-items whose bounds contain the conditions on its whole body.

    *is_alike*: no work-item has its own values in the body.

    ::

        for lid0 = 0 .. 16                       for lid0 = 0 .. min(16, n + -16*gid(0))
          if 16*gid(0) + lid0 < n         =>       S(lid0)
            S(lid0)

        for lid0 = 0 .. 16                       for k = 0 .. 50
          for k = lid0 .. 50 by 16        =>       S(k)
            S(k)
    """
    if isinstance(loop.body, If) and loop.body.orelse is None and not loop.body.reads_data:
        return _without_condition(loop, loop.body, is_alike=is_alike)
    if is_alike and isinstance(loop.body, For):
        return _without_strides(loop, loop.body)
    return loop


@dataclass
class _Bounds:
    """The bounds of a loop: the maximum of *first*, the minimum of *stop*."""

    first: list[Expr]
    stop: list[Expr]

    def take(self, name: str, condition: Expr) -> bool:
        """Tell whether a condition is a bound of the loop over *name*, and record it."""
        if not isinstance(condition, p.Comparison):
            return False
        left: Expr = condition.left
        right: Expr = condition.right
        difference = linear_form(minus(left, right))
        operator = str(condition.operator)
        factor = next((f for f, atom in difference.terms if atom == p.Variable(name)), 0)
        rest = simplify(p.Sum((difference.to_expr(), p.Product((-factor, p.Variable(name))))))
        if abs(factor) != 1 or operator == "!=" or name in variable_names(rest):
            return False
        if factor < 0:
            operator = _FLIPPED.get(operator, operator)
        limit = simplify(p.Product((-factor, rest)))
        if operator == "==":
            self.first.append(limit)
            self.stop.append(simplify(p.Sum((limit, 1))))
            return True
        if operator[0] == "<":  # name < limit, or name <= limit
            self.stop.append(simplify(p.Sum((limit, len(operator) - 1))))
        else:
            self.first.append(simplify(p.Sum((limit, 2 - len(operator)))))
        return True


def _without_condition(loop: For, guard: If, *, is_alike: bool) -> Node:
    bounds = _Bounds([loop.first], [loop.stop])
    around: list[Expr] = []
    inside: list[Expr] = []
    for part in conjuncts(guard.condition):
        if loop.iname not in variable_names(part):
            around.append(part)
        elif not bounds.take(loop.iname, part):
            inside.append(part)
    body = replace(guard, condition=conjunction(inside)) if inside else guard.body
    first, stop = _maximum(bounds.first), minimum(bounds.stop)
    bounded = replace(loop, first=first, stop=stop, body=body)
    result = bounded if inside else narrowed(bounded, is_alike=is_alike)
    return replace(guard, condition=conjunction(around), body=result) if around else result


def _maximum(values: list[Expr]) -> Expr:
    constants = [value for value in values if is_constant(value)]
    others = [value for value in dict.fromkeys(values) if not is_constant(value)]
    found = (max(constants), *others) if constants else tuple(others)
    return found[0] if len(found) == 1 else p.Max(tuple(found))


def _without_strides(items: For, loop: For) -> Node:
    """Fuse loops of which the inner one starts at each work-item, with their number as stride."""
    item, first = p.Variable(items.iname), loop.first
    start = simplify(minus(first, item))
    is_cyclic = items.first == 0 and loop.step == items.stop
    if not is_cyclic or items.iname in variable_names(start, loop.stop):
        return items
    number = simplify(minus(p.Variable(loop.iname), start))
    body = bind(loop.body, items.iname, TruncRemainder(number, loop.step))
    return replace(loop, first=start, step=1, body=body)
