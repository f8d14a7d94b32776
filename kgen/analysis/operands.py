"""What types operands may have: integers in subscripts, numbers in arithmetic and conditions."""

from __future__ import annotations

from collections.abc import Iterator

import pymbolic.primitives as p

from kgen.analysis.typing import ExpressionTyper
from kgen.errors import KgenIndexError, TypeInferenceFailure, message
from kgen.ir.expr import Expr, LinearSubscript, Reduction, TypeCast, to_text, walk
from kgen.ir.instruction import Assignment
from kgen.ir.kernel import LoopKernel
from kgen.ir.promotion import settle
from kgen.ir.types import NumpyType
from kgen.ir.vector_values import numbers_of

__all__ = ["check_operands"]


def check_operands(kernel: LoopKernel) -> LoopKernel:
    """Refuse operands for which there is no operation; return *kernel*, whose types are known.

    Raises :class:`KgenIndexError` for a subscript that is no integer, and
    :class:`TypeInferenceFailure` for vectors and complex numbers where only numbers, or numbers
    that have an order, can stand.
    """
    checker = _Checker(kernel)
    for insn in kernel.instructions:
        checker.typer.insn = insn
        for condition in insn.predicates:
            checker.refuse_vector(condition, condition, "is no condition")
        for node in walk(*insn.expressions()):
            checker.check(node)
        if isinstance(insn, Assignment):
            checker.check_assignment(insn)
    return kernel


class _Checker:
    """Looks at the types of what one kernel computes."""

    def __init__(self, kernel: LoopKernel) -> None:
        self.kernel = kernel
        self.typer = ExpressionTyper(kernel)

    def check(self, node: Expr) -> None:
        match node:
            case p.Subscript() | LinearSubscript():
                indices = node.index_tuple if isinstance(node, p.Subscript) else (node.index,)
                for index in indices:
                    self.check_index(node, index)
            case p.Comparison():
                self._check_comparison(node)
            case p.FloorDiv() | p.Remainder():
                self._refuse_complex(node, (node.numerator, node.denominator))
            case p.Min() | p.Max():
                self._refuse_complex(node, node.children)
            case TypeCast():
                self._check_cast(node)
            case Reduction(inames=()):
                raise self.typer.failure(
                    f"the reduction '{to_text(node)}' runs over no loop variable",
                    "name the loops that it sums over: Reduction('sum', ('i',), ...)",
                )
            case _:
                for condition in _conditions(node):
                    self.refuse_vector(node, condition, "is no condition")

    def check_index(self, access: Expr, index: Expr) -> None:
        """Refuse a subscript that is no integer."""
        if isinstance(index, int | p.Variable | p.Slice) and not self._may_be_real(index):
            return
        dtype = self._type_of(index).dtype
        if dtype.kind not in "biu":
            text = to_text(index)
            raise KgenIndexError(
                message(
                    f"the subscript '{text}' of '{to_text(access)}' is no integer: it is {dtype}",
                    kernel=self.kernel.name,
                    where=f"instruction '{self.typer.insn}'",
                    hint=f"'i // 2' is the quotient of integers; cast(int32, {text}) drops a "
                    "fraction",
                )
            )

    def _may_be_real(self, index: Expr) -> bool:
        return isinstance(index, p.Variable) and index.name not in self.kernel.inames

    def refuse_vector(self, node: Expr, operand: Expr, why: str) -> None:
        """Refuse a vector as an operand of *node*."""
        dtype = self._type_of(operand)
        if numbers_of(dtype.dtype) is not None:
            raise self._refusal(node, f"'{to_text(operand)}', a vector, {why}")

    def check_assignment(self, insn: Assignment) -> None:
        """Refuse a vector that is assigned to a number, and a number assigned to a vector."""
        if isinstance(insn.expression, p.Call | Reduction):
            value = self.typer.result(insn.expression)
            if isinstance(value, tuple):
                return
        place, own = self._type_of(insn.assignee), self._type_of(insn.expression)
        vectors = [dtype for dtype in (place, own) if numbers_of(dtype.dtype) is not None]
        if vectors and place != own:
            what = (
                "a vector is assigned to a number"
                if own in vectors
                else ("what is assigned to a vector is none of its type")
            )
            raise self._refusal(insn.assignee, what)

    def _check_comparison(self, node: p.Comparison) -> None:
        for side in (node.left, node.right):
            self.refuse_vector(node, side, "cannot be compared")
        if node.operator not in ("==", "!="):
            self._refuse_complex(node, (node.left, node.right))

    def _check_cast(self, node: TypeCast) -> None:
        wanted, own = node.type, self._type_of(node.child)
        is_vector = [numbers_of(dtype.numpy_dtype) is not None for dtype in (wanted, own)]
        if any(is_vector) and wanted != own:
            raise self._refusal(node, "vectors are not converted to other types")

    def _refuse_complex(self, node: Expr, operands: tuple[Expr, ...]) -> None:
        for operand in operands:
            if self._type_of(operand).is_complex():
                raise self.typer.failure(
                    f"in '{to_text(node)}': '{to_text(operand)}' is a complex number, which has "
                    "no order and no remainder",
                    f"use a part of it: real({to_text(operand)}), abs({to_text(operand)})",
                )

    def _type_of(self, expr: Expr) -> NumpyType:
        return settle(self.typer.operand(expr))

    def _refusal(self, node: Expr, why: str) -> TypeInferenceFailure:
        return self.typer.failure(f"in '{to_text(node)}': {why}", "use its numbers: v.x, v.s0")


def _conditions(node: Expr) -> Iterator[Expr]:
    """Give the parts of a node of which only their truth matters."""
    match node:
        case p.If():
            yield node.condition
        case p.LogicalAnd() | p.LogicalOr():
            yield from node.children
        case p.LogicalNot():
            yield node.child
