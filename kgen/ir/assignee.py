"""What the left-hand side of an assignment writes."""

from __future__ import annotations

import pymbolic.primitives as p

from kgen.errors import KernelError
from kgen.ir.expr import Expr, LinearSubscript, SubArrayRef
from kgen.ir.expr_text import to_text

__all__ = ["assignee_name", "index_of"]


def assignee_name(lhs: Expr) -> str:
    """Return the name of the variable that *lhs* writes, or refuse."""
    match lhs:
        case p.Variable():
            return lhs.name
        case p.Subscript() | LinearSubscript():
            return assignee_name(lhs.aggregate)
        case SubArrayRef():
            return assignee_name(lhs.subscript)
        case p.Lookup():
            return assignee_name(lhs.aggregate)
    raise KernelError(
        f"'{to_text(lhs)}' cannot be assigned to\n"
        "  hint: the left-hand side is a variable or an array element, such as x or a[i, j]"
    )


def index_of(lhs: Expr) -> tuple[Expr, ...]:
    """Return the subscript with which *lhs* is written; empty for a scalar."""
    match lhs:
        case p.Subscript():
            return lhs.index_tuple
        case LinearSubscript():
            return (lhs.index,)
        case SubArrayRef():
            return lhs.subscript.index_tuple
        case p.Lookup():
            return index_of(lhs.aggregate)
    return ()
