"""Tidying the code tree: blocks opened, neighbouring equal guards merged."""

from __future__ import annotations

from kgen.ast.nodes import Barrier, Block, Comment, For, If, Let, Node, Run


def merge_guards(node: Node) -> Node:
    """Open nested blocks, drop empty nodes, and join neighbours under equal conditions.

    ``if (c) a; if (c) b;`` becomes ``if (c) { a; b; }``: no statement changes the loop
    variables and parameters that a condition of isl reads.
    """
    match node:
        case Block():
            return _block([merge_guards(child) for child in node.children])
        case For():
            body = merge_guards(node.body)
            if is_empty(body):
                return Block(())
            return For(
                node.iname, node.dtype, node.first, node.stop, node.step, body, node.comment
            )
        case If():
            body = merge_guards(node.body)
            orelse = None if node.orelse is None else merge_guards(node.orelse)
            if orelse is not None and is_empty(orelse):
                orelse = None
            if is_empty(body) and orelse is None:
                return Block(())
            return If(node.condition, body, orelse, node.reads_data)
        case Let():
            return Let(node.name, node.dtype, node.value, merge_guards(node.body))
        case Comment():
            return Comment(node.text, merge_guards(node.body))
        case Run() | Barrier():
            return node


def is_empty(node: Node) -> bool:
    """Tell whether nothing happens in *node*."""
    return isinstance(node, Block) and not node.children


def _block(children: list[Node]) -> Node:
    opened: list[Node] = []
    for child in children:
        for part in child.children if isinstance(child, Block) else (child,):
            last = opened[-1] if opened else None
            if (
                isinstance(part, If)
                and isinstance(last, If)
                and part.orelse is None
                and last.orelse is None
                and part.condition == last.condition
                and _is_stable(part)
            ):
                opened[-1] = If(part.condition, _block([last.body, part.body]))
            else:
                opened.append(part)
    return opened[0] if len(opened) == 1 else Block(tuple(opened))


def _is_stable(guard: If) -> bool:
    """Tell whether the condition reads only loop variables, parameters and axes."""
    return not guard.reads_data
