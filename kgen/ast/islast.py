"""isl's AST: enumerations that its type stubs declare incorrectly, and lists."""

from __future__ import annotations

from typing import Any, Final

import islpy as isl

NODE: Final[Any] = isl.ast_node_type
KIND: Final[Any] = isl.ast_expr_type
OP: Final[Any] = isl.ast_expr_op_type


def children_of_block(block: isl.AstNode) -> list[isl.AstNode]:
    """Return the nodes of a block, in order."""
    children = block.block_get_children()
    return [children.get_at(k) for k in range(int(children.n_ast_node()))]
