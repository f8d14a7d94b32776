"""Reduction operations: their names, neutral elements, types and combining step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymbolic.primitives as p

from kgen.errors import KgenError, near_names
from kgen.ir.types import BOOL8, INT32, KgenType

#: A pymbolic expression or a scalar constant.
Expr = Any


@dataclass(frozen=True)
class ReductionOperation:
    """An associative operation on ``arg_count`` operands.

    ``neutral(dtypes)`` gives the start values, ``combine(a, b)`` one step on tuples of
    expressions, ``result(dtypes)`` the types of the accumulators.
    """

    name: str
    arg_count: int
    neutral: Callable[[Sequence[KgenType]], tuple[Expr, ...]]
    combine: Callable[[Sequence[Expr], Sequence[Expr]], tuple[Expr, ...]]
    result: Callable[[Sequence[KgenType]], tuple[KgenType, ...]]
    #: A step that never depends on the order of the operands.
    is_commutative: bool = True

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"{self.name!r}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ReductionOperation) and self.name == other.name

    def __hash__(self) -> int:
        return hash((ReductionOperation, self.name))

    def __reduce__(self) -> tuple[Callable[[str], ReductionOperation], tuple[str]]:
        return parse_reduction_op, (self.name,)


def _numpy(dtype: KgenType) -> np.dtype[Any]:
    return dtype.numpy_dtype


def _largest(dtype: KgenType) -> Expr:
    kind = _numpy(dtype)
    if kind.kind == "b":
        return kind.type(True)
    return kind.type(np.inf) if kind.kind == "f" else kind.type(np.iinfo(kind).max)


def _smallest(dtype: KgenType) -> Expr:
    kind = _numpy(dtype)
    if kind.kind == "b":
        return kind.type(False)
    return kind.type(-np.inf) if kind.kind == "f" else kind.type(np.iinfo(kind).min)


def _same(dtypes: Sequence[KgenType]) -> tuple[KgenType, ...]:
    return tuple(dtypes)


def _widened(dtypes: Sequence[KgenType]) -> tuple[KgenType, ...]:
    """Keep the operand's type, but sum booleans and bytes as int32."""
    dtype = _numpy(dtypes[0])
    return (INT32,) if dtype.kind == "b" else (dtypes[0],)


def _integer(dtypes: Sequence[KgenType]) -> tuple[KgenType, ...]:
    return (INT32,)


def _bool(dtypes: Sequence[KgenType]) -> tuple[KgenType, ...]:
    return (BOOL8,)


def _extremum(name: str, better: str, start: Callable[[KgenType], Expr]) -> ReductionOperation:
    """Make ``argmin``/``argmax``: a value with the index where it stands.

    Of equal values the smaller index wins, as numpy has it.
    """

    def combine(a: Sequence[Expr], b: Sequence[Expr]) -> tuple[Expr, ...]:
        (value, index), (new_value, new_index) = a, b
        take = p.LogicalOr(
            (
                p.Comparison(new_value, better, value),
                p.LogicalAnd(
                    (p.Comparison(new_value, "==", value), p.Comparison(new_index, "<", index))
                ),
            )
        )
        return p.If(take, new_value, value), p.If(take, new_index, index)

    return ReductionOperation(
        name,
        2,
        lambda dtypes: (start(dtypes[0]), int(np.iinfo(_numpy(dtypes[1])).max)),
        combine,
        _same,
    )


REDUCTIONS: dict[str, ReductionOperation] = {
    op.name: op
    for op in (
        ReductionOperation(
            "sum", 1, lambda d: (_zero(d[0]),), lambda a, b: (a[0] + b[0],), _widened
        ),
        ReductionOperation(
            "product", 1, lambda d: (_one(d[0]),), lambda a, b: (a[0] * b[0],), _widened
        ),
        ReductionOperation(
            "max",
            1,
            lambda d: (_smallest(d[0]),),
            lambda a, b: (p.Variable("max")(a[0], b[0]),),
            _same,
        ),
        ReductionOperation(
            "min",
            1,
            lambda d: (_largest(d[0]),),
            lambda a, b: (p.Variable("min")(a[0], b[0]),),
            _same,
        ),
        ReductionOperation(
            "any", 1, lambda d: (0,), lambda a, b: (p.LogicalOr((a[0], b[0])),), _bool
        ),
        ReductionOperation(
            "all", 1, lambda d: (1,), lambda a, b: (p.LogicalAnd((a[0], b[0])),), _bool
        ),
        _extremum("argmin", "<", _largest),
        _extremum("argmax", ">", _smallest),
    )
}


def _zero(dtype: KgenType) -> Expr:
    return _numpy(dtype).type(0)


def _one(dtype: KgenType) -> Expr:
    return _numpy(dtype).type(1)


def parse_reduction_op(name: str) -> ReductionOperation:
    """Return the operation called *name*, or refuse with the near names.

    >>> parse_reduction_op("sum").arg_count
    1
    """
    op = REDUCTIONS.get(name)
    if op is None:
        hint = near_names(name, REDUCTIONS)
        raise KgenError(f"'{name}' is not a reduction operation\n  hint: {hint}")
    return op
