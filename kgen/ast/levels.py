"""Level by level: one isl AST build per loop, around the code of its body.

isl's time grows superlinearly with the number of loops: 16x16 work-items that fetch 18x18 elements
take 5 ms for both loops together and 1 ms for each of them. A loop runs over the
values for which anything below it has an instance; its contents take its variable as a
parameter.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from functools import cached_property

import islpy as isl
from pymbolic.primitives import Variable

from kgen.ast.bounds import guard_bounds
from kgen.ast.boxes import loops_over_box
from kgen.ast.complete import build_ast, is_simple
from kgen.ast.hoist import hoist_guards
from kgen.ast.nodes import Block, For, Let, Node, Run, map_runs
from kgen.ast.translate import instantiate, of_one, translate, translate_guard
from kgen.ast.unroll import bind
from kgen.ir.expr import Expr, LocalHardwareAxisIndex, is_constant, substitute
from kgen.ir.fields import replace
from kgen.ir.sets.dims import (
    Set,
    dim_names,
    involved_params,
    outer_dim_to_param,
    outer_dims,
    param_names,
    params_space,
    project_out_params,
    union_of,
    without_param_constraints,
)
from kgen.ir.stages import DeviceKernel
from kgen.ir.tree import Barrier, map_children, map_exprs
from kgen.schedule.to_isl import (
    Nest,
    Statement,
    axes_in,
    axis_context,
    axis_from_name,
    canonical_names,
    count_statements,
    loop_name,
    numbered,
    outer_name,
    substitute_axes,
)
from kgen.schedule.tree import Bind, Loop, Sequence, loops_in
from kgen.schedule.tree import Node as ScheduleNode
from kgen.schedule.tree import Run as ScheduleRun

__all__ = ["code_of"]

#: The placeholder for the contents of a loop.
_INSIDE = ScheduleRun(())


def code_of(kernel: DeviceKernel, nest: Nest, memo: dict[Hashable, Node]) -> Node:
    """Return the code of a nest; *memo* has the code of shapes of nests, in canonical names."""
    key = (code_of, nest.key)  # the code of a part of a nest has its guards below those around it
    general = memo.get(key)
    if general is None:
        general = guard_bounds(kernel, nest, _Levels(kernel, memo).general(nest))
        general = memo[key] = hoist_guards(general)
    return instantiate(general, nest, kernel)


class _Levels:
    """Builds code in canonical names, once for all nests of the same shape."""

    def __init__(self, kernel: DeviceKernel, memo: dict[Hashable, Node]) -> None:
        self.kernel = kernel
        self.memo = memo

    def general(self, nest: Nest) -> Node:
        """Return the code of a nest, built level by level if possible."""
        return self.code(nest) if is_simple(nest) else self._whole(nest)

    def code(self, nest: Nest) -> Node:
        return self._once(nest, self._code)

    def _once(self, nest: Nest, make: Callable[[Nest], Node]) -> Node:
        key = nest.key
        found = self.memo.get(key)
        if found is None:
            found = self.memo[key] = make(nest)
        return found

    def _whole(self, nest: Nest) -> Node:
        """Build all loops of a nest at once with isl."""
        return translate(*build_ast(self.kernel, nest))

    def _code(self, nest: Nest) -> Node:
        match nest.root:
            case Sequence():
                return self._sequence(nest, nest.root)
            case Bind():
                return self._bind(nest, nest.root)
            case ScheduleRun() | Barrier():
                return _guarded(nest)
            case Loop():
                return self._loop(nest, nest.root)

    def _sequence(self, nest: Nest, root: Sequence) -> Node:
        parts: list[Node] = []
        loops = statements = 0
        for child in root.children:
            part = _part(nest, child, statements)
            names = {loop_name(k): loop_name(loops + k) for k in range(len(part.loops))}
            parts.append(_Renamer(names, statements).node(self.code(part)))
            loops += len(part.loops)
            statements += len(part.statements)
        return Block(tuple(parts))

    def _bind(self, nest: Nest, root: Bind) -> Node:
        axes = {name: of_one(value, nest.grid) for name, value in root.axes}

        def bound(run: Run) -> Node:
            dims = nest.statements[int(run.insn_id[1:])].dims
            names = canonical_names(dims, nest.loops)
            own = {names[iname]: axes[iname] for iname in dims if iname in axes}
            return Run(run.insn_id, {**own, **run.values})

        return map_runs(self.code(_bound(nest, root)), bound)

    def _loop(self, nest: Nest, root: Loop) -> Node:
        if _is_of_one(root) and (found := loops_over_box(nest.statements[0].domain, nest.context)):
            return found
        values = _values(nest)
        if values is None:
            return self._whole(nest)
        shell, inside = _shell(nest, root, values), _inside(nest, root, values)
        names = {loop_name(k): loop_name(k + 1) for k in range(len(inside.loops))}
        names[outer_name(nest.n_around)] = loop_name(0)
        body = _Renamer(names, 0).node(self.code(inside))

        def put_inside(run: Run) -> Node:
            found = body
            for name, value in run.values.items():  # a loop with a single value has none
                found = bind(found, name, value)
            return found

        outermost = loops_over_box(values, shell.context) or self._once(shell, self._whole)
        return map_runs(outermost, put_inside)


def _is_of_one(node: ScheduleNode) -> bool:
    """Tell whether the loops enclose one block of instructions, with nothing between them."""
    return isinstance(node, ScheduleRun) or (isinstance(node, Loop) and _is_of_one(node.body))


@dataclass(frozen=True)
class _Renamer:
    """Renames loops, and numbers statements from *first* on."""

    names: Mapping[str, str]
    first: int

    def node(self, node: Node) -> Node:
        match node:
            case For():
                node = replace(node, iname=self.names.get(node.iname, node.iname))
            case Let():
                node = replace(node, name=self.names.get(node.name, node.name))
            case Run():
                values = {
                    self.names.get(name, name): self._expr(value)
                    for name, value in node.values.items()
                }
                return Run(f"S{self.first + int(node.insn_id[1:])}", values)
        return map_children(map_exprs(node, self._expr), self.node)

    def _expr(self, expr: Expr) -> Expr:
        return expr if is_constant(expr) else substitute(expr, self.replacements)

    @cached_property
    def replacements(self) -> dict[str, Expr]:
        return {old: Variable(new) for old, new in self.names.items()}


def _guarded(nest: Nest) -> Node:
    """Generate the condition of a statement without remaining loops, with isl."""
    (statement,) = nest.statements
    context = _in_order(nest.context)
    where = statement.domain.params().align_params(context.get_space())
    return translate_guard(isl.AstBuild.from_context(context).expr_from_set(where))


def _in_order(context: Set) -> Set:
    """Sort parameters in the order in which isl should write conditions on them."""
    names = sorted(param_names(context), key=_rank)
    return context.align_params(params_space(names))


def _rank(name: str) -> tuple[int, str]:
    axis = axis_from_name(name)
    if axis is None:
        return (3, name) if name.startswith(".") else (0, "")
    return (1 if isinstance(axis, LocalHardwareAxisIndex) else 2), name


def _part(nest: Nest, child: ScheduleNode, first: int) -> Nest:
    """Return a child of a sequence, whose statements are numbered from *first*."""
    loops = loops_in(child)
    statements = nest.statements[first : first + count_statements(child)]
    return replace(nest, root=child, loops=loops, statements=numbered(loops, statements))


def _bound(nest: Nest, bind: Bind) -> Nest:
    """Replace the loops on hardware axes by the axes, which are parameters."""
    axes = dict(bind.axes)

    def bound(statement: Statement) -> Statement:
        names = dict(zip(statement.dims, dim_names(statement.domain), strict=True))
        tied = {names[iname]: axes[iname] for iname in statement.dims if iname in axes}
        dims = tuple(iname for iname in statement.dims if iname not in axes)
        domain = statement.domain.reset_tuple_id()
        domain = substitute_axes(domain, [names[iname] for iname in dims], tied)
        return replace(statement, dims=dims, domain=domain)

    statements = numbered(nest.loops, [bound(s) for s in nest.statements])
    context = nest.context.intersect(axis_context(nest.grid, [axes_in(v) for v in axes.values()]))
    return replace(
        nest,
        root=bind.body,
        statements=statements,
        axes=(*nest.axes, *bind.axes),
        context=context,
    )


def _values(nest: Nest) -> Set | None:
    """Return the values of the outermost loop, if they are one range.

    Parameter-only constraints become guards inside the loop, and are removed from the range.
    """
    union = union_of(
        without_param_constraints(range_).to_set()
        for statement in nest.statements
        if not isinstance(statement.node, Barrier)  # which runs if another statement does
        for range_ in outer_dims(statement.domain, 1).reset_tuple_id().get_basic_sets()
        if not range_.is_empty()
    )
    union = None if union is None else union.coalesce()
    if union is None or union.n_basic_set() > 1:
        return None
    return project_out_params(union, set(param_names(union)).difference(involved_params(union)))


def _shell(nest: Nest, loop: Loop, values: Set) -> Nest:
    """Return the outermost loop of a nest, with a single statement inside."""
    statements = numbered([loop], [Statement(_INSIDE, (loop.iname,), values, ())])
    root = replace(loop, body=_INSIDE)
    others = set(param_names(nest.context)).difference(involved_params(values))
    context = project_out_params(nest.context, others)
    return replace(nest, root=root, loops=(loop,), statements=statements, context=context)


def _inside(nest: Nest, loop: Loop, values: Set) -> Nest:
    """Return the contents of the outermost loop of a nest."""
    name = outer_name(nest.n_around)

    def inside(statement: Statement) -> Statement:
        dims, domain = (
            statement.dims[1:],
            outer_dim_to_param(statement.domain.reset_tuple_id(), name),
        )
        return replace(statement, dims=dims, domain=domain)

    loops = nest.loops[1:]
    return replace(
        nest,
        root=loop.body,
        loops=loops,
        statements=numbered(loops, [inside(s) for s in nest.statements]),
        context=nest.context.intersect(outer_dim_to_param(values, name).params()),
        n_around=nest.n_around + 1,
    )
