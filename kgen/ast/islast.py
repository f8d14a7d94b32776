"""isl's AST enumerations, which its type stubs do not describe right."""

from __future__ import annotations

from typing import Any, Final

import islpy as isl

NODE: Final[Any] = isl.ast_node_type
KIND: Final[Any] = isl.ast_expr_type
OP: Final[Any] = isl.ast_expr_op_type
