"""Conditions that loops do not change, moved out of them."""

from __future__ import annotations

import dataclasses

import pymbolic.primitives as p

from kgen.ast.expr import conjunction
from kgen.ast.nodes import Block, Comment, For, If, Let, Node
from kgen.ir.expr import Expr, variable_names

__all__ = ["hoist_guards"]


def hoist_guards(node: Node) -> Node:
    """Move the parts of conditions that a loop does not change out of it.

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
    match node:
        case For():
            body = hoist_guards(node.body)
            free, body = _split(body, node.iname)
            loop = dataclasses.replace(node, body=body)
            return If(free, loop) if free is not True else loop
        case If():
            orelse = None if node.orelse is None else hoist_guards(node.orelse)
            return If(node.condition, hoist_guards(node.body), orelse, node.reads_data)
        case Let():
            return Let(node.name, node.dtype, node.value, hoist_guards(node.body))
        case Block():
            return Block(tuple(map(hoist_guards, node.children)))
        case Comment():
            return Comment(node.text, hoist_guards(node.body))
    return node


def _split(body: Node, iname: str) -> tuple[Expr, Node]:
    """Take the conditions without *iname* off a loop's body."""
    if not isinstance(body, If) or body.orelse is not None or body.reads_data:
        return True, body
    condition = body.condition
    parts = condition.children if isinstance(condition, p.LogicalAnd) else (condition,)
    free = [part for part in parts if iname not in variable_names(part)]
    bound = [part for part in parts if iname in variable_names(part)]
    inner = If(conjunction(bound), body.body) if bound else body.body
    return conjunction(free), inner
