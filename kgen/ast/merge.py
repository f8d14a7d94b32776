"""Tidying the code tree: blocks opened, neighbours under equal guards and names merged."""

from __future__ import annotations

from kgen.ast.nodes import Barrier, Block, Comment, For, If, Let, Node, Run
from kgen.ir.expr import variable_names


def merge_guards(node: Node) -> Node:
    """Open nested blocks, drop empty nodes, and join neighbours under equal conditions.

    ``if (c) a; if (c) b;`` becomes ``if (c) { a; b; }``: no statement changes the loop
    variables and parameters that a condition of isl reads. Neighbours that give the same
    name to the same value, and barriers among them, do so once.
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
            body = merge_guards(node.body)
            is_unused = is_empty(body) or isinstance(body, Barrier)
            return body if is_unused else Let(node.name, node.dtype, node.value, body)
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
    joined = _join_names(opened)
    return joined[0] if len(joined) == 1 else Block(tuple(joined))


def _join_names(children: list[Node]) -> list[Node]:
    """Put neighbours that name the same value below one name."""
    result: list[Node] = []
    at = 0
    while at < len(children):
        named = _named(children[at])
        last = at
        if named is not None:
            for k in range(at + 1, len(children)):
                other = _named(children[k])
                if other is not None and other.name == named.name and other.value == named.value:
                    last = k
                elif not isinstance(children[k], Barrier):
                    break
        if named is None or last == at:
            result.append(children[at])
        else:
            inside = [_without_name(child) for child in children[at : last + 1]]
            result.append(Let(named.name, named.dtype, named.value, _block(inside)))
        at = last + 1
    return result


def _named(node: Node) -> Let | None:
    """Return the name that *node* begins with, perhaps under a condition that does not use it."""
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
            return If(node.condition, named.body, None, node.reads_data)
    return node


def _is_stable(guard: If) -> bool:
    """Tell whether the condition reads only loop variables, parameters and axes."""
    return not guard.reads_data
