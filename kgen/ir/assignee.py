"""The variables and elements that the left-hand side of an assignment writes."""

from __future__ import annotations

from collections.abc import Callable

import pymbolic.primitives as p

from kgen.errors import KernelError
from kgen.ir.expr import Expr, LinearSubscript, SubArrayRef
from kgen.ir.nodes import to_text

__all__ = ["assignee_name", "index_of", "with_subscripts"]


def assignee_name(lhs: Expr) -> str:
    """Return the name of the variable that *lhs* writes, or raise an error."""
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


def with_subscripts(lhs: Expr, f: Callable[[Expr], Expr]) -> Expr:
    """Return *lhs* with *f* applied to its subscripts, but not to the variable that it writes."""
    match lhs:
        case p.Subscript(index=tuple()):
            return p.Subscript(lhs.aggregate, tuple(f(part) for part in lhs.index_tuple))
        case p.Subscript():
            return p.Subscript(lhs.aggregate, f(lhs.index))
        case LinearSubscript():
            return LinearSubscript(lhs.aggregate, f(lhs.index))
        case SubArrayRef():
            return SubArrayRef(lhs.swept_inames, with_subscripts(lhs.subscript, f))
        case p.Lookup():
            return p.Lookup(with_subscripts(lhs.aggregate, f), lhs.name)
    return lhs
