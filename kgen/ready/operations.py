"""Operations of reductions and scans, from expressions in C of two operands ``a`` and ``b``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pymbolic.primitives as p
from pycparser import c_ast

from kgen.errors import KgenSyntaxError
from kgen.ir.expr import Expr, substitute
from kgen.ir.reductions import ReductionOperation, parse_reduction_op
from kgen.ir.types import BOOL8, KgenType, NumpyType
from kgen.ready.c_functions import Value
from kgen.ready.c_types import Dtype
from kgen.ready.expressions import Scope, to_value

__all__ = [
    "Combination",
    "FlaggedOperation",
    "SnippetOperation",
    "operation_of",
    "read_combination",
]

_BOOL: Final = np.dtype(np.bool_)
_CROSSING: Final = "across_seg_boundary"


@dataclass(frozen=True)
class Combination:
    """An expression in C of two values, and its neutral element.

    ``neutral`` is ``None`` if it has none.
    """

    text: str
    dtype: Dtype
    combined: Expr
    neutral: Expr | None

    @property
    def is_commutative(self) -> bool:
        """Tell whether the operation is known to be commutative."""
        return _neutral_of(self.combined, self.dtype) is not None

    def of(self, a: Expr, b: Expr, crosses: Expr = False) -> Expr:
        """Return *a* combined with its successor *b*.

        *crosses* tells whether a segment begins in *b*, to which *a* does not belong.
        """
        result: Expr = substitute(self.combined, {"a": a, "b": b, _CROSSING: crosses})
        return result


def read_combination(
    text: str,
    what: str,
    dtype: Any,
    neutral: str | None,
    functions: Mapping[str, c_ast.FuncDef],
) -> Combination:
    """Return the combination that an expression in C of ``a`` and ``b`` defines.

    The neutral element of sums, products, maxima and minima is inferred if it is not given.

    >>> combination = read_combination("a > b ? a : b", "reduce_expr", np.int32, "0", {})
    >>> print(combination.of(p.Variable("x"), p.Variable("y")), "and", combination.neutral)
    x if x > y else y and 0
    """
    dtype = np.dtype(dtype)
    numbers = {name: Value(p.Variable(name), dtype) for name in "ab"}
    numbers[_CROSSING] = Value(p.Variable(_CROSSING), _BOOL)
    combined = to_value(text, what, Scope(numbers, {}, functions), dtype)
    start = _neutral_of(combined, dtype)
    if neutral is not None:
        start = to_value(str(neutral), "neutral", Scope({}, {}, functions), dtype)
    return Combination(text, dtype, combined, start)


_A, _B = p.Variable("a"), p.Variable("b")


def _neutral_of(combined: Expr, dtype: Dtype) -> Expr:
    """Return the neutral element of a known operation; ``None`` for others."""
    if combined in (p.Sum((_A, _B)), p.BitwiseOr((_A, _B)), p.BitwiseXor((_A, _B))):
        return dtype.type(0)
    if combined == p.Product((_A, _B)):
        return dtype.type(1)
    for name in ("max", "min"):
        if combined == p.Variable(name)(_A, _B) and dtype.kind in "iuf":
            (neutral,) = parse_reduction_op(name).neutral((NumpyType(dtype),))
            return neutral
    return None


class SnippetOperation(ReductionOperation):
    """The operation of a :class:`Combination` with a neutral element."""

    def __init__(self, combination: Combination) -> None:
        if combination.neutral is None:
            raise KgenSyntaxError(f"'{combination.text}' has no neutral element")
        self.combination = combination

    def __str__(self) -> str:
        return f"<{self.combination.text}>"

    @property
    def arg_count(self) -> int:
        """The number of operands: one."""
        return 1

    def result_dtypes(self, *dtypes: KgenType) -> tuple[KgenType, ...]:
        """Return the types in which values are combined."""
        return (NumpyType(self.combination.dtype),)

    def neutral_element(self, *dtypes: KgenType, callables_table: Any, target: Any) -> Any:
        """Return the neutral element."""
        return self.combination.neutral, callables_table

    def __call__(
        self, dtypes: Any, operand1: Expr, operand2: Expr, callables_table: Any, target: Any
    ) -> Any:
        """Return *operand1* combined with *operand2*."""
        return self.combination.of(operand1, operand2), callables_table


class FlaggedOperation(ReductionOperation):
    """A :class:`Combination` of values with flags.

    In a segmented scan, a flag marks the beginning of a segment, available to the expression as
    ``across_seg_boundary``. Without a neutral element, a flag marks an existing value.
    """

    is_commutative = False

    def __init__(self, combination: Combination) -> None:
        self.combination = combination

    def __str__(self) -> str:
        return f"<{self.combination.text} with flags>"

    @property
    def arg_count(self) -> int:
        """The number of operands: the value and its flag."""
        return 2

    def result_dtypes(self, *dtypes: KgenType) -> tuple[KgenType, ...]:
        """Return the types of a value and its flag."""
        return (NumpyType(self.combination.dtype), BOOL8)

    def neutral_element(self, *dtypes: KgenType, callables_table: Any, target: Any) -> Any:
        """Return the neutral element, or an arbitrary value flagged as absent."""
        neutral = self.combination.neutral
        start = self.combination.dtype.type(0) if neutral is None else neutral
        return (start, False), callables_table

    def __call__(
        self,
        dtypes: Any,
        operand1: Sequence[Expr],
        operand2: Sequence[Expr],
        callables_table: Any,
        target: Any,
    ) -> Any:
        """Return *operand1* combined with *operand2*."""
        (a, has_a), (b, has_b) = operand1, operand2
        if self.combination.neutral is None:
            both = p.If(has_a, self.combination.of(a, b), b)
            value = both if has_b is True else p.If(has_b, both, a)
        else:
            value = self.combination.of(a, b, has_b)
        has_any = True if has_b is True else p.LogicalOr((has_a, has_b))
        return (value, has_any), callables_table


#: kgen's own operations by their expressions, and their neutral elements.
_KNOWN: Final = {
    "sum": (p.Sum((_A, _B)), 0),
    "product": (p.Product((_A, _B)), 1),
}


def operation_of(combination: Combination) -> ReductionOperation:
    """Return the operation for a reduction: kgen's own where it is one of these.

    >>> operation_of(read_combination("a+b", "reduce_expr", np.float32, "0", {}))
    'sum'
    """
    neutral = combination.neutral
    for name, (combined, start) in _KNOWN.items():
        is_same = combination.combined == combined and combination.dtype.itemsize >= 4
        if is_same and isinstance(neutral, np.generic) and neutral == start:
            return parse_reduction_op(name)
    return SnippetOperation(combination)
