"""Operations of reductions and scans, from expressions in C of two operands ``a`` and ``b``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pymbolic.primitives as p

from kgen.errors import KgenSyntaxError
from kgen.ir.expr import Expr, substitute
from kgen.ir.reductions import ReductionOperation, parse_reduction_op
from kgen.ir.types import BOOL8, KgenType, NumpyType
from kgen.ready.c_functions import Value, from_leaves, leaves_of, zero_of
from kgen.ready.c_text import Preamble
from kgen.ready.c_types import Dtype
from kgen.ready.expressions import Scope, to_values
from kgen.ready.structures import check_structure, is_structure, leaf_types

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

    Values are sequences of numbers: one, or those of a structure. ``neutral`` is ``None`` if there
    is no neutral element.
    """

    text: str
    dtype: Dtype
    combined: tuple[Expr, ...]
    neutral: tuple[Expr, ...] | None

    @property
    def dtypes(self) -> tuple[Dtype, ...]:
        """The types of the numbers of a value."""
        return leaf_types(self.dtype)

    @property
    def start(self) -> tuple[Expr, ...]:
        """The neutral element; without one, any value."""
        if self.neutral is not None:
            return self.neutral
        return tuple(leaf.expr for leaf in leaves_of(zero_of(self.dtype)))

    @property
    def is_commutative(self) -> bool:
        """Tell whether the operation is known to be commutative."""
        return (
            not is_structure(self.dtype) and _neutral_of(self.combined[0], self.dtype) is not None
        )

    def of(self, a: Sequence[Expr], b: Sequence[Expr], crosses: Expr = False) -> tuple[Expr, ...]:
        """Return *a* combined with its successor *b*.

        *crosses* tells whether a segment begins in *b*, to which *a* does not belong.
        """
        names = (*_names("a", self.dtypes), *_names("b", self.dtypes), _CROSSING)
        values = dict(zip(names, (*a, *b, crosses), strict=True))
        return tuple(substitute(expr, values) for expr in self.combined)


def _names(operand: str, dtypes: Sequence[Dtype]) -> tuple[str, ...]:
    """Return the variables for the numbers of an operand."""
    if len(dtypes) == 1:
        return (operand,)
    return tuple(f"{operand}_{k}" for k in range(len(dtypes)))


def read_combination(
    text: str,
    what: str,
    dtype: Any,
    neutral: str | None,
    preamble: Preamble,
) -> Combination:
    """Return the combination that an expression in C of ``a`` and ``b`` defines.

    The neutral element of sums, products, maxima and minima is inferred if it is not given.

    >>> combination = read_combination("a > b ? a : b", "reduce_expr", np.int32, "0", Preamble())
    >>> print(*combination.of([p.Variable("x")], [p.Variable("y")]), "and", *combination.neutral)
    x if x > y else y and 0
    """
    dtype = check_structure(np.dtype(dtype), f"the type of '{what}'")
    kinds = leaf_types(dtype)
    numbers = {x: from_leaves(dtype, map(p.Variable, _names(x, kinds))) for x in "ab"}
    numbers[_CROSSING] = Value(p.Variable(_CROSSING), _BOOL)
    scope = Scope(numbers, {}, preamble.functions, types=preamble.types)
    combined = to_values(text, what, scope, dtype)
    if neutral is not None:
        alone = Scope({}, {}, preamble.functions, types=preamble.types)
        start: Any = to_values(str(neutral), "neutral", alone, dtype)
    else:
        known = None if is_structure(dtype) else _neutral_of(combined[0], dtype)
        start = None if known is None else (known,)
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
        """The number of operands: one, or those of a structure."""
        return len(self.combination.dtypes)

    def result_dtypes(self, *dtypes: KgenType) -> tuple[KgenType, ...]:
        """Return the types in which values are combined."""
        return tuple(map(NumpyType, self.combination.dtypes))

    def neutral_element(self, *dtypes: KgenType, callables_table: Any, target: Any) -> Any:
        """Return the neutral element."""
        return _alone(self.combination.start), callables_table

    def __call__(
        self, dtypes: Any, operand1: Any, operand2: Any, callables_table: Any, target: Any
    ) -> Any:
        """Return *operand1* combined with *operand2*."""
        if self.arg_count == 1:
            operand1, operand2 = (operand1,), (operand2,)
        return _alone(self.combination.of(operand1, operand2)), callables_table


def _alone(values: tuple[Expr, ...]) -> Expr:
    """Return the only one of some values, or all of them."""
    return values[0] if len(values) == 1 else values


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
        """The number of operands: the numbers of the value, and its flag."""
        return len(self.combination.dtypes) + 1

    def result_dtypes(self, *dtypes: KgenType) -> tuple[KgenType, ...]:
        """Return the types of a value and its flag."""
        return (*map(NumpyType, self.combination.dtypes), BOOL8)

    def neutral_element(self, *dtypes: KgenType, callables_table: Any, target: Any) -> Any:
        """Return the neutral element, or an arbitrary value flagged as absent."""
        return (*self.combination.start, False), callables_table

    def __call__(
        self,
        dtypes: Any,
        operand1: Sequence[Expr],
        operand2: Sequence[Expr],
        callables_table: Any,
        target: Any,
    ) -> Any:
        """Return *operand1* combined with *operand2*."""
        (*a, has_a), (*b, has_b) = operand1, operand2
        value: Sequence[Expr]
        if self.combination.neutral is None:
            combined = self.combination.of(a, b)
            value = [p.If(has_a, both, new) for both, new in zip(combined, b, strict=True)]
            if has_b is not True:
                value = [p.If(has_b, both, old) for both, old in zip(value, a, strict=True)]
        else:
            value = self.combination.of(a, b, has_b)
        has_any = True if has_b is True else p.LogicalOr((has_a, has_b))
        return (*value, has_any), callables_table


#: kgen's own operations by their expressions, and their neutral elements.
_KNOWN: Final = {
    "sum": (p.Sum((_A, _B)), 0),
    "product": (p.Product((_A, _B)), 1),
}


def operation_of(combination: Combination) -> ReductionOperation:
    """Return the operation for a reduction: kgen's own where it is one of these.

    >>> operation_of(read_combination("a+b", "reduce_expr", np.float32, "0", Preamble()))
    'sum'
    """
    for name, (combined, start) in _KNOWN.items():
        is_same = combination.combined == (combined,) and combination.dtype.itemsize >= 4
        if is_same and combination.neutral is not None:
            (neutral,) = combination.neutral
            if isinstance(neutral, np.generic) and neutral == start:
                return parse_reduction_op(name)
    return SnippetOperation(combination)
