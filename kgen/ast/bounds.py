"""Guards around loops with computed bounds, from the predicates of the statements inside.

If none of these statements has an instance, the bounds may not have been computed.
"""

from __future__ import annotations

from collections.abc import Iterator

import islpy as isl
import pymbolic.primitives as p

from kgen.analysis.instances import axis_name
from kgen.ast.expr import conjunction, conjuncts, disjunction
from kgen.ast.facts import Facts, params_where
from kgen.ast.merge import without_conjuncts
from kgen.ast.nodes import For, If, Let, Node, Run, runs_in, variables_in
from kgen.ast.translate import read_condition
from kgen.ir.expr import Expr, LocalHardwareAxisIndex, variable_names
from kgen.ir.fields import replace
from kgen.ir.sets.dims import Set, dim_names, param_names, project_out_params, to_named, union_of
from kgen.ir.stages import DeviceKernel
from kgen.ir.tree import (
    Barrier,
    children_of,
    exprs_of,
    has_barrier,
    map_children,
)
from kgen.schedule.to_isl import Nest, Statement, axis_context

__all__ = ["guard_bounds", "guard_bounds_by_data"]


def guard_bounds(kernel: DeviceKernel, nest: Nest, code: Node) -> Node:
    """Put loops, values and conditions that read computed data under guards of their contents.

    ::

        for (i = s; i < e; ++i)              if (64*gid(0) + lid(0) < n)
          if (64*gid(0) + lid(0) < n)   =>     for (i = s; i < e; ++i)
            S(i);                                S(i);

    *code* is the code of *nest*, in its canonical names.
    """
    names = {name for statement in nest.statements for name in param_names(statement.domain)}
    data = frozenset(names & kernel.temporary_variables.keys())
    return _Guards(nest, data).guarded(code) if data else code


class _Guards:
    def __init__(self, nest: Nest, data: frozenset[str]) -> None:
        self.nest = nest
        self.data = data
        items = [LocalHardwareAxisIndex(k) for k in range(len(nest.grid.locals))]
        self.local_axes = [axis_name(axis) for axis in items]
        self.context = nest.context.intersect(axis_context(nest.grid, items))

    def guarded(self, code: Node) -> Node:
        """Guard all of the code."""
        return self.node(code, Facts(self.context), frozenset())

    def node(self, node: Node, facts: Facts, around: frozenset[str]) -> Node:
        """Guard *node* and its children; *around* are the enclosing loop variables."""
        match node:
            case For() | Let():
                return self._loop(node, facts, around)
            case If(orelse=None):
                needed = self._conditions_inside(node, facts, around)
                needed += _needed(node.condition, facts.with_(*needed))
                body = self.node(node.body, facts.with_(*needed), around)
                return _under(needed, body)
        return map_children(node, lambda child: self.node(child, facts.with_(), around))

    def _loop(self, node: For | Let, facts: Facts, around: frozenset[str]) -> Node:
        needed = self._conditions_inside(node, facts, around)
        inside = facts.with_(*needed, *_known_inside(node))
        body = self.node(node.body, inside, around | {node.name})
        return _under(needed, replace(node, body=body))

    def _conditions_inside(self, node: Node, facts: Facts, around: frozenset[str]) -> list[Expr]:
        """Return the conditions inside a node that must guard its reads of data."""
        if self.data.isdisjoint(variable_names(*exprs_of(node))):
            return []
        where = self._where_any_runs(node, around)
        return [] if where is None else _needed(self._condition(where), facts)

    def _where_any_runs(self, node: Node, around: frozenset[str]) -> Set | None:
        """Return where a statement below *node* has an instance, whatever the data."""
        inner = frozenset(variables_in(node))
        hidden = set(self.data)
        if has_barrier(node):  # all work-items of a group must reach it
            hidden.update(self.local_axes)
        ran = ((self.nest.statements[int(run.insn_id[1:])], run) for run in runs_in(node))
        union = union_of(
            project_out_params(_instances(statement, run, around, inner), sorted(hidden))
            for statement, run in ran
            if not isinstance(statement.node, Barrier)  # which runs if another statement does
        )
        return None if union is None else union.coalesce()

    def _condition(self, where: Set) -> Expr:
        context = self.context.align_params(where.get_space())
        where = where.align_params(context.get_space())
        build = isl.AstBuild.from_context(context)
        return read_condition(build.expr_from_set(where.gist(context)))


