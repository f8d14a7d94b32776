"""Barriers separated from branches, for compilers that merge the code after both."""

from __future__ import annotations

import itertools

import pymbolic.primitives as p

from kgen.ast.expr import conjuncts
from kgen.ast.nodes import Block, Comment, For, If, Let, Node
from kgen.ast.verify import differs_in_group
from kgen.ir.expr import Expr, variable_names
from kgen.ir.tree import Barrier, children_of, has_barrier, map_children
from kgen.ir.types import Memory

__all__ = ["has_fragile_barriers", "separate_barriers"]

_REGION_END = Barrier(Memory.LOCAL, "ends the guarded region")
_ITERATION_START = Barrier(Memory.LOCAL, "begins an iteration")
_REGION_START = Barrier(Memory.LOCAL, "begins the guarded region")
_LOOP_END = Barrier(Memory.LOCAL, "follows the loop")

#: PoCL copies the code for each work-item of so small groups, instead of generating a loop.
_MOST_COPIES = 2


def separate_barriers(node: Node) -> Node:
    """Add barriers at both ends of branches with barriers, and first in and after such loops.

    ::

        if n >= 2                            if n >= 2
          t[lid(0)] = a[lid(0)]                barrier
          barrier                  =>          t[lid(0)] = a[lid(0)]
          if lid(0) < 2                        barrier
            b[lid(0)] = t[0]                   if lid(0) < 2
                                                 b[lid(0)] = t[0]
                                               barrier

        for k = 0 .. 2                       for k = 0 .. 2
          barrier                              barrier
          if lid(0) < 2            =>          if lid(0) < 2
            b[lid(0), k] = t[k]                  b[lid(0), k] = t[k]
        if lid(0) < 2                        barrier
          c[lid(0)] = t[0]                   if lid(0) < 2
                                               c[lid(0)] = t[0]

    A condition that guards only barriers is removed: all work-items reach them.
    """
    if isinstance(node, If) and _is_only_barriers(node):
        return separate_barriers(node.body)
    inside = map_children(node, separate_barriers)
    if isinstance(inside, Block):
        parts = tuple(part for child in inside.children for part in _parts(child))
        return Block(_behind_loops(parts))
    if not isinstance(node, For | If) or not has_barrier(node):
        return inside
    return map_children(inside, _begun if isinstance(node, For) else _closed)


def _is_only_barriers(node: Node) -> bool:
    is_leaf = isinstance(node, Barrier)
    return is_leaf or (
        isinstance(node, If | Block)
        and bool(children_of(node))
        and all(map(_is_only_barriers, children_of(node)))
    )


def _behind_loops(nodes: tuple[Node, ...]) -> tuple[Node, ...]:
    """Insert a barrier between each loop with barriers and the statement after it."""
    separated = nodes[:1]
    for before, node in itertools.pairwise(nodes):
        if _ends_with_loop(before) and not isinstance(_parts(node)[0], Barrier):
            separated = (*separated, _LOOP_END)
        separated = (*separated, node)
    return separated


def _ends_with_loop(node: Node) -> bool:
    """Tell whether the last statement is a loop with barriers."""
    match node:
        case For():
            return has_barrier(node)
        case Let() | Comment() | Block():
            return _ends_with_loop(children_of(node)[-1])
    return False


def _closed(branch: Node) -> Node:
    if not has_barrier(branch):
        return branch
    return Block((*_parts(_begun(branch, _REGION_START)), _REGION_END))


def _begun(body: Node, first: Barrier = _ITERATION_START) -> Node:
    parts = _parts(body)
    return body if isinstance(parts[0], Barrier) else Block((first, *parts))


def _parts(node: Node) -> tuple[Node, ...]:
    return node.children if isinstance(node, Block) else (node,)


def has_fragile_barriers(node: Node, n_items: int) -> bool:
    """Tell whether code after barriers may be lost although they are separated from branches.

    This has been observed if code that is not the end of the function follows a guarded barrier,
    and for consecutive conditions on data, ``lid(0) < 2 && a[i] > 0``.
    The process may abort if a loop with barriers tests its variable, and, in groups
    of so few work-items that each has its own code, if a loop without barriers does.
    """
    return has_barrier(node) and (
        _bypasses_barrier(node)
        or _has_data_guard(node)
        or _has_iteration_guard(node, ())
        or (n_items <= _MOST_COPIES and _has_guard_in_loop(node, ()))
    )


def _bypasses_barrier(node: Node, *, at_end: bool = True, guarded: bool = False) -> bool:
    match node:
        case Barrier():
            return guarded
        case For():
            at_end = False
        case If():
            guarded = guarded or not at_end or node.orelse is not None
    children = children_of(node)
    return any(
        _bypasses_barrier(child, at_end=at_end and child is children[-1], guarded=guarded)
        for child in children
    )


def _has_data_guard(node: Node) -> bool:
    if isinstance(node, If) and node.reads_data and isinstance(node.condition, p.LogicalAnd):
        return True
    return any(map(_has_data_guard, children_of(node)))


def _has_iteration_guard(node: Node, loops: tuple[str, ...]) -> bool:
    """Tell whether a uniform condition depends on the variable of a loop with barriers."""
    match node:
        case For() if has_barrier(node):
            loops = (*loops, node.iname)
        case If() if any(_tests_iteration(part, loops) for part in conjuncts(node.condition)):
            return True
    return any(_has_iteration_guard(child, loops) for child in children_of(node))


def _tests_iteration(condition: Expr, loops: tuple[str, ...]) -> bool:
    names = variable_names(condition)
    return any(name in loops for name in names) and not differs_in_group(condition)


def _has_guard_in_loop(node: Node, loops: tuple[str, ...]) -> bool:
    """Tell whether a condition depends on data, or on the variable of a loop without barriers."""
    match node:
        case For() if not has_barrier(node):
            loops = (*loops, node.iname)
        case If() if loops:
            if node.reads_data or not set(loops).isdisjoint(variable_names(node.condition)):
                return True
    return any(_has_guard_in_loop(child, loops) for child in children_of(node))
