"""isl AST expressions as pymbolic ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import islpy as isl
import pymbolic.primitives as p

from kgen.ast.islast import KIND, OP
from kgen.ir.affine import linear_form, move_to_sides, simplify
from kgen.ir.expr import Expr, TruncQuotient, TruncRemainder, is_constant, minus, variable_names

_COMPARISONS = {OP.eq: "==", OP.le: "<=", OP.lt: "<", OP.ge: ">=", OP.gt: ">"}
_FLIPPED = {"==": "!=", "!=": "==", "<=": ">", ">": "<=", "<": ">=", ">=": "<"}


def _arithmetic() -> Mapping[Any, Callable[[list[Expr]], Expr]]:
    return {
        OP.add: lambda a: p.Sum(tuple(a)),
        OP.sub: lambda a: minus(a[0], a[1]),
        OP.mul: lambda a: p.Product(tuple(a)),
        OP.minus: lambda a: p.Product((-1, a[0])),
        OP.max: lambda a: p.Max(tuple(a)),
        OP.min: lambda a: p.Min(tuple(a)),
        # isl proved div exact, and the operands of pdiv non-negative
        OP.div: lambda a: TruncQuotient(simplify(a[0]), a[1]),
        OP.pdiv_q: lambda a: TruncQuotient(simplify(a[0]), a[1]),
        OP.pdiv_r: lambda a: TruncRemainder(simplify(a[0]), a[1]),
        OP.zdiv_r: lambda a: TruncRemainder(simplify(a[0]), a[1]),
        OP.fdiv_q: lambda a: p.FloorDiv(simplify(a[0]), a[1]),
    }


_ARITHMETIC = _arithmetic()


class ExprReader:
    """Converts AST expressions; *names* maps each identifier to its expression."""

    def __init__(self, names: Callable[[str], Expr]) -> None:
        self.names = names

    def value(self, expr: isl.AstExpr) -> Expr:
        """Convert an integer expression to linear normal form."""
        raw = self._raw(expr)
        return raw if is_constant(raw) or isinstance(raw, p.Variable) else simplify(raw)

    def condition(self, expr: isl.AstExpr) -> Expr:
        """Convert a condition; comparisons get only positive terms on each side.

        The result is ``True`` or ``False`` if it is decided.
        """
        kind = expr.get_type()
        if kind == KIND.int:
            return bool(expr.get_val().to_python())
        op = expr.op_get_type()
        args = [expr.op_get_arg(k) for k in range(expr.op_get_n_arg())]
        if op in _COMPARISONS:
            return move_to_sides(self._raw(args[0]), _COMPARISONS[op], self._raw(args[1]))
        if op in (OP.and_, OP.and_then):
            return conjunction([self.condition(arg) for arg in args])
        if op in (OP.or_, OP.or_else):
            return disjunction([self.condition(arg) for arg in args])
        if op in (OP.cond, OP.select):
            test, then, other = (self.condition(arg) for arg in args)
            return disjunction([conjunction([test, then]), conjunction([negation(test), other])])
        raise AssertionError(f"isl gave a condition of type {op}")

    def _raw(self, expr: isl.AstExpr) -> Expr:
        kind = expr.get_type()
        if kind == KIND.id:
            return self.names(expr.get_id().get_name())
        if kind == KIND.int:
            return int(expr.get_val().to_python())
        op = expr.op_get_type()
        args = [expr.op_get_arg(k) for k in range(expr.op_get_n_arg())]
        if op in (OP.cond, OP.select):
            return p.If(self.condition(args[0]), self._raw(args[1]), self._raw(args[2]))
        make = _ARITHMETIC.get(op)
        if make is None:
            raise AssertionError(f"isl gave an expression of type {op}")
        return make([self._raw(arg) for arg in args])


def conjunction(parts: list[Expr]) -> Expr:
    """Make ``a and b and ...``, flattening nested ones and dropping decided ones."""
    return _combine(parts, p.LogicalAnd, neutral=True)


def conjuncts(condition: Expr) -> tuple[Expr, ...]:
    """Return the conjuncts of a condition."""
    return condition.children if isinstance(condition, p.LogicalAnd) else (condition,)


def disjunction(parts: list[Expr]) -> Expr:
    """Make ``a or b or ...``; ``a < b or b < a`` is ``a != b``."""
    either = _combine(parts, p.LogicalOr, neutral=False)
    if isinstance(either, p.LogicalOr) and len(either.children) == 2:
        one, other = map(slack_of, either.children)
        if one is not None and other is not None and simplify(p.Sum((one, other))) == -2:
            return move_to_sides(one, "!=", -1)
    return either


def slack_of(condition: Expr) -> Expr | None:
    """Return the sum that is non-negative where an inequality is true."""
    if not isinstance(condition, p.Comparison):
        return None
    left: Expr = condition.left
    right: Expr = condition.right
    op = str(condition.operator)
    if op not in ("<", "<=", ">", ">="):
        return None
    lower, upper = (left, right) if op[0] == "<" else (right, left)
    return p.Sum((minus(upper, lower), 0 if len(op) == 2 else -1))


def _combine(
    parts: list[Expr], kind: type[p.LogicalAnd] | type[p.LogicalOr], *, neutral: bool
) -> Expr:
    opened: list[Expr] = []
    for part in parts:
        if isinstance(part, kind):
            opened.extend(part.children)
        elif isinstance(part, bool):
            if part is not neutral:
                return part
        else:
            opened.append(part)
    unique = tuple(dict.fromkeys(opened))
    if not unique:
        return neutral
    return unique[0] if len(unique) == 1 else kind(unique)


def negation(condition: Expr) -> Expr:
    """Make ``not condition``, pushed into comparisons."""
    match condition:
        case bool():
            return not condition
        case p.Comparison():
            return p.Comparison(condition.left, _FLIPPED[str(condition.operator)], condition.right)
        case p.LogicalNot():
            return condition.child
        case p.LogicalAnd():
            return disjunction([negation(child) for child in condition.children])
        case p.LogicalOr():
            return conjunction([negation(child) for child in condition.children])
    return p.LogicalNot(condition)


def successor(bound: Expr, *, first_is_natural: bool) -> Expr:
    """Turn an inclusive upper bound into an exclusive one.

    ``n - 1`` gives ``n``, ``min(a, b)`` gives ``min(a + 1, b + 1)``, ``e // d`` gives
    ``(e + d) // d``. With a first value >= 0 (*first_is_natural*), C's division can be used for
    the latter: where they differ, both are <= 0 and the loop does not run.

    Bounds with divisions are better than conditions without, ``128*i + lid(0) < n``:
    compilers unroll loops that they can count.
    """
    match bound:
        case p.Min() | p.Max():
            parts = (successor(c, first_is_natural=first_is_natural) for c in bound.children)
            return type(bound)(tuple(parts))
        case p.If():
            return p.If(
                bound.condition,
                successor(bound.then, first_is_natural=first_is_natural),
                successor(bound.else_, first_is_natural=first_is_natural),
            )
        case TruncQuotient() if is_constant(bound.denominator):
            top = simplify(p.Sum((bound.numerator, bound.denominator)))
            return TruncQuotient(top, bound.denominator)
    return as_bound(simplify(p.Sum((bound, 1))), first_is_natural=first_is_natural)


def as_bound(bound: Expr, *, first_is_natural: bool) -> Expr:
    """Write an exclusive upper bound with C's division, if possible."""
    if isinstance(bound, p.FloorDiv) and is_constant(bound.denominator) and first_is_natural:
        return TruncQuotient(bound.numerator, bound.denominator)
    return bound


