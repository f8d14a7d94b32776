"""Loops over boxes, whose bounds are written without isl's AST builder."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

import pymbolic.primitives as p

from kgen.ast.nodes import For, Node, Run
from kgen.ir.affine import LinearForm
from kgen.ir.expr import Expr
from kgen.ir.sets.dims import Set, param_names
from kgen.ir.sets.domain import ConstraintRows
from kgen.ir.types import INT32
from kgen.schedule.to_isl import axis_from_name, loop_name

__all__ = ["loops_over_box"]

#: The factors of parameters, and a constant.
_Sum: TypeAlias = tuple[int, ...]


def loops_over_box(domain: Set, context: Set) -> Node | None:
    """Return the loops around ``S0`` over a box; ``None`` where isl has to be asked for them.

    A box has one lower and one upper bound in each dimension, by the parameters alone:
    ``{ S0[.x0] : 0 <= .x0 < n }`` is ``for (.x0 = 0; .x0 < n; ++.x0) S0``. isl's AST builder
    takes ten times as long for that. It finds something else where *context* has equations,
    does not imply what the domain says of the parameters, or never allows a second iteration.
    """
    parts = domain.get_basic_sets()
    rows = ConstraintRows.of(parts[0]) if len(parts) == 1 else None
    sums = None if rows is None else _sums_of(rows)
    if rows is None or sums is None or not context.affine_hull().plain_is_universe():
        return None
    given, ends = sums
    lengths = [tuple(map(sum, zip(*both, strict=True))) for both in ends]
    if _where(rows.params, lengths, 1).is_disjoint(context):
        return None
    if given and not context.is_subset(_where(rows.params, given, 0)):
        return None
    node: Node = Run("S0", {})
    columns = _columns(rows.params, ends, param_names(context))
    for axis, (low, high) in reversed([*enumerate(ends)]):
        first, stop = _expr(columns, low, -1, 0), _expr(columns, high, 1, 1)
        node = For(loop_name(axis), INT32, first, stop, 1, node)
    return node


def _sums_of(rows: ConstraintRows) -> tuple[list[_Sum], list[tuple[_Sum, _Sum]]] | None:
    """Return what of parameters is not negative, and ``-low`` and ``high`` of each dimension."""
    n_params, n_dims = len(rows.params), len(rows.dims)
    given: list[_Sum] = []
    bounds: dict[tuple[int, int], _Sum] = {}
    for row in rows.inequalities:
        factors = [end for end in enumerate(row[n_params:-1]) if end[1]]
        total = (*row[:n_params], row[-1])
        if not factors:
            given.append(total)
        elif len(factors) > 1 or bounds.setdefault(factors[0], total) is not total:
            return None
    needed = {(axis, sign) for axis in range(n_dims) for sign in (1, -1)}
    if rows.equalities or rows.n_existential or bounds.keys() != needed:
        return None
    return given, [(bounds[axis, 1], bounds[axis, -1]) for axis in range(n_dims)]


def _where(params: tuple[str, ...], sums: list[_Sum], least: int) -> Set:
    """Return where sums of parameters have a least value."""
    rows = tuple((*total[:-1], total[-1] - least) for total in sums)
    return ConstraintRows(params, (), (), rows, 0).make().params().to_set()


def _columns(
    params: tuple[str, ...], ends: list[tuple[_Sum, _Sum]], known: Iterable[str]
) -> list[tuple[int, Expr]]:
    """Return parameters and their places in sums, in the order in which isl writes them.

    First are those that are *known*, then the others as they come up, from the outside in.
    Some stand for the index on a hardware axis.
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
