"""Barriers kept apart from ways around them, for compilers that join what is behind the two."""

from __future__ import annotations

import pymbolic.primitives as p

from kgen.ast.nodes import Barrier, Block, For, If, Node, children_of, has_barrier, map_children

__all__ = ["has_fragile_barriers", "separate_barriers"]

_END = Barrier("local", "keeps the way around apart")


def separate_barriers(node: Node) -> Node:
    """Write a barrier at the end of each branch with barriers.

    ::

        if n >= 2                            if n >= 2
          t[lid(0)] = a[lid(0)]                t[lid(0)] = a[lid(0)]
          barrier                  =>          barrier
          if lid(0) < 2                        if lid(0) < 2
            b[lid(0)] = t[0]                     b[lid(0)] = t[0]
                                               barrier
    """
    return map_children(node, _closed if isinstance(node, If) else separate_barriers)


def _closed(branch: Node) -> Node:
    body = separate_barriers(branch)
    if not has_barrier(branch):
        return body
    return Block((*(body.children if isinstance(body, Block) else (body,)), _END))


def has_fragile_barriers(node: Node) -> bool:
    """Tell whether work may be lost behind barriers although they are kept apart.

    That is seen where code that is not the end of the function follows a way around a barrier,
    and where conditions on data are asked one after the other, ``lid(0) < 2 && a[i] > 0``.
    """
    return has_barrier(node) and (_goes_around(node) or _asks_data(node))


def _goes_around(node: Node, *, at_end: bool = True, guarded: bool = False) -> bool:
    match node:
        case Barrier():
            return guarded
        case For():
            at_end = False
        case If():
            guarded = guarded or not at_end or node.orelse is not None
    children = children_of(node)
    return any(
        _goes_around(child, at_end=at_end and child is children[-1], guarded=guarded)
        for child in children
    )


def _asks_data(node: Node) -> bool:
    if isinstance(node, If) and node.reads_data and isinstance(node.condition, p.LogicalAnd):
        return True
    return any(map(_asks_data, children_of(node)))
