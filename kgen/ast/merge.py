"""Cleaning up the code tree: flattening blocks, merging neighbours with equal guards and names."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence

import pymbolic.primitives as p

from kgen.ast.expr import conjunction, conjuncts, negation
from kgen.ast.initializers import hoist_initializers
from kgen.ast.nodes import Block, For, If, Let, Node, Run, runs_in
from kgen.ast.unroll import bind
from kgen.ir.affine import move_to_sides
from kgen.ir.expr import Expr, LinearSubscript, variable_names, walk
from kgen.ir.fields import replace
from kgen.ir.stages import DeviceKernel
from kgen.ir.tree import Barrier, children_of, has_barrier, map_children


def merge_guards(node: Node, kernel: DeviceKernel) -> Node:
    """Flatten nested blocks, drop empty nodes and unused names, and merge related neighbours.

    ``if (c) a; if (c) b;`` becomes ``if (c) { a; b; }``, and ``if (c) a; if (!c && d) b;``
    becomes ``if (c) a; else if (d) b;``, if *a* writes nothing that *c* reads. Adjacent definitions
    of the same value by the same name, with barriers among them, are merged.
    ``if (c) if (d) a;`` becomes ``if (c && d) a;``.
    """
    return _flat(hoist_initializers(_Merger(kernel).node(node), kernel))


def is_empty(node: Node) -> bool:
    """Tell whether *node* does nothing."""
    return isinstance(node, Block) and not node.children


def _flat(node: Node) -> Node:
    """Merge two directly nested conditions."""
    node = map_children(node, _flat)
    if not isinstance(node, If) or node.orelse is not None:
        return node
    inner = node.body
    if not isinstance(inner, If) or inner.orelse is not None:
        return node
    both = conjunction([node.condition, inner.condition])
    return If(both, inner.body, None, node.reads_data or inner.reads_data)


class _Merger:
    def __init__(self, kernel: DeviceKernel) -> None:
        self.kernel = kernel
        self.changing = frozenset(kernel.writers)

    def node(self, node: Node) -> Node:
        match node:
            case Block():
                return self._block([self.node(child) for child in node.children])
            case For():
                merged = map_children(node, self.node)
                return Block(()) if is_empty(merged.body) else merged
            case If():
                return self._if(node)
            case Let():
                body = self.node(node.body)
                if node.name not in self._names_in(body):
                    return bind(body, node.name, node.value)
                return replace(node, body=body)
        return map_children(node, self.node)

    def _if(self, node: If) -> Node:
        body = self.node(node.body)
        orelse = None if node.orelse is None else self.node(node.orelse)
        if orelse is not None and is_empty(orelse):
            orelse = None
        if is_empty(body) and orelse is None:
            return Block(())
        return replace(node, body=body, orelse=orelse)

    def _names_in(self, node: Node) -> set[str]:
        """Return the variables in bounds, conditions and statements below *node*.

        Predicates are already in conditions and bounds.
        """
        match node:
            case For():
                own: tuple[Expr, ...] = (node.first, node.stop)
            case If():
                own = (node.condition,)
            case Let():
                own = (node.value,)
            case Run():
                insn = self.kernel.id_to_insn[node.insn_id]
                names = variable_names(*insn.read_exprs(), *insn.assignees)
                own = tuple(node.values.get(name, p.Variable(name)) for name in names)
            case _:
                own = ()
        return set(variable_names(*own)).union(*map(self._names_in, children_of(node)))

    def _block(self, children: list[Node]) -> Node:
        opened: list[Node] = []
        for part in self._alike(children):
            together = None
            if opened and isinstance(opened[-1], If) and isinstance(part, If):
                together = self._together(opened[-1], part)
            if together is None:
                opened.append(part)
            else:
                opened[-1] = together
        joined = self._join_names(opened)
        return joined[0] if len(joined) == 1 else Block(tuple(joined))

    def _alike(self, children: list[Node]) -> Iterator[Node]:
        """Flatten blocks, and merge all adjacent guards with the same condition."""
        group: list[If] = []
        for child in children:
            for part in child.children if isinstance(child, Block) else (child,):
                if group and isinstance(part, If) and self._continues(group, part):
                    group.append(part)
                    continue
                if group:
                    yield self._as_one(group)
                group = [part] if isinstance(part, If) else []
                if not group:
                    yield part
        if group:
            yield self._as_one(group)

    def _continues(self, guards: list[If], guard: If) -> bool:
        """Tell whether *guard* has the same value as those before it."""
        is_equal = guard.orelse is None and guard.condition == guards[0].condition
        return is_equal and self._keeps(guards[-1])

    def _as_one(self, guards: list[If]) -> If:
        """Merge guards with the same condition, of which only the first may have an ``else``."""
        if len(guards) == 1:
            return guards[0]
        return replace(guards[0], body=self._block([guard.body for guard in guards]))

    def _together(self, first: If, second: If) -> If | None:
        """Merge two adjacent ``if`` of which the first decides the second, or a part of it."""
        if not self._keeps(first):
            return None
        if first.condition == second.condition:
            body = self._block([first.body, second.body])
            rest = [part for part in (first.orelse, second.orelse) if part is not None]
            return replace(first, body=body, orelse=self._block(rest) if rest else None)
        if second.orelse is not None or has_barrier(first) or has_barrier(second):
            return None
        return self._under_shared(first, second) or self._as_else(first, second)

    def _under_shared(self, first: If, second: If) -> If | None:
        """Put both under their shared conditions, if one has no others, or if data decide.

        Conditions may be evaluated only if those before them hold: ``i >= 0`` before ``a[i] > 0``.
        """
        parts = conjuncts(second.condition)
        shared = [part for part in conjuncts(first.condition) if part in parts]
        if first.orelse is not None or not shared:
            return None
        if not all(_begins_with(guard, shared) for guard in (first, second)):
            return None
        inside = [without_conjuncts(guard, shared) for guard in (first, second)]
        if not first.reads_data and all(isinstance(node, If) for node in inside):
            return None
        return replace(first, condition=conjunction(shared), body=self._block(inside))

    def _as_else(self, first: If, second: If) -> If | None:
        """Make *second*, which has an opposite condition, the ``else`` of *first*."""
        parts = conjuncts(second.condition)
        if isinstance(first.condition, p.LogicalAnd) and not any(map(_is_choice, parts)):
            return None
        opposites = _opposites(first)
        if not any(part in opposites for part in parts):
            return None
        node = without_conjuncts(second, opposites)
        orelse = node if first.orelse is None else self._block([first.orelse, node])
        return replace(first, orelse=orelse)

    def _keeps(self, guard: If) -> bool:
        """Tell whether a condition has the same value after the guarded statements."""
        names = self.changing.intersection(variable_names(guard.condition))
        return not names or self._written(guard).isdisjoint(names)

    def _written(self, node: Node) -> set[str]:
        runs = runs_in(node)
        return {n for run in runs for n in self.kernel.id_to_insn[run.insn_id].assignee_var_names()}

    def _join_names(self, children: list[Node]) -> list[Node]:
        """Merge adjacent definitions of the same value."""
        result: list[Node] = []
        at = 0
        while at < len(children):
            named = _named(children[at])
            stop = at + 1 if named is None else _end_of_same(children, at, named)
            if named is None or stop == at + 1:
                result.append(children[at])
            else:
                inside = [_without_name(child) for child in children[at:stop]]
                block = self._block(inside)
                result.append(Let(named.name, named.dtype, named.value, block))
            at = stop
        return result


def _end_of_same(children: Sequence[Node], first: int, named: Let) -> int:
    """Return where the definitions of the name and value of child *first* end.

    There may be barriers among them.
    """
    stop = first + 1
    for at in range(first + 1, len(children)):
        other = _named(children[at])
        if other is not None and (other.name, other.value) == (named.name, named.value):
            stop = at + 1
        elif not isinstance(children[at], Barrier):
            break
    return stop


def without_conjuncts(guard: If, known: Container[Expr]) -> Node:
    """Remove the conjuncts of a guard without ``else`` that are *known* to be true."""
    rest = [part for part in conjuncts(guard.condition) if part not in known]
    return replace(guard, condition=conjunction(rest), orelse=None) if rest else guard.body


def _is_choice(condition: Expr) -> bool:
    """Tell whether a condition can be the complement of a conjunction."""
    return not isinstance(condition, p.Comparison) or condition.operator == "!="


def _begins_with(guard: If, shared: Sequence[Expr]) -> bool:
    """Tell whether no condition of a guard precedes *shared* ones that might fail without it."""
    risky = [part for part in shared if _may_fail(part)]
    parts = conjuncts(guard.condition)
    ahead = parts[: max(map(parts.index, risky)) + 1] if risky else []
    return all(part in shared for part in ahead)


def _may_fail(condition: Expr) -> bool:
    """Tell whether evaluating a condition may read outside of an array, or divide by zero."""
    return any(
        isinstance(node, p.Subscript | LinearSubscript | p.QuotientBase | p.Call)
        for node in walk(condition)
    )


def _opposites(guard: If) -> tuple[Expr, ...]:
    """Return expressions that are true where the condition is false."""
    opposite: Expr = p.LogicalNot(guard.condition)
    if guard.reads_data:  # !(x > 0) is not x <= 0 if x is nan
        is_not = isinstance(guard.condition, p.LogicalNot)
        return (opposite, guard.condition.child) if is_not else (opposite,)
    flipped = negation(guard.condition)
    if isinstance(flipped, p.Comparison):
        flipped = move_to_sides(flipped.left, str(flipped.operator), flipped.right)
    return opposite, flipped


def _named(node: Node) -> Let | None:
    """Return the definition that *node* starts with, even under an unrelated condition."""
    match node:
        case Let():
            return node
        case If(orelse=None, body=Let() as named):
            return None if named.name in variable_names(node.condition) else named
    return None


def _without_name(node: Node) -> Node:
    match node:
        case Let():
            return node.body
        case If(body=Let() as named):
            return replace(node, body=named.body, orelse=None)
    return node
