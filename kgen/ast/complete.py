"""isl's AST builder held to its word: code for every instance, with guards where strides fail it.

Where a stride starts at a quotient of parameters (``i mod 2 = (n // 5) mod 2``), isl 0.28 can
take a loop for a single trip and leave iterations out; the schedule that it reports for its
leaves shows that. A stride that many loops share costs it seconds, and there are
slabs of slabs for which it fails.
"""

from __future__ import annotations

import dataclasses

import islpy as isl
import pymbolic.primitives as p

from kgen.ast.expr import ExprReader
from kgen.ir.domain import Set, to_named
from kgen.ir.expr import Expr
from kgen.ir.kernel import LoopKernel
from kgen.schedule.to_isl import Nest, Statement, axis_from_name, own_instances, to_isl
from kgen.schedule.tree import Bind, Loop, Node, Sequence

__all__ = ["build_ast"]

_DIV = isl.dim_type.div
_SET = isl.dim_type.set

#: Strides that more loops than this share are guards from the start.
MAX_STRIDED_LOOPS = 4


def build_ast(kernel: LoopKernel, nest: Nest) -> tuple[Nest, isl.AstNode]:
    """Ask isl for the code of a nest; return it with the nest that it is for.

    Where isl leaves instances out, the statements of that nest have a wider domain without
    strides, and a guard. Where it finds no code with slabs apart, they are not.
    """
    try:
        return _build(kernel, nest)
    except isl.Error:
        plain = _without_slabs(nest)
        if plain == nest:
            raise
        return _build(kernel, plain)


def _build(kernel: LoopKernel, nest: Nest) -> tuple[Nest, isl.AstNode]:
    context = kernel.assumptions.intersect(nest.context)
    if nest.axes:
        nest = _in_context(nest, context)
    ctx = isl.DEFAULT_CONTEXT
    before = ctx.get_ast_build_detect_min_max()
    ctx.set_ast_build_detect_min_max(1)
    try:
        build = isl.AstBuild.from_context(context)
        strided = [_sharing(s.domain) for s in nest.statements if _has_strides(s.domain)]
        if max(strided, default=0) > MAX_STRIDED_LOOPS:
            nest, strided = _without_strides(nest), []
        if not strided:
            return nest, build.node_from_schedule(to_isl(nest))
        leaves: list[isl.UnionMap] = []
        build, keep = build.set_at_each_domain(lambda node, at: _record(leaves, node, at))
        ast = build.node_from_schedule(to_isl(nest))
        del keep
        if _is_complete(leaves, nest, context):
            return nest, ast
        wider = _without_strides(nest)
        return wider, isl.AstBuild.from_context(context).node_from_schedule(to_isl(wider))
    finally:
        ctx.set_ast_build_detect_min_max(before)


def _in_context(nest: Nest, context: Set) -> Nest:
    """Drop from the domains what the context says already: isl is faster with less."""
    statements = tuple(
        dataclasses.replace(s, domain=s.domain.gist_params(context)) for s in nest.statements
    )
    return dataclasses.replace(nest, statements=statements)


def _without_slabs(nest: Nest) -> Nest:
    """Leave the first and last iterations of loops among the others."""

    def plain(node: Node) -> Node:
        match node:
            case Loop():
                return dataclasses.replace(node, body=plain(node.body), slabs=(0, 0))
            case Bind():
                return dataclasses.replace(node, body=plain(node.body))
            case Sequence():
                return Sequence(tuple(map(plain, node.children)))
            case _:
                return node

    loops = tuple(dataclasses.replace(loop, slabs=(0, 0)) for loop in nest.loops)
    return dataclasses.replace(nest, root=plain(nest.root), loops=loops)


def _record(leaves: list[isl.UnionMap], node: isl.AstNode, build: isl.AstBuild) -> isl.AstNode:
    leaves.append(build.get_schedule())
    return node


def _has_strides(domain: Set) -> bool:
    return any(part.dim(_DIV) for part in domain.get_basic_sets())


def _sharing(domain: Set) -> int:
    """Return how many loops a stride is a matter of, at most."""
    return max(
        (
            sum(row.involves_dims(_SET, at, 1) for at in range(domain.dim(_SET)))
            for part in domain.get_basic_sets()
            for row in part.get_constraints()
            if row.involves_dims(_DIV, 0, part.dim(_DIV))
        ),
        default=0,
    )


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
    return dataclasses.replace(nest, statements=tuple(map(_guarded, nest.statements)))


def _guarded(statement: Statement) -> Statement:
    """Widen the domain to one without strides, and put the strides into the guard."""
    if not _has_strides(statement.domain):
        return statement
    wider = statement.domain.remove_divs()
    exact = to_named(statement.domain.gist(wider).reset_tuple_id()).params()
    condition = isl.AstBuild.from_context(isl.Set("{ : }")).expr_from_set(exact)
    guard = ExprReader(_variable).condition(condition)
    return dataclasses.replace(statement, domain=wider, guard=guard)


def _variable(name: str) -> Expr:
    axis = axis_from_name(name)
    return p.Variable(name) if axis is None else axis
