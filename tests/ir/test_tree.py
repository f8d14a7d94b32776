"""Nodes of trees: those below, in the order of the text, and copies with some changed."""

from __future__ import annotations

from kgen.ast.nodes import Block, If, Node, Run
from kgen.ir.tree import children_of, map_children, map_exprs, nodes_in


def tree() -> tuple[Run, Run, Run, If, Block]:
    one, two, three = (Run(name, {"i": at}) for at, name in enumerate(("a", "b", "c")))
    choice = If(True, one, two)
    return one, two, three, choice, Block((choice, three))


def test_nodes_stand_in_the_order_of_the_text() -> None:
    one, two, three, choice, block = tree()
    assert children_of(choice) == (one, two)
    assert children_of(If(True, one)) == (one,)
    assert list(map(id, nodes_in(block))) == list(map(id, (block, choice, one, two, three)))


def test_a_node_in_which_nothing_changes_stays_the_same_object() -> None:
    one, *_, choice, block = tree()
    assert map_children(block, lambda child: child) is block
    assert map_exprs(choice, lambda expr: expr) is choice

    def change(node: Node) -> Node:
        return two if node is one else map_children(node, change)

    two = Run("d", {})
    changed = change(block)
    assert isinstance(changed, Block)
    assert changed.children[0] == If(True, two, choice.orelse)
    assert changed.children[1] is block.children[1]
