"""isl's AST builder, verified: code for every instance, with guards where it is incomplete.

If a stride starts at a quotient of parameters (``i mod 2 = (n // 5) mod 2``), or if
several loops have one value each (``i <= 12*a + 6*b + 3*c + d < i + 3`` in ``i`` and ``d``),
isl 0.28 can take a loop for a single trip and omit iterations; the schedule that it reports
for its leaves reveals this. It can also bound a loop by its own variable. A stride that many loops
share takes it seconds, and it fails for some slabs of slabs.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable
from functools import partial

import islpy as isl
import pymbolic.primitives as p

from kgen.ast.expr import ExprReader, conjunction
from kgen.ast.islast import KIND, NODE, OP, children_of_block
from kgen.errors import ScheduleError
from kgen.ir.expr import Expr, LocalHardwareAxisIndex
from kgen.ir.fields import replace
from kgen.ir.sets.dims import (
    Set,
    coefficient,
    dim_names,
    free_axis,
    free_inner,
    free_outer,
    involved_axes,
    involved_params,
    involves_quotient,
    n_dims,
    n_quotients,
    rows_of,
    to_named,
)
from kgen.ir.sets.effort import answer
from kgen.ir.sets.names import SetName
from kgen.ir.stages import DeviceKernel
from kgen.ir.tree import map_children
from kgen.schedule.to_isl import Nest, Statement, axis_from_name, own_instances, to_isl
from kgen.schedule.tree import Loop, Node

__all__ = ["build_ast", "is_simple"]

#: Strides that more loops share are guards from the start.
MAX_STRIDED_LOOPS = 4

#: The isl budget for a nest in which strides overlap, about a second; beyond it they are guards.
MAX_OPERATIONS = 1_000_000

#: isl was right in 12,000 random nests without a constraint that has so many loops with
#: coefficients beyond 1.
MIN_STEEP_LOOPS = 2


def build_ast(kernel: DeviceKernel, nest: Nest) -> tuple[Nest, isl.AstNode]:
    """Generate the code of a nest with isl; return it with the nest that it is for.

    If isl omits instances, the statements of that nest have a wider domain, and a guard: a domain
    without strides, or else a box. If isl fails to separate slabs, they are not separated.
    """
    try:
        return _build(kernel, nest)
    except isl.Error:
        plain = _without_slabs(nest)
        if plain == nest:
            raise
        return _build(kernel, plain)


def _build(kernel: DeviceKernel, nest: Nest) -> tuple[Nest, isl.AstNode]:
    context = nest.context
    if nest.axes:
        statements = tuple(map(_with_plain_starts, nest.statements))
        nest = replace(nest, statements=statements)
    ctx = isl.DEFAULT_CONTEXT
    before = ctx.get_ast_build_detect_min_max()
    ctx.set_ast_build_detect_min_max(1)
    try:
        strided = [_sharing(s.domain) for s in nest.statements if _has_strides(s.domain)]
        if max(strided, default=0) > MAX_STRIDED_LOOPS:
            nest, strided = _without_strides(nest), []
        if not strided and not _is_hard(nest):
            return nest, isl.AstBuild.from_context(context).node_from_schedule(to_isl(nest))
        for widen in (lambda same: same, _without_strides):
            wider = widen(nest)
            ast = answer(partial(_complete_ast, wider, context), MAX_OPERATIONS)
            if ast is not None:
                return wider, ast
        wider = _in_boxes(nest)
        ast = _complete_ast(wider, context)
        if ast is not None:
            return wider, ast
    finally:
        ctx.set_ast_build_detect_min_max(before)
    raise ScheduleError(
        f"isl leaves out iterations of {', '.join(loop.iname for loop in nest.loops)}",
        kernel=kernel.name,
        hint="split these loops less often, or in another order",
    )


def _complete_ast(nest: Nest, context: Set) -> isl.AstNode | None:
    """Return the code if isl omits nothing, and no loop is bounded by itself."""
    ast, leaves = _ast_and_leaves(nest, context)
    is_right = _is_complete(leaves, nest, context) and not _has_circular_bound(ast)
    return ast if is_right else None


def _has_circular_bound(ast: isl.AstNode) -> bool:
    """Tell whether the bound of a loop contains its own variable."""
    match ast.get_type():
        case NODE.for_:
            iterator = ast.for_get_iterator().get_id().get_name()
            ends = (ast.for_get_init(), *_bounds_in(ast.for_get_cond()))
            is_circular = any(iterator in _names_in(end) for end in ends)
            return is_circular or _has_circular_bound(ast.for_get_body())
        case NODE.if_:
            parts = [ast.if_get_then(), *([ast.if_get_else()] if ast.if_has_else() else [])]
        case NODE.block:
            parts = children_of_block(ast)
        case NODE.mark:
            parts = [ast.mark_get_node()]
        case _:
            parts = []
    return any(map(_has_circular_bound, parts))


def _bounds_in(cond: isl.AstExpr) -> list[isl.AstExpr]:
    """Return the bounds in ``iterator < end``, or in several of these."""
    if cond.op_get_type() in (OP.and_, OP.and_then):
        return [end for k in range(cond.op_get_n_arg()) for end in _bounds_in(cond.op_get_arg(k))]
    return [cond.op_get_arg(1)]


def _names_in(expr: isl.AstExpr) -> set[str]:
    if expr.get_type() == KIND.id:
        return {expr.get_id().get_name()}
    if expr.get_type() != KIND.op:
        return set()
    return set().union(*(_names_in(expr.op_get_arg(k)) for k in range(expr.op_get_n_arg())))


def _ast_and_leaves(nest: Nest, context: Set) -> tuple[isl.AstNode, list[isl.UnionMap]]:
    """Return the code, and for each of its statements the schedule that isl reports."""
    leaves: list[isl.UnionMap] = []
    build = isl.AstBuild.from_context(_without_rounding(context))
    build, keep = build.set_at_each_domain(lambda node, at: _record(leaves, node, at))
    ast = build.node_from_schedule(to_isl(nest))
    del keep
    return ast, leaves


def _without_rounding(context: Set) -> Set:
    """Drop inequalities with quotients, such as ``7*floor((n - 1)/7) >= m``; keep strides.

    With those and strides of loops, isl may divide by zero, which ends the process.
    """
    strides = isl.Set.from_basic_set(context.affine_hull())
    return strides.intersect(context.remove_divs())


def _without_slabs(nest: Nest) -> Nest:
    """Do not separate the first and last iterations of loops."""

    def plain(node: Node) -> Node:
        inside = map_children(node, plain)
        return replace(inside, slabs=(0, 0)) if isinstance(inside, Loop) else inside

    loops = tuple(replace(loop, slabs=(0, 0)) for loop in nest.loops)
    return replace(nest, root=plain(nest.root), loops=loops)


def _record(leaves: list[isl.UnionMap], node: isl.AstNode, build: isl.AstBuild) -> isl.AstNode:
    with contextlib.suppress(isl.Error):  # it has given up; an error in a callback would crash it
        leaves.append(build.get_schedule())
    return node


def is_simple(nest: Nest) -> bool:
    """Tell whether the loops of a nest can be built level by level.

    Each stride involves one loop, none has slabs, and no constraint that isl may get wrong occurs.
    """
    return not _is_hard(nest) and all(
        _sharing(s.domain) <= 1 for s in nest.statements if _has_strides(s.domain)
    )


def _has_strides(domain: Set) -> bool:
    return any(n_quotients(part) for part in domain.get_basic_sets())


def _sharing(domain: Set) -> int:
    """Return the largest number of loops that occur in one stride constraint."""
    return max(
        (len(involved_axes(row)) for row in rows_of(domain) if involves_quotient(row)), default=0
    )


def _is_hard(nest: Nest) -> bool:
    """Tell whether isl may omit instances, even without strides."""
    has_slabs = any(loop.slabs != (0, 0) for loop in nest.loops)
    return has_slabs or any(_is_steep(s.domain) for s in nest.statements)


def _is_steep(domain: Set) -> bool:
    """Tell whether a constraint has several loops with coefficients other than -1, 0 and 1."""
    return n_dims(domain) >= MIN_STEEP_LOOPS and any(
        _steep_loops(row) >= MIN_STEEP_LOOPS for row in rows_of(domain)
    )


def _steep_loops(row: isl.Constraint) -> int:
    one = isl.Val.one(isl.DEFAULT_CONTEXT)
    return sum(bool(coefficient(row, at).abs().gt(one)) for at in involved_axes(row))


def _is_complete(leaves: list[isl.UnionMap], nest: Nest, context: Set) -> bool:
    """Tell whether the leaves execute all instances: ``S -> AST loops``, by their domains."""
    found = isl.UnionSet.empty(isl.Space.params_alloc(isl.DEFAULT_CONTEXT, 0))
    for leaf in leaves:
        found = found.union(leaf.domain())
    return all(
        isl.UnionSet.from_set(instances.intersect_params(context)).is_subset(found)
        for instances in own_instances(nest)
    )


def _without_strides(nest: Nest) -> Nest:
    """Widen domains to ones without strides."""
    statements = (
        _guarded(s, s.domain.remove_divs()) if _has_strides(s.domain) else s
        for s in nest.statements
    )
    return replace(nest, statements=tuple(statements))


def _in_boxes(nest: Nest) -> Nest:
    """Widen domains until no loop depends on several others, and drop slabs."""
    statements = (_guarded(s, _box(s.domain)) for s in nest.statements)
    return _without_slabs(replace(nest, statements=tuple(statements)))


def _box(domain: Set) -> Set:
    """Return the bounds of each loop by itself, and those by outer loops that are simple."""
    hull = domain.remove_divs().simple_hull()
    box = isl.BasicSet.universe(domain.get_space())
    for at in range(n_dims(domain)):
        bounds = free_inner(hull, at).remove_divs()
        box = box.intersect(free_outer(bounds, at).remove_divs())
        for row in bounds.get_constraints():
            if _steep_loops(row) < MIN_STEEP_LOOPS:
                box = box.add_constraint(row)
    return box.to_set()


def _guarded(statement: Statement, wider: Set) -> Statement:
    """Give a statement the *wider* domain, with a guard for its own domain."""
    exact = to_named(statement.domain.gist(wider).reset_tuple_id()).params()
    condition = isl.AstBuild.from_context(isl.Set("{ : }")).expr_from_set(exact)
    guards = [statement.guard, ExprReader(_variable).condition(condition)]
    return replace(statement, domain=wider, guard=conjunction(guards))


def _with_plain_starts(statement: Statement) -> Statement:
    """Make work-item-strided loops start at a constant; further bounds become guards.

    For ``r >= 0`` and ``r >= 1 - 8*gid(0)`` with ``r mod 8 = lid(0)``, isl generates
    ``max(lid(0), (lid(0) + 7) % 8 - 8*gid(0) + 1)``; a condition on ``r`` costs less.
    """
    parts = statement.domain.get_basic_sets()
    if len(parts) != 1 or not n_quotients(parts[0]):
        return statement
    rows = parts[0].get_constraints()
    tied = {at for at, name in enumerate(dim_names(parts[0])) if SetName.TIED.names(name)}
    turns = [row for row in rows if row.is_equality() and _is_turn(row, tied)]
    strided = {at for row in turns for at in involved_axes(row)} - tied
    plain = {at for row in rows for at in strided if _is_start(row, at) and _is_constant(row, at)}
    moved = [
        row
        for row in rows
        if any(_is_start(row, at) and not _is_constant(row, at) for at in plain)
        and not involves_quotient(row)
    ]
    if not moved:
        return statement
    wider = isl.Set.universe(statement.domain.get_space())
    for row in rows:
        if row not in moved:
            wider = wider.add_constraint(row)
    return _guarded(statement, wider.intersect(_around(statement.domain, plain)))


def _around(domain: Set, inner: Iterable[int]) -> Set:
    """Return the constraints of a domain, without strides, projected along *inner* loops."""
    hull = domain.remove_divs().simple_hull()
    for at in inner:
        hull = free_axis(hull, at)
    return hull.to_set()


def _is_turn(row: isl.Constraint, tied: Collection[int]) -> bool:
    """Tell whether an equation determines which work-item an iteration belongs to.

    Its index is a parameter, or one of the dimensions *tied* to axes.
    """
    axes = map(axis_from_name, involved_params(row))
    is_own = any(isinstance(axis, LocalHardwareAxisIndex) for axis in axes)
    return involves_quotient(row) and (is_own or any(at in tied for at in involved_axes(row)))


def _is_start(row: isl.Constraint, at: int) -> bool:
    """Tell whether a constraint is a lower bound of dimension number *at*."""
    return not row.is_equality() and coefficient(row, at).is_pos()


def _is_constant(row: isl.Constraint, at: int) -> bool:
    """Tell whether a bound of dimension number *at* is a constant."""
    return not involved_params(row) and set(involved_axes(row)) <= {at}


def _variable(name: str) -> Expr:
    axis = axis_from_name(name)
    return p.Variable(name) if axis is None else axis
