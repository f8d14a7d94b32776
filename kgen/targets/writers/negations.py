"""Negated integers, hidden from NVIDIA's compilers where these would lose the sign.

On GPUs of compute capability 9.0 and later, ptxas joins two 32-bit minima, or two maxima, to one
instruction (``VIMNMX3``). If an operand of the inner one is a negated value, the instruction gets
the value itself: ``min(min(a, -b), c)`` is computed as ``min(min(a, b), c)``. Versions 12.9 to 13.5
have this fault, see ``docs/nvcc.md``; NVIDIA's OpenCL compiles with the same ptxas. Also ``-4*b``
and ``-b - c`` are negated values. The target's ``hidden_integer`` computes an operand in a way that
ptxas does not recognize as a negation, and needs one more instruction.

Compilers follow values through variables and arrays that the kernel itself writes.
"""

from __future__ import annotations

import numpy as np
import pymbolic.primitives as p

from kgen.analysis.typing import ExpressionTyper
from kgen.ir.data import ArrayArg
from kgen.ir.expr import (
    Expr,
    TruncQuotient,
    TruncRemainder,
    TypeCast,
    is_constant,
    variable_names,
    walk,
)
from kgen.ir.instruction import Assignment
from kgen.ir.kernel import LoopKernel
from kgen.ir.promotion import common, settle
from kgen.targets.base import CFamilyLanguage
from kgen.targets.preamble import Preamble
from kgen.targets.writers.terms import signed_terms

__all__ = [
    "hidden",
    "is_extremum_of_branches",
    "may_be_negated",
    "is_reversed",
    "is_stored_negation",
    "is_stored_subscript",
    "with_sign",
]

_QUOTIENTS = (p.FloorDiv, p.Remainder, TruncQuotient, TruncRemainder)
_SHIFTS = (p.LeftShift, p.RightShift)
#: Functions whose results are not negations, if their operands are hidden.
_EXTREMA = frozenset({"abs", "max", "min"})


def with_sign(
    target: CFamilyLanguage, preamble: Preamble, kernel: LoopKernel, operand: Expr, text: str
) -> str:
    """Return *text*, that of a 32-bit operand of a minimum, hidden if it may be a negation."""
    if target.hidden_integer is None or not may_be_negated(kernel, operand):
        return text
    return hidden(target, preamble, text)


def hidden(target: CFamilyLanguage, preamble: Preamble, text: str) -> str:
    """Return the text of a 32-bit integer that the compiler does not recognize as a negation."""
    if target.hidden_integer is None:
        return text
    preamble.add(*target.hidden_integer_needs)
    return target.hidden_integer.format(text)


def may_be_negated(kernel: LoopKernel, expr: Expr) -> bool:
    """Tell whether a compiler may find that *expr* is a negated value.

    >>> import kgen as lp
    >>> knl = lp.make_kernel("{ [i]: 0<=i<n }", "out[i] = a[i]").default_entrypoint
    >>> a, i = p.Variable("a"), p.Variable("i")
    >>> may_be_negated(knl, i - 4), may_be_negated(knl, a[i] - i), may_be_negated(knl, 4 - 4*i)
    (False, False, True)
    """
    match expr:
        case p.Sum():
            return _is_difference(kernel, expr)
        case p.Product():
            return any(
                _is_negative(child) or may_be_negated(kernel, child) for child in expr.children
            )
        case p.If() if not is_extremum_of_branches(expr):
            return may_be_negated(kernel, expr.then) or may_be_negated(kernel, expr.else_)
        case TypeCast():
            return may_be_negated(kernel, expr.child)
        case p.Call(function=p.Variable(name)) if name not in _EXTREMA:
            return any(may_be_negated(kernel, operand) for operand in expr.parameters)
    if isinstance(expr, _QUOTIENTS):
        return may_be_negated(kernel, expr.numerator)
    return isinstance(expr, _SHIFTS) and may_be_negated(kernel, expr.shiftee)


def is_reversed(index: Expr) -> bool:
    """Tell whether a term of *index* is a negative multiple of a variable."""
    terms = signed_terms(index.children if isinstance(index, p.Sum) else (index,))
    return any(is_negative and isinstance(term, p.Product) for is_negative, term in terms)


def _is_negative(expr: Expr) -> bool:
    return isinstance(expr, int | np.integer) and bool(expr < 0)


def _is_difference(kernel: LoopKernel, expr: p.Sum) -> bool:
    """Tell whether a sum may be a negation: no term can be zero for the compiler if it is read."""
    terms = signed_terms(expr.children)
    if any(not is_negative and _is_read(kernel, term) for is_negative, term in terms):
        return False
    return any(
        (is_negative and not is_constant(term)) or may_be_negated(kernel, term)
        for is_negative, term in terms
    )


def _is_read(kernel: LoopKernel, expr: Expr) -> bool:
    """Tell whether *expr* is an element of an argument that the kernel does not write."""
    if not isinstance(expr, p.Subscript) or not isinstance(expr.aggregate, p.Variable):
        return False
    name = expr.aggregate.name
    return isinstance(kernel.arg_dict.get(name), ArrayArg) and name not in kernel.writers


def is_stored_negation(kernel: LoopKernel, insn: Assignment, typer: ExpressionTyper) -> bool:
    """Tell whether a variable, of which a minimum may be taken, is set to a negation."""
    return (
        insn.assignee_name in kernel.readers
        and may_be_negated(kernel, insn.expression)
        and any(
            other.reads.functions or any(_is_comparison(node, typer) for node in other.reads.nodes)
            for other in kernel.instructions
        )
    )


def is_stored_subscript(kernel: LoopKernel, insn: Assignment) -> bool:
    """Tell whether a variable for subscripts is set to a negative multiple (``docs/nvcc.md``)."""
    return is_reversed(insn.expression) and any(
        insn.assignee_name in variable_names(*access.index_tuple)
        for other in kernel.instructions
        for access in walk(*other.assignees, *other.read_exprs())
        if isinstance(access, p.Subscript)
    )


def _is_comparison(expr: Expr, typer: ExpressionTyper) -> bool:
    """Tell whether *expr* compares integers."""
    if isinstance(expr, p.Comparison):
        sides = common(typer.operand(expr.left), typer.operand(expr.right))
        return settle(sides).is_integral()
    return isinstance(expr, p.Min | p.Max)


def is_extremum_of_branches(expr: p.If) -> bool:
    """Tell whether a conditional value is a minimum or maximum: ``if(a < b, a, b)``."""
    compared = expr.condition
    if not isinstance(compared, p.Comparison) or compared.operator in ("==", "!="):
        return False
    return {compared.left, compared.right} == {expr.then, expr.else_}
