"""Loops over boxes, whose bounds are generated without isl's AST builder."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

import pymbolic.primitives as p

from kgen.ast.nodes import For, Node, Run
from kgen.ir.affine import LinearForm
from kgen.ir.expr import Expr
from kgen.ir.sets.dims import Set, n_constraints, n_dims, param_names
from kgen.ir.sets.domain import ConstraintRows
from kgen.ir.types import INT32
from kgen.schedule.to_isl import axis_from_name, loop_name

__all__ = ["loops_over_box"]

#: The coefficients of parameters, and a constant.
_Sum: TypeAlias = tuple[int, ...]


def loops_over_box(domain: Set, context: Set) -> Node | None:
    """Return the loops around ``S0`` over a box; ``None`` if isl must generate them.

    A box has one lower and one upper bound in each dimension, which depend only on parameters:
    ``{ S0[.x0] : 0 <= .x0 < n }`` is ``for (.x0 = 0; .x0 < n; ++.x0) S0``. isl's AST builder
    takes ten times as long for that. Its result differs if *context* has equations, or
    never allows a second iteration.
    """
    parts = domain.get_basic_sets()
    if len(parts) != 1 or n_constraints(parts[0]) != 2 * n_dims(parts[0]):
        return None
    rows = ConstraintRows.of(parts[0])
    ends = _ends(rows)
    if ends is None or not context.affine_hull().plain_is_universe():
        return None
    if _with_second_iterations(rows.params, ends).is_disjoint(context):
        return None
    node: Node = Run("S0", {})
    columns = _columns(rows.params, ends, param_names(context))
    for axis, (low, high) in reversed([*enumerate(ends)]):
        first, stop = _expr(columns, low, -1, 0), _expr(columns, high, 1, 1)
        node = For(loop_name(axis), INT32, first, stop, 1, node)
    return node


def _ends(rows: ConstraintRows) -> list[tuple[_Sum, _Sum]] | None:
    """Return ``-low`` and ``high`` of each dimension, or ``None`` if it is not a box."""
    first, axes = len(rows.params), range(len(rows.dims))
    bounds = {row[first:-1]: (*row[:first], row[-1]) for row in rows.inequalities}
    ends: list[tuple[_Sum, _Sum]] = []
    for axis in axes:
        low = bounds.get(tuple(int(at == axis) for at in axes))
        high = bounds.get(tuple(-int(at == axis) for at in axes))
        if low is None or high is None:
            return None
        ends.append((low, high))
    return ends


def _with_second_iterations(params: tuple[str, ...], ends: list[tuple[_Sum, _Sum]]) -> Set:
    """Return where the last iteration of each loop comes after its first one."""
    lengths = (map(sum, zip(low, high, strict=True)) for low, high in ends)
    rows = tuple((*factors, constant - 1) for *factors, constant in lengths)
    return ConstraintRows(params, (), (), rows, 0).make().params().to_set()


def _columns(
    params: tuple[str, ...], ends: list[tuple[_Sum, _Sum]], known: Iterable[str]
) -> list[tuple[int, Expr]]:
    """Return parameters and their columns in sums, in isl's output order.

    First the *known* ones, then the others in order of occurrence, from the outside in.
    Some represent the index on a hardware axis.
    """
    of_bounds = (
        name for both in ends for name, *factors in zip(params, *both, strict=False) if any(factors)
    )
    order = dict.fromkeys((*known, *of_bounds))
    return [
        (params.index(name), axis_from_name(name) or p.Variable(name))
        for name in order
        if name in params
    ]


def _expr(columns: list[tuple[int, Expr]], total: _Sum, factor: int, constant: int) -> Expr:
    """Write a multiple of a sum, plus a constant."""
    form = LinearForm()
    form.constant = factor * total[-1] + constant
    for at, parameter in columns:
        form.add(parameter, factor * total[at])
    return form.to_expr()
