"""isl's AST to the code tree: loop bounds, guards and statements in normal form."""

from __future__ import annotations

from collections.abc import Mapping

import islpy as isl
import pymbolic.primitives as p

from kgen.analysis.range import loop_type
from kgen.ast.expr import ExprReader, as_bound, conjunction, minimum, successor
from kgen.ast.islast import NODE, OP, children_of_block
from kgen.ast.nodes import Block, For, If, Let, Node, Run, runs_in
from kgen.ir.affine import move_to_sides, simplify
from kgen.ir.expr import (
    Expr,
    IdentityMapper,
    LocalHardwareAxisIndex,
    TruncQuotient,
    is_constant,
    substitute,
    variable_names,
    walk,
)
from kgen.ir.fields import replace
from kgen.ir.grid import Grid
from kgen.ir.sets.dims import dim_name
from kgen.ir.stages import DeviceKernel
from kgen.ir.tree import Barrier as ScheduleBarrier
from kgen.ir.tree import map_children, map_exprs, nodes_in
from kgen.ir.types import INT32
from kgen.schedule.to_isl import (
    Nest,
    Statement,
    axes_in,
    axis_from_name,
    canonical_names,
    loop_name,
)
from kgen.schedule.tree import Run as ScheduleRun


def translate(nest: Nest, ast: isl.AstNode) -> Node:
    """Translate the AST of a nest, with canonical names: loops ``.x0``, statements ``S0``."""
    return _Translator(nest).node(ast, {}, None)


def translate_guard(condition: isl.AstExpr) -> Node:
    """Translate statement ``S0`` under an isl condition."""
    return _under(read_condition(condition), Run("S0", {}), None)


def read_condition(condition: isl.AstExpr) -> Expr:
    """Translate an isl condition on parameters."""
    return _reader({}).condition(condition)


class _Translator:
    def __init__(self, nest: Nest) -> None:
        self.nest = nest

    def node(self, ast: isl.AstNode, names: Mapping[str, Expr], loop: str | None) -> Node:
        """Translate below a mark for *loop*; *names* are the enclosing iterators."""
        kind = ast.get_type()
        if kind == NODE.mark:
            return self._mark(ast, names)
        if kind == NODE.for_:
            return self._for(ast, names, loop)
        if kind == NODE.if_:
            return self._if(ast, names, loop)
        if kind == NODE.block:
            return Block(tuple(self.node(child, names, loop) for child in children_of_block(ast)))
        if kind == NODE.user:
            return self._user(ast, names)
        raise AssertionError(f"isl gave a node of type {kind}")

    def _mark(self, ast: isl.AstNode, names: Mapping[str, Expr]) -> Node:
        loop = ast.mark_get_id().get_name()
        return _name_single_trips(self.node(ast.mark_get_node(), names, loop), loop)

    def _for(self, ast: isl.AstNode, names: Mapping[str, Expr], loop: str | None) -> Node:
        assert loop is not None, "every band stands below a mark"
        reader = _reader(names)
        iterator = ast.for_get_iterator().get_id().get_name()
        first = reader.value(ast.for_get_init())
        if ast.for_is_degenerate():
            return self.node(ast.for_get_body(), {**names, iterator: first}, None)
        inner = {**names, iterator: p.Variable(loop)}
        stop = self._stop(ast.for_get_cond(), reader, inner, first)
        step = int(ast.for_get_inc().get_val().to_python())
        return For(loop, INT32, first, stop, step, self.node(ast.for_get_body(), inner, None))

    def _stop(
        self, cond: isl.AstExpr, reader: ExprReader, names: Mapping[str, Expr], first: Expr
    ) -> Expr:
        """Read ``iterator < e`` or ``iterator <= e``, or several of them."""
        op = cond.op_get_type()
        if op in (OP.and_, OP.and_then):
            parts = [cond.op_get_arg(k) for k in range(cond.op_get_n_arg())]
            return minimum([self._stop(part, reader, names, first) for part in parts])
        bound = reader.value(cond.op_get_arg(1))
        first_is_natural = is_constant(first) and bool(first >= 0)
        if op == OP.lt:
            return as_bound(bound, first_is_natural=first_is_natural)
        assert op == OP.le, f"isl gave a loop condition of type {op}"
        return successor(bound, first_is_natural=first_is_natural)

    def _if(self, ast: isl.AstNode, names: Mapping[str, Expr], loop: str | None) -> Node:
        condition = _reader(names).condition(ast.if_get_cond())
        body = self.node(ast.if_get_then(), names, loop)
        orelse = self.node(ast.if_get_else(), names, loop) if ast.if_has_else() else None
        return _under(condition, body, orelse)

    def _user(self, ast: isl.AstNode, names: Mapping[str, Expr]) -> Node:
        reader = _reader(names)
        call = ast.user_get_expr()
        statement = call.op_get_arg(0).get_id().get_name()
        values: dict[str, Expr] = {}
        number = int(statement[1:])
        for k in range(1, call.op_get_n_arg()):
            name = self._dim_name(number, k - 1)
            value = reader.value(call.op_get_arg(k))
            if not (isinstance(value, p.Variable) and value.name == name):
                values[name] = value
        run = Run(statement, values)
        guard = self.nest.statements[number].guard
        return run if guard is True else If(substitute(guard, values), run)

    def _dim_name(self, number: int, position: int) -> str:
        return dim_name(self.nest.statements[number].domain, position)


