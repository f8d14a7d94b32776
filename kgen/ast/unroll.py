"""Unrolling: the body of a loop once per value, guarded only where isl finds it necessary.

isl generates a plain loop, with its body once; the copies are substitutions.
"""

from __future__ import annotations

import pymbolic.primitives as p

from kgen.ast.expr import compare_with_bound, conjunction, disjunction, parts_of_bound
from kgen.ast.facts import Facts
from kgen.ast.nodes import Block, For, If, Let, Node, Run
from kgen.errors import ScheduleError
from kgen.ir.affine import move_to_sides, simplify
from kgen.ir.expr import (
    Expr,
    TruncRemainder,
    is_constant,
    minus,
    substitute,
    variable_names,
)
from kgen.ir.fields import replace
from kgen.ir.kernel import LoopKernel
from kgen.ir.sets.dims import Set
from kgen.ir.stages import DeviceKernel
from kgen.ir.tags import (
    InameImplementationTag,
    LoopedIlpTag,
    UnrolledIlpTag,
    UnrollTag,
    VectorizeTag,
)
from kgen.ir.tree import map_children, map_exprs
from kgen.schedule.lanes import is_simd

#: More copies than this are rejected, because the code would be too large.
MAX_COPIES = 1 << 16


def expand_unrolled(node: Node, kernel: DeviceKernel, facts: Set) -> Node:
    """Replace the loops over inames tagged ``unr``, ``ilp`` or ``vec`` by copies.

    *facts*: the known constraints on parameters and hardware axes at the root.
    """
    unrolled = unrolled_inames(kernel)
    if not unrolled:
        return node
    return _Expander(kernel, unrolled, Facts(facts.params())).node(node)


def unrolled_inames(kernel: LoopKernel) -> frozenset[str]:
    """Return the inames for which the code has a copy of the loop's body per value."""
    return frozenset(
        name
        for name in kernel.inames
        if kernel.has_tag(name, (UnrollTag, UnrolledIlpTag, VectorizeTag))
        and not (kernel.has_tag(name, LoopedIlpTag) or is_simd(kernel, name))
    )


