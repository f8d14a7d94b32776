"""Simplifying quotients and remainders that are constant, or equal to the dividend."""

from __future__ import annotations

from collections.abc import Mapping

import pymbolic.primitives as p

from kgen.analysis.signs import Signs
from kgen.ast.expr import conjunction, conjuncts, negation
from kgen.ast.nodes import Block, For, If, Let, Node, Run
from kgen.ir.affine import linear_form, move_to_sides, simplify
from kgen.ir.expr import Expr, TruncQuotient, TruncRemainder, minus, same_objects, walk
from kgen.ir.fields import replace
from kgen.ir.sets.interval import Interval
from kgen.ir.stages import DeviceKernel
from kgen.ir.tree import Barrier, children_of, exprs_of, map_children, nodes_in

__all__ = ["fold_divisions"]

_DIVISIONS = (p.FloorDiv, p.Remainder, TruncQuotient, TruncRemainder)
_REMAINDERS = {p.FloorDiv: p.Remainder, TruncQuotient: TruncRemainder}
_PLAIN = (p.Variable, int)

_BELOW, _ABOVE = Interval(None, -1), Interval(1, None)
#: Where the difference of two numbers is if a comparison of them holds.
_PLACES = {
    "<": (_BELOW,),
    ">": (_ABOVE,),
    "<=": (Interval(None, 0),),
    ">=": (Interval(0, None),),
    "==": (Interval(0, 0),),
    "!=": (_BELOW, _ABOVE),
}
_OPPOSITE = {"<": ">=", ">": "<=", "<=": ">", ">=": "<", "==": "!=", "!=": "=="}


def fold_divisions(node: Node, kernel: DeviceKernel) -> Node:
    """Replace divisions by a constant or a simpler expression that variable bounds imply.

    For 120 work-items ::

        if (lid(0) + 200) / 160 < 2 and (lid(0) + 80) / 120 < 1
          s(i=lid(0) % 128)

    becomes ::

        if lid(0) < 40
          s(i=lid(0))
    """
    if not any(_divides(part) for part in nodes_in(node)):
        return node
    divides: dict[int, bool] = {}
    _find(node, divides)
    return _Folder(Signs(kernel).within({}), divides).node(node)


def _find(node: Node, divides: dict[int, bool]) -> bool:
    """Record for each node, by id, whether its subtree has a division; return that for *node*."""
    below = [_find(child, divides) for child in children_of(node)]
    found = divides[id(node)] = any(below) or _divides(node)
    return found


def _divides(node: Node) -> bool:
    return any(map(_has_division, exprs_of(node)))


class _Folder:
    """Folds divisions top-down, with the bounds of loop variables and conditions in *signs*."""

    def __init__(self, signs: Signs, divides: Mapping[int, bool]) -> None:
        self.signs = signs
        self.divides = divides

    def node(self, node: Node) -> Node:
        if not self.divides[id(node)]:
            return node
        match node:
            case For():
                return self._for(node)
            case Let():
                value = self._value(node.value)
                inside = _Folder(self.signs.inside(node.name, value), self.divides)
                return replace(node, value=value, body=inside.node(node.body))
            case If():
                return self._if(node)
            case Run():
                values = {name: self._value(value) for name, value in node.values.items()}
                return replace(node, values=values) if values != node.values else node
            case Barrier():
                return node
        return map_children(node, self.node)

    def _under(self, *conditions: Expr) -> _Folder:
        return _Folder(self.signs.under(*conditions), self.divides)

    def _for(self, loop: For) -> For:
        first, stop, body = self._value(loop.first), self._value(loop.stop), loop.body
        if self.divides[id(body)]:
            body = _Folder(self.signs.inside(loop.iname, first, stop), self.divides).node(body)
        if same_objects((first, stop, body), (loop.first, loop.stop, loop.body)):
            return loop
        return replace(loop, first=first, stop=stop, body=body)

    def _if(self, node: If) -> Node:
        parts = conjuncts(node.condition)
        if not node.reads_data:
            parts = tuple(map(self._condition, parts))
        if False in parts:
            return Block(()) if node.orelse is None else self.node(node.orelse)
        needed = [part for part in parts if part is not True]
        body = self._under(*needed).node(node.body)
        if not needed:
            return body
        condition = conjunction(needed)
        otherwise = self._under(*conjuncts(negation(condition)))
        orelse = None if node.orelse is None else otherwise.node(node.orelse)
        return replace(node, condition=condition, body=body, orelse=orelse)

    def _condition(self, condition: Expr) -> Expr:
        """Return a condition, ``True`` or ``False`` if it is decided."""
        if not isinstance(condition, p.Comparison) or not _has_division(condition):
            return condition
        left, right = self._value(condition.left), self._value(condition.right)
        operator, difference = str(condition.operator), minus(left, right)
        for form in (difference, _with_remainders(difference)):
            bounds = self.signs.interval(form)
            for decided, places in ((True, operator), (False, _OPPOSITE[operator])):
                if any(map(bounds.is_inside, _PLACES[places])):
                    return decided
        return move_to_sides(left, operator, right)

    def _value(self, value: Expr) -> Expr:
        """Return a value with divisions folded; the same object if there are none to fold."""
        if not _has_division(value):
            return value
        folded = simplify(value, None, self.signs.interval)
        return value if folded == value else folded


def _with_remainders(value: Expr) -> Expr:
    """Return an equal expression with closer bounds: ``n - n % 4`` for ``4*(n // 4)``."""
    form = linear_form(value)
    terms: list[Expr] = []
    for coefficient, atom in form.terms:
        if type(atom) in _REMAINDERS and _is_multiple(coefficient, atom.denominator):
            rest = _REMAINDERS[type(atom)](atom.numerator, atom.denominator)
            coefficient //= atom.denominator
            atom = minus(atom.numerator, rest)
        terms.append(p.Product((coefficient, atom)))
    return linear_form(p.Sum((*terms, form.constant))).to_expr()


def _is_multiple(number: int, divisor: Expr) -> bool:
    return isinstance(divisor, int) and divisor > 0 and number % divisor == 0


def _has_division(expr: Expr) -> bool:
    return not isinstance(expr, _PLAIN) and any(isinstance(part, _DIVISIONS) for part in walk(expr))