def _reader(names: Mapping[str, Expr]) -> ExprReader:
    """Read isl's names: iterators by *names*, axes, and parameters."""

    def lookup(name: str) -> Expr:
        found = names.get(name)
        if found is None:
            found = axis_from_name(name)
        return p.Variable(name) if found is None else found

    return ExprReader(lookup)


def _under(condition: Expr, body: Node, orelse: Node | None) -> Node:
    if condition is True:
        return body
    if condition is False:
        return orelse if orelse is not None else Block(())
    return If(condition, body, orelse)


# -- single trips ------------------------------------------------------------------------


def _name_single_trips(node: Node, loop: str) -> Node:
    """Name the value of a loop that runs once, for which isl generates no ``for``.

    ``S(i = (n - 1) // 16)`` twice becomes ``let i = (n - 1) // 16`` and ``S(i)`` twice.
    Numbers and plain variables stay where they are used.
    """
    match node:
        case Block() | If():
            return map_children(node, lambda child: _name_single_trips(child, loop))
        case For() if node.iname == loop:
            return node
    values = {run.values[loop] for run in runs_in(node) if loop in run.values}
    if len(values) != 1:
        return node
    (value,) = values
    if is_constant(value) or isinstance(value, p.Variable):
        return node
    if not _loops_of(node).isdisjoint(variable_names(value)):
        return node  # isl may write it in terms of inner loops, if strides relate them
    body = _without_value(node, loop)
    if isinstance(value, p.FloorDiv | TruncQuotient) and is_constant(value.denominator):
        body = _with_rest(body, loop, value)
    return Let(loop, INT32, value, body)


def _loops_of(node: Node) -> set[str]:
    return {part.iname for part in nodes_in(node) if isinstance(part, For)}


def _without_value(node: Node, loop: str) -> Node:
    if isinstance(node, Run):
        return Run(node.insn_id, {k: v for k, v in node.values.items() if k != loop})
    return map_children(node, lambda child: _without_value(child, loop))


class _RestWriter(IdentityMapper):
    """Writes a remainder in terms of the quotient."""

    def __init__(self, name: str, quotient: p.FloorDiv | TruncQuotient) -> None:
        self.top, self.den = quotient.numerator, quotient.denominator
        self.rest = p.Sum((self.top, p.Product((-self.den, p.Variable(name)))))

    def map_remainder(self, expr: Expr, *args: object) -> Expr:
        if expr.numerator == self.top and expr.denominator == self.den:
            return self.rest
        return expr

    map_trunc_remainder = map_remainder


def _with_rest(node: Node, name: str, quotient: p.FloorDiv | TruncQuotient) -> Node:
    """Write remainders in bounds of loops in terms of the quotient, which has a *name*.

    With ``io = (n - 1) / 4``, ``(n - 1) % 4 + 1`` is ``n - 4*io``.
    """
    if isinstance(node, For):
        rest = _RestWriter(name, quotient)
        first, stop = simplify(rest(node.first)), simplify(rest(node.stop))
        node = replace(node, first=first, stop=stop)
    return map_children(node, lambda child: _with_rest(child, name, quotient))