class _Expander:
    def __init__(self, kernel: DeviceKernel, unrolled: frozenset[str], facts: Facts) -> None:
        self.kernel = kernel
        self.unrolled = unrolled
        self.facts = facts

    def _body(self, node: For | If | Let) -> Node:
        return _Expander(self.kernel, self.unrolled, self.facts.inside(node)).node(node.body)

    def node(self, node: Node) -> Node:
        match node:
            case For():
                body = self._body(node)
                if node.iname in self.unrolled and not node.is_rare:
                    return self._copies(node, body)
                return replace(node, body=body)
            case If():
                orelse = None if node.orelse is None else self.node(node.orelse)
                return replace(node, body=self._body(node), orelse=orelse)
            case Let():
                return replace(node, body=self._body(node))
        return map_children(node, self.node)

    def _copies(self, loop: For, body: Node) -> Node:
        if is_constant(loop.first) and is_constant(loop.stop):
            values: list[Expr] = list(range(loop.first, loop.stop, loop.step))
            self._check_count(loop, len(values))
            return Block(tuple(bind(body, loop.iname, value) for value in values))
        values, are_steps = self._values(loop)
        copies: list[tuple[Expr, Node]] = []
        for value in values:
            guard = conjunction(
                [
                    condition
                    for condition in self._conditions(loop, value, are_steps)
                    if isinstance(condition, bool) or not self.facts.imply(condition)
                ]
            )
            if guard is not False:
                copies.append((guard, bind(body, loop.iname, value)))
        if self.kernel.has_tag(loop.iname, VectorizeTag):
            return self._lanes(copies)
        return _guarded(copies)

    def _lanes(self, copies: list[tuple[Expr, Node]]) -> Node:
        """Separate the case that all lanes of a vector run, which needs only one condition.

        ::

            if (4*i < n) a; if (4*i + 1 < n) b;  =>  if (4*i + 1 < n) { a; b; } else if (4*i < n) a;
        """
        guards = [guard for guard, _ in copies if guard is not True]
        for strictest in guards[-1:] + guards[:1]:
            if self._all_follow(strictest, guards):
                break
        else:
            return _guarded(copies)
        together = Block(tuple(node for _, node in copies))
        is_shared = len(guards) == len(copies)
        if is_shared and all(self._all_follow(guard, [strictest]) for guard in guards):
            return If(guards[0], together)
        rest = [copy for copy in copies if copy[0] is not strictest]
        return If(strictest, together, _guarded(rest) if rest else None)

    def _all_follow(self, condition: Expr, guards: list[Expr]) -> bool:
        known = self.facts.with_(condition)
        return all(known.imply(guard) for guard in guards)

    def _values(self, loop: For) -> tuple[list[Expr], bool]:
        """Return a superset of the values of the loop, for fixed enclosing loops.

        Also returns whether they are offsets from its first value, as they are unless it varies.
        """
        trip = simplify(minus(loop.stop, loop.first))
        tops = parts_of_bound(p.Min, trip)
        if is_constant(loop.first) and isinstance(loop.stop, p.Min):
            tops = tuple(c - loop.first for c in loop.stop.children if is_constant(c)) or tops
        counts = [int(top) for top in tops if isinstance(top, int)]
        if counts:
            self._check_count(loop, min(counts))
            steps = range(0, min(counts), loop.step)
            return [simplify(p.Sum((loop.first, k))) for k in steps], True
        bounds = self.kernel.get_iname_bounds(loop.iname)
        values = bounds.interval
        if values.low is None or values.high is None:
            (tag,) = self.kernel.iname_tags_of_type(loop.iname, InameImplementationTag)
            raise ScheduleError(
                f"iname '{loop.iname}' is to be unrolled, but its number of values is "
                "not bounded by a constant",
                kernel=self.kernel.name,
                because=f"it takes the values {bounds.domain}",
                hint=f"split_iname(kernel, '{loop.iname}', 4, inner_tag='{tag}')",
            )
        taken = range(values.low, values.high + 1)
        self._check_count(loop, len(taken))
        return list(taken), loop.step == 1

    def _check_count(self, loop: For, count: int) -> None:
        if count > MAX_COPIES:
            raise ScheduleError(
                f"iname '{loop.iname}' would be unrolled {count} times",
                kernel=self.kernel.name,
                hint=f"split it first; at most {MAX_COPIES} copies are made",
            )

    def _conditions(self, loop: For, value: Expr, is_step: bool) -> list[Expr]:
        tops = parts_of_bound(p.Min, loop.stop)
        bottoms = parts_of_bound(p.Max, loop.first)
        from_first = simplify(minus(value, loop.first))
        rest = [] if is_step else [p.Comparison(TruncRemainder(from_first, loop.step), "==", 0)]
        return [
            *rest,
            *(compare_with_bound(value, ">=", bottom) for bottom in bottoms),
            *(compare_with_bound(value, "<", top) for top in tops),
        ]


def _guarded(copies: list[tuple[Expr, Node]]) -> Node:
    return Block(tuple(node if guard is True else If(guard, node) for guard, node in copies))


def bind(node: Node, name: str, value: Expr) -> Node:
    """Return *node* with the loop variable *name* replaced by *value*."""
    return _Binder(name, value).node(node)


class _Binder:
    def __init__(self, name: str, value: Expr) -> None:
        self.name = name
        self.value = value
        self.replacement = {name: value}

    def _expr(self, expr: Expr) -> Expr:
        if is_constant(expr) or self.name not in variable_names(expr):
            return expr
        return simplify(expr, self.replacement)

    def _condition(self, condition: Expr) -> Expr:
        match condition:
            case p.Comparison():
                if self.name not in variable_names(condition):
                    return condition
                return move_to_sides(
                    self._expr(condition.left), str(condition.operator), self._expr(condition.right)
                )
            case p.LogicalAnd():
                return conjunction([self._condition(child) for child in condition.children])
            case p.LogicalOr():
                return disjunction([self._condition(child) for child in condition.children])
        return substitute(condition, self.replacement)

    def node(self, node: Node) -> Node:
        match node:
            case Run():
                values = {
                    iname: self._expr(expr)
                    for iname, expr in node.values.items()
                    if iname != self.name
                }
                own = node.values.get(self.name, self.value)
                values[self.name] = own if own is self.value else self._expr(own)
                return replace(node, values=values)
            case If():
                condition = (
                    substitute(node.condition, self.replacement)
                    if node.reads_data
                    else self._condition(node.condition)
                )
                if condition is True:
                    return self.node(node.body)
                orelse = None if node.orelse is None else self.node(node.orelse)
                if condition is False:
                    return orelse if orelse is not None else Block(())
                body = self.node(node.body)
                return replace(node, condition=condition, body=body, orelse=orelse)
        return map_children(map_exprs(node, self._expr), self.node)
