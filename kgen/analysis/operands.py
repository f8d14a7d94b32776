"""Type checks of operands: integers in subscripts, numbers in arithmetic and conditions."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import pymbolic.primitives as p

from kgen.analysis.typing import ExpressionTyper, UnknownType
from kgen.errors import KgenIndexError, TypeInferenceFailure, naming_place
from kgen.ir.expr import Expr, LinearSubscript, Reduction, TypeCast, WalkMapper, to_text, walk
from kgen.ir.instruction import Assignment, InstructionBase
from kgen.ir.kernel import LoopKernel
from kgen.ir.promotion import Literal, settle
from kgen.ir.types import NumpyType, OpaqueType
from kgen.ir.vector_values import numbers_of

__all__ = ["check_operands", "nodes_of"]


def check_operands(kernel: LoopKernel) -> LoopKernel:
    """Reject operands without a matching operation; return *kernel*, whose types are known.

    Raises :class:`KgenIndexError` for a subscript that is not an integer, and
    :class:`TypeInferenceFailure` for vectors and complex numbers where only scalars, or ordered
    numbers, are allowed.
    """
    checker = _Checker(kernel)
    opaque = _OpaqueUses(checker)
    for insn in kernel.instructions:
        with naming_place("instruction", insn):
            if opaque.names:
                opaque.reject(*insn.expressions())
            with contextlib.suppress(UnknownType):  # checked before code generation, when known
                checker.check_instruction(insn)
    checker.typer.leave_to(kernel)
    return kernel


_CHAINS = (p.Sum, p.Product)
_WHOLE = (int, p.Slice)


class _Checker:
    """Checks the types of the expressions of one kernel."""

    def __init__(self, kernel: LoopKernel) -> None:
        self.kernel = kernel
        self.typer = ExpressionTyper(kernel)

    def check_instruction(self, insn: InstructionBase) -> None:
        """Reject operands in *insn*."""
        for condition in insn.predicates:
            self.reject_vector(condition, condition, "is not a condition")
        for node in nodes_of(insn):
            kind: Any = type(node)
            check = _check_of(kind)
            if check is not None:
                check(self, node)
        if isinstance(insn, Assignment):
            self.check_assignment(insn)

    def _check_access(self, node: p.Subscript | LinearSubscript) -> None:
        indices = node.index_tuple if isinstance(node, p.Subscript) else (node.index,)
        for index in indices:
            self.check_index(node, index)

    def _check_division(self, node: p.FloorDiv | p.Remainder) -> None:
        self._reject_complex(node, (node.numerator, node.denominator))

    def _check_extremum(self, node: p.Min | p.Max) -> None:
        self._reject_complex(node, node.children)

    def _check_choice(self, node: p.If) -> None:
        self.reject_vector(node, node.condition, "is not a condition")

    def _check_truths(self, node: p.LogicalAnd | p.LogicalOr) -> None:
        for child in node.children:
            self.reject_vector(node, child, "is not a condition")

    def _check_negation(self, node: p.LogicalNot) -> None:
        self.reject_vector(node, node.child, "is not a condition")

    def check_index(self, access: Expr, index: Expr) -> None:
        """Reject a subscript that is not an integer."""
        if self._is_clearly_whole(index):
            return
        dtype = self._type_of(index).dtype
        if dtype.kind not in "biu":
            text = to_text(index)
            raise KgenIndexError(
                f"the subscript '{text}' of '{to_text(access)}' is not an integer: it is {dtype}",
                hint=f"write 'i // 2' for the quotient of integers, or cast(int32, {text}) to "
                "drop the fraction",
            )

    def _is_clearly_whole(self, index: Expr) -> bool:
        """Tell whether an index obviously adds and multiplies only loop variables and integers."""
        if isinstance(index, p.Variable):
            return index.name in self.kernel.inames
        if isinstance(index, _CHAINS):
            return all(map(self._is_clearly_whole, index.children))
        return isinstance(index, _WHOLE)

    def reject_vector(self, node: Expr, operand: Expr, why: str) -> None:
        """Reject a vector as an operand of *node*."""
        dtype = self._type_of(operand)
        if numbers_of(dtype.dtype) is not None:
            raise self._error(node, f"'{to_text(operand)}', a vector, {why}")

    def check_assignment(self, insn: Assignment) -> None:
        """Reject a vector that is assigned to a number, and a number assigned to a vector."""
        if isinstance(insn.expression, p.Call | Reduction):
            value = self.typer.result(insn.expression)
            if isinstance(value, tuple):
                return
        place, value = self._type_of(insn.assignee), self.typer.operand(insn.expression)
        own = settle(value)
        if isinstance(value, Literal) and place.kind in "iu":
            self._check_number(value.value, place, insn)
        vectors = [dtype for dtype in (place, own) if numbers_of(dtype.dtype) is not None]
        if vectors and place != own:
            what = (
                "a vector is assigned to a number"
                if own in vectors
                else ("the value assigned to a vector has another type")
            )
            raise self._error(insn.assignee, what)

    def _check_number(self, value: int | float | None, dtype: NumpyType, insn: Assignment) -> None:
        """Reject the assignment of a number that its type does not hold."""
        limits = np.iinfo(dtype.dtype)
        if value is not None and not limits.min - 1 < value < limits.max + 1:
            raise self.typer.failure(
                f"'{insn.assignee_name}', of type {dtype.dtype}, cannot be {value}",
                f"its values are {limits.min} to {limits.max}; declare another type",
            )

    def _check_comparison(self, node: p.Comparison) -> None:
        for side in (node.left, node.right):
            self.reject_vector(node, side, "cannot be compared")
        if node.operator not in ("==", "!="):
            self._reject_complex(node, (node.left, node.right))

    def _check_cast(self, node: TypeCast) -> None:
        wanted, own = node.type, self._type_of(node.child)
        is_vector = [numbers_of(dtype.numpy_dtype) is not None for dtype in (wanted, own)]
        if any(is_vector) and wanted != own:
            raise self._error(node, "vectors are not converted to other types")

    def _reject_complex(self, node: Expr, operands: tuple[Expr, ...]) -> None:
        for operand in operands:
            if self._type_of(operand).is_complex():
                raise self.typer.failure(
                    f"in '{to_text(node)}': '{to_text(operand)}' is a complex number, which has "
                    "no order and no remainder",
                    f"use a part of it: real({to_text(operand)}), abs({to_text(operand)})",
                )

    def _type_of(self, expr: Expr) -> NumpyType:
        return settle(self.typer.operand(expr))

    def _error(self, node: Expr, why: str) -> TypeInferenceFailure:
        return self.typer.failure(f"in '{to_text(node)}': {why}", "use its components: v.x, v.s0")


def nodes_of(insn: InstructionBase) -> Iterator[Expr]:
    """Yield the nodes of an instruction, except sums, products and calls."""
    yield from reversed(insn.reads.nodes)
    for lhs in insn.assignees:  # whose subscripts are read
        yield from (lhs,) if type(lhs) is p.Subscript else walk(lhs)


class _OpaqueUses(WalkMapper):
    """Find values of opaque types that are not arguments of a user-defined function."""

    def __init__(self, checker: _Checker) -> None:
        super().__init__()
        kernel = checker.kernel
        self.typer = checker.typer
        self.functions = kernel.functions
        self.names = {arg.name for arg in kernel.args if isinstance(arg.dtype, OpaqueType)}

    def reject(self, *exprs: Expr) -> None:
        for expr in exprs:
            self.rec(expr)

    def map_call(self, expr: p.Call, *args: Any, **kwargs: Any) -> None:
        is_own = isinstance(expr.function, p.Variable) and expr.function.name in self.functions
        for operand in expr.parameters:
            if not (is_own and isinstance(operand, p.Variable) and operand.name in self.names):
                self.rec(operand)

    def map_variable(self, expr: p.Variable, *args: Any, **kwargs: Any) -> None:
        if expr.name in self.names:
            raise self.typer.failure(
                f"'{expr.name}' has an opaque type: it can only be passed to functions that are "
                "registered by register_callable",
                f"pass it unchanged: f({expr.name})",
            )

    map_tagged_variable = map_variable


_CHECKS: Mapping[type[Any], Callable[[_Checker, Any], None]] = {
    p.Subscript: _Checker._check_access,
    LinearSubscript: _Checker._check_access,
    p.Comparison: _Checker._check_comparison,
    p.FloorDiv: _Checker._check_division,
    p.Remainder: _Checker._check_division,
    p.Min: _Checker._check_extremum,
    p.Max: _Checker._check_extremum,
    TypeCast: _Checker._check_cast,
    p.If: _Checker._check_choice,
    p.LogicalAnd: _Checker._check_truths,
    p.LogicalOr: _Checker._check_truths,
    p.LogicalNot: _Checker._check_negation,
}


@lru_cache(maxsize=256)
def _check_of(kind: Any) -> Callable[[_Checker, Any], None] | None:
    """Return the check of a node type: its own, or that of its nearest base class."""
    return next((_CHECKS[base] for base in kind.__mro__ if base in _CHECKS), None)
