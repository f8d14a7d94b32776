"""Hoisting loop-invariant conditions out of loops and definitions of values."""

from __future__ import annotations

from kgen.ast.expr import conjunction, conjuncts
from kgen.ast.nodes import For, If, Let, Node
from kgen.ir.expr import Expr, variable_names
from kgen.ir.fields import replace
from kgen.ir.tree import map_children

__all__ = ["hoist_guards"]


def hoist_guards(node: Node) -> Node:
    """Hoist loop-invariant parts of conditions out of loops.

    ::

        for (int j = 0; j < m; ++j)
          if (i >= 1 && i + j >= n)
            S(i, j);

    becomes ::

        if (i >= 1)
          for (int j = 0; j < m; ++j)
            if (i + j >= n)
              S(i, j);
    """
    node = map_children(node, hoist_guards)
    if not isinstance(node, For | Let):
        return node
    free, body = _split(node.body, node.name)
    return node if free is True else If(free, replace(node, body=body))


def _split(body: Node, iname: str) -> tuple[Expr, Node]:
    """Split off the conditions of a loop body that do not depend on *iname*."""
    if not isinstance(body, If) or body.orelse is not None or body.reads_data:
        return True, body
    parts = conjuncts(body.condition)
    free = [part for part in parts if iname not in variable_names(part)]
    bound = [part for part in parts if iname in variable_names(part)]
    inner = If(conjunction(bound), body.body) if bound else body.body
    return conjunction(free), inner
