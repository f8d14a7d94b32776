"""Barriers kept apart from the branches around them, for compilers that join the two."""

from __future__ import annotations

from kgen.ast.nodes import Barrier, Block, If, Node, has_barrier, map_children

__all__ = ["separate_barriers"]

_END = Barrier("local", "keeps the way around apart")


def separate_barriers(node: Node) -> Node:
    """Write barriers twice, and one at the end of each branch with barriers.

    ::

        if n >= 2                            if n >= 2
          t[lid(0)] = a[lid(0)]                t[lid(0)] = a[lid(0)]
          barrier                  =>          barrier
          if lid(0) < 2                        barrier
            b[lid(0)] = t[0]                   if lid(0) < 2
                                                 b[lid(0)] = t[0]
                                               barrier
    """
    match node:
        case Barrier():
            return Block((node, Barrier(node.memory, "keeps the branch behind it apart")))
        case If():
            orelse = None if node.orelse is None else _closed(node.orelse)
            return If(node.condition, _closed(node.body), orelse, node.reads_data)
    return map_children(node, separate_barriers)


def _closed(branch: Node) -> Node:
    body = separate_barriers(branch)
    return Block((body, _END)) if has_barrier(branch) else body