def _instances(
    statement: Statement, run: Run, around: frozenset[str], inner: frozenset[str]
) -> Set:
    """Return the instances of a statement in terms of the variables *around*.

    The values in *run* determine other dimensions, unless *inner* variables do.
    """
    named = to_named(statement.domain.reset_tuple_id()).params()
    for name in dim_names(statement.domain):
        value = run.values.get(name)
        if value is not None and inner.isdisjoint(variable_names(value)):
            equal = params_where(p.Comparison(p.Variable(name), "==", value))
            named = named if equal is None else named.intersect(equal)
            named = project_out_params(named, [name])
        elif name not in around:
            named = project_out_params(named, [name])
    return named


def _needed(condition: Expr, facts: Facts) -> list[Expr]:
    """Return the parts of a condition that do not follow from *facts*."""
    return [part for part in conjuncts(condition) if part is not True and not facts.imply(part)]


def _under(needed: list[Expr], body: Node) -> Node:
    return If(conjunction(needed), body) if needed else body


def _known_inside(node: For | Let) -> tuple[Expr, ...]:
    variable = p.Variable(node.name)
    if isinstance(node, Let):
        return (p.Comparison(variable, "==", node.value),)
    above = p.Comparison(variable, ">=", node.first)
    return above, p.Comparison(variable, "<", node.stop)


# -- conditions on data ----------------------------------------------------------------------


def guard_bounds_by_data(kernel: DeviceKernel, node: Node) -> Node:
    """Put loops and conditions that read computed data under the data conditions inside them.

    ``for (i = s; i < e; ++i) if (flag[b]) S(i);`` becomes
    ``if (flag[b]) for (i = s; i < e; ++i) S(i);`` where ``s`` is set only if ``flag[b]``.
    """
    conditional = frozenset(
        name
        for name in kernel.temporary_variables
        if any(kernel.id_to_insn[w].predicates for w in kernel.writers.get(name, ()))
    )
    return _guard_by_data(kernel, conditional, node) if conditional else node


def _guard_by_data(kernel: DeviceKernel, conditional: frozenset[str], node: Node) -> Node:
    node = map_children(node, lambda child: _guard_by_data(kernel, conditional, child))
    match node:
        case For() | Let():
            first, reading = list[Expr](), exprs_of(node)
        case If(orelse=None):  # parts that read data go below the guard, the rest above
            parts = conjuncts(node.condition)
            reading = tuple(c for c in parts if not conditional.isdisjoint(variable_names(c)))
            first = [c for c in parts if c not in reading]
        case _:
            return node
    if conditional.isdisjoint(variable_names(*reading)):
        return node
    inner = frozenset(variables_in(node))
    if isinstance(node, If):  # what it reads may be what makes such a condition valid
        inner |= frozenset(variable_names(*reading))
    found = (way for child in children_of(node) for way in _conditions_of_runs(child, inner, ()))
    every = dict.fromkeys(found)
    ways = [way for way in every if not any({*other} < {*way} for other in every)]
    guard = disjunction([conjunction(list(way)) for way in ways])
    if isinstance(guard, bool):
        return node
    changing = _names_written(kernel, node)
    always = {c for c in ways[0] if all(c in way for way in ways)}
    kept = {c for c in always if changing.isdisjoint(variable_names(c))}
    reads_data = not kernel.array_vars.keys().isdisjoint(variable_names(guard))
    if isinstance(node, If):
        node = replace(node, condition=conjunction([*reading]))
    guarded = If(guard, _without_conditions(node, kept), reads_data=reads_data)
    return _under(first, guarded)


def _conditions_of_runs(
    node: Node, inner: frozenset[str], around: tuple[Expr, ...]
) -> Iterator[tuple[Expr, ...]]:
    """Yield the conditions of each instruction below *node* that no *inner* variable changes."""
    if isinstance(node, Run):
        yield around
    for child in children_of(node):
        conditions = around
        if isinstance(node, If) and child is node.body:
            own = conjuncts(node.condition)
            conditions = (*around, *(c for c in own if inner.isdisjoint(variable_names(c))))
        yield from _conditions_of_runs(child, inner, conditions)


def _names_written(kernel: DeviceKernel, node: Node) -> frozenset[str]:
    found = (kernel.id_to_insn[run.insn_id].assignee_var_names() for run in runs_in(node))
    return frozenset(name for names in found for name in names)


def _without_conditions(node: Node, known: set[Expr]) -> Node:
    node = map_children(node, lambda child: _without_conditions(child, known))
    if not isinstance(node, If) or node.orelse is not None:
        return node
    return without_conjuncts(node, known)