def compare_with_bound(value: Expr, op: str, bound: Expr) -> Expr:
    """Compare with a loop's bound, without its division.

    ``4*io + 1 < (n - l + 31) // 32`` becomes ``128*io + 32 + l < n``. C's division in a bound
    represents the floor (see :func:`successor`).
    """
    form = linear_form(minus(value, bound))
    quotients = [
        atom
        for coefficient, atom in form.terms
        if coefficient == -1 and isinstance(atom, p.FloorDiv | TruncQuotient)
    ]
    if len(quotients) == 1 and _is_positive(quotients[0].denominator):
        (quotient,) = quotients
        # rest < numerator // denominator is denominator * (rest + 1) <= numerator
        rest = p.Sum((minus(value, bound), quotient))
        above = rest if op == ">=" else p.Sum((rest, 1))
        least = p.Product((quotient.denominator, above))
        if op == "<":
            return move_to_sides(least, "<=", quotient.numerator)
        return move_to_sides(p.Sum((least, quotient.denominator)), ">", quotient.numerator)
    return move_to_sides(value, op, bound)


def _is_positive(number: Expr) -> bool:
    return isinstance(number, int) and number > 0


def parts_of_bound(kind: type[p.Min] | type[p.Max], bound: Expr) -> tuple[Expr, ...]:
    """Return the expressions of which *bound* is the minimum or maximum.

    >>> parts_of_bound(p.Min, p.Min((16, p.Variable("n"))))
    (16, Variable('n'))
    """
    return bound.children if isinstance(bound, kind) else (bound,)


def minimum(values: list[Expr]) -> Expr:
    """Make the minimum of expressions, constants folded."""
    constants = [value for value in values if is_constant(value)]
    rest = tuple(dict.fromkeys(value for value in values if not is_constant(value)))
    if constants:
        rest = (min(int(value) for value in constants), *rest)
    return rest[0] if len(rest) == 1 else p.Min(rest)


def bound_by(condition: Expr, name: str) -> tuple[Expr, int] | None:
    """Return ``a`` and ``c`` if *condition* is ``name < a // c``, and ``c`` is positive."""
    if not isinstance(condition, p.Comparison) or condition.operator not in ("<", "<=", ">", ">="):
        return None
    sides: tuple[Any, Any] = (condition.right, condition.left)
    above, below = sides if condition.operator[0] == "<" else sides[::-1]
    slack = minus(above, below)
    factors = {atom: factor for factor, atom in linear_form(slack).terms}
    factor = -factors.pop(p.Variable(name), 0)
    if factor <= 0 or name in variable_names(*factors):
        return None
    least = factor if len(condition.operator) == 2 else factor - 1
    return simplify(p.Sum((slack, p.Product((factor, p.Variable(name))), least))), factor