# -- from canonical names to a kernel's own ------------------------------------------------


def instantiate(node: Node, nest: Nest, kernel: DeviceKernel) -> Node:
    """Substitute the names of a kernel in the translation of a nest of this shape."""
    return _Instance(nest, kernel).node(node)


class _Instance:
    def __init__(self, nest: Nest, kernel: DeviceKernel) -> None:
        self.nest = nest
        self.kernel = kernel
        self.loops = {loop_name(k): loop for k, loop in enumerate(nest.loops)}
        self.names: dict[str, Expr] = {
            name: p.Variable(loop.iname) for name, loop in self.loops.items()
        }
        self.axes = {name: of_one(value, nest.grid) for name, value in nest.axes}

    def node(self, node: Node) -> Node:
        match node:
            case For():
                iname = self.loops[node.iname].iname
                dtype = loop_type(self.kernel, iname)
                first, stop = self._expr(node.first), self._expr(node.stop)
                body = self.node(node.body)
                return replace(node, iname=iname, dtype=dtype, first=first, stop=stop, body=body)
            case Let():
                iname = self.loops[node.name].iname
                node = replace(node, name=iname, dtype=loop_type(self.kernel, iname))
            case Run():
                return self._run(node)
        return map_children(map_exprs(node, self._expr), self.node)

    def _expr(self, expr: Expr) -> Expr:
        if is_constant(expr):
            return expr
        return substitute(expr, self.names)

    def _run(self, run: Run) -> Node:
        statement = self.nest.statements[int(run.insn_id[1:])]
        if isinstance(statement.node, ScheduleBarrier):
            return statement.node
        values = self._values(statement, run)
        runs: list[Node] = [Run(insn_id, values) for insn_id in statement.node.insn_ids]
        body = runs[0] if len(runs) == 1 else Block(tuple(runs))
        if not statement.conditions:
            return body
        data = [c for c in statement.conditions if not self._is_of_loops(c)]
        if data:
            condition = conjunction([substitute(c, values) for c in data])
            body = If(condition, body, reads_data=True)
        of_loops = [
            move_to_sides(substitute(c.left, values), c.operator, substitute(c.right, values))
            for c in statement.conditions
            if c not in data
        ]
        condition = conjunction(of_loops)
        if condition is False:
            return Block(())
        return body if condition is True else If(condition, body)

    def _values(self, statement: Statement, run: Run) -> dict[str, Expr]:
        """Return the values of inames in the instructions of a statement."""
        values: dict[str, Expr] = {}
        if run.values:
            names = canonical_names(statement.dims, self.nest.loops)
            inames = {name: loop.iname for name, loop in self.loops.items()}
            inames.update((name, iname) for iname, name in names.items())
            values.update((inames[name], self._expr(value)) for name, value in run.values.items())
        if self.axes:
            assert isinstance(statement.node, ScheduleRun)
            own = self.kernel.id_to_insn[statement.node.insn_ids[0]].within_inames
            values.update((name, value) for name, value in self.axes.items() if name in own)
        return values

    def _is_of_loops(self, condition: Expr) -> bool:
        """Tell whether a condition compares sums of loop variables, sizes and numbers."""
        if not isinstance(condition, p.Comparison):
            return False
        names = self.kernel.all_inames() | self.kernel.all_params()
        return all(
            node.name in names
            if isinstance(node, p.Variable)
            else isinstance(node, p.Comparison | p.Sum | p.Product | int)
            for node in walk(condition)
        )


def of_one(value: Expr, grid: Grid) -> Expr:
    """Replace the index along an axis of length 1 by 0."""
    axis = axes_in(value)
    is_local = isinstance(axis, LocalHardwareAxisIndex)
    if (grid.locals if is_local else grid.groups)[axis.axis] != 1:
        return value
    return simplify(p.Sum(value.children[1:])) if isinstance(value, p.Sum) else 0
