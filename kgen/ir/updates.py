"""Updates: assignments ``x = x + ...``, which may run in any order, as with other operations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import pymbolic.primitives as p

from kgen.ir.expr import Expr, flatten, walk
from kgen.ir.instruction import Assignment, InstructionBase

__all__ = ["NEUTRAL", "Update", "besides", "operands_of", "update_of"]

#: Operations in which operands may be grouped and ordered in any way, with neutral elements.
NEUTRAL: Final[Mapping[type, Any]] = {
    p.Sum: 0,
    p.Product: 1,
    p.Max: None,
    p.Min: None,
    p.LogicalAnd: True,
    p.LogicalOr: False,
    p.BitwiseAnd: -1,
    p.BitwiseOr: 0,
    p.BitwiseXor: 0,
}
_EXTREMES: Final = {"min": p.Min, "fmin": p.Min, "max": p.Max, "fmax": p.Max}


class Update(NamedTuple):
    """The operation of an update, and the operands that do not have the old value."""

    operation: type
    operands: tuple[Expr, ...]


def operands_of(expr: Expr) -> tuple[type | None, tuple[Expr, ...]]:
    """Return the operation of an expression if it is one of :data:`NEUTRAL`, and its operands."""
    if isinstance(expr, p.Call) and isinstance(expr.function, p.Variable):
        kind = _EXTREMES.get(expr.function.name)
        return (kind, expr.parameters) if kind else (None, ())
    if type(expr) in NEUTRAL:
        return type(expr), expr.children
    return None, ()


def besides(operands: tuple[Expr, ...], place: Expr) -> tuple[Expr, ...] | None:
    """Return the operands except *place*, if it is exactly one of them, else ``None``.

    >>> x, y = p.Variable("x"), p.Variable("y")
    >>> besides((x, y, 1), x), besides((x, x), x), besides((y, 1), x)
    ((Variable('y'), 1), None, None)
    """
    rest = tuple(operand for operand in operands if operand != place)
    return rest if len(rest) == len(operands) - 1 else None


def update_of(insn: InstructionBase) -> Update | None:
    """Return how an assignment updates a variable or element, if it does nothing else with it.

    Nested sums are one, and so are nested products and others. Other elements of the same array may
    be among the operands.

    >>> import kgen as lp
    >>> unit = lp.make_kernel("{ [i]: 0<=i<n }", ["a[i] = 2 + (a[i] + i)", "b[i] = 2*i"])
    >>> [update_of(insn) for insn in unit.default_entrypoint.instructions]
    [Update(operation=<class 'pymbolic.primitives.Sum'>, operands=(2, Variable('i'))), None]
    """
    if not isinstance(insn, Assignment):
        return None
    kind, operands = operands_of(insn.expression)
    if kind is None:
        return None
    if isinstance(insn.expression, kind):
        operands = flatten(kind, insn.expression)
    rest = besides(operands, insn.assignee)
    return None if rest is None or insn.assignee in walk(*rest) else Update(kind, rest)
