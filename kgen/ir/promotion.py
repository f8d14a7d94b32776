"""Type promotion: numpy's rules, with literals that adapt to the other operands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, TypeAlias

import numpy as np

from kgen.errors import TypeInferenceFailure
from kgen.ir.types import (
    BFLOAT16,
    BOOL8,
    FLOAT32,
    FLOAT64,
    INT32,
    INT64,
    AtomicType,
    NumpyType,
    OpaqueType,
    largest_real,
)

__all__ = [
    "Literal",
    "Operand",
    "UNDECIDED",
    "adapt",
    "arithmetic",
    "common",
    "integer_literal",
    "literal_type",
    "modular",
    "plain",
    "settle",
    "without_opaque",
]

_UINT64: Final = NumpyType(np.dtype(np.uint64))
_COMPLEX128: Final = NumpyType(np.dtype(np.complex128))


@dataclass(frozen=True, slots=True)
class Literal:
    """The type of an untyped number, which adapts to the other operands.

    ``kind`` is ``i``, ``f`` or ``c`` as in numpy, or ``?``; ``alone`` is the default type,
    ``value`` the number itself if it matters whether it fits. ``is_mixed``: typed integers were
    combined with it, ``0.5*i``.
    """

    kind: str
    alone: NumpyType
    value: int | float | None = None
    is_mixed: bool = False


#: A value that adapts to any other type.
UNDECIDED: Final = Literal("?", INT32)

_MINUS_ONE: Final = Literal("i", INT32, -1)
_NEGATED_BOOL: Final = Literal("i", INT32)

#: The type of an operand: known, or adapting.
Operand: TypeAlias = NumpyType | Literal


@lru_cache(maxsize=4096, typed=True)
def literal_type(value: Any) -> Operand:
    """Return the type of a constant: numpy scalars and booleans have one, Python numbers adapt.

    By default, an integer is int32 if it fits, and a real number is float32 if that is
    exact: ``2.5`` is float32 and ``0.1`` is float64.

    >>> settle(literal_type(3)), settle(literal_type(0.1)), settle(literal_type(2**40))
    (np:dtype('int32'), np:dtype('float64'), np:dtype('int64'))
    """
    if isinstance(value, np.generic):
        return NumpyType(value.dtype)
    if isinstance(value, bool):
        return BOOL8
    if isinstance(value, int):
        literal = integer_literal(value)
        if not -(2**63) <= value < 2**64:
            raise TypeInferenceFailure(f"the integer {value} does not fit any integer type")
        return literal
    if isinstance(value, float):
        exact = value != value or abs(value) in (0.0, float("inf")) or _is_float32(value)
        return Literal("f", FLOAT32 if exact else FLOAT64, value)
    if isinstance(value, complex):
        return Literal("c", _COMPLEX128, max(abs(value.real), abs(value.imag)))
    raise TypeInferenceFailure(f"a constant of type '{type(value).__name__}' has no data type")


def integer_literal(value: int) -> Literal:
    """Return the type of a Python integer; the widest one if no type holds it.

    >>> integer_literal(2**40).alone, integer_literal(2**64).alone
    (np:dtype('int64'), np:dtype('uint64'))
    """
    if -(2**31) <= value < 2**31:
        return Literal("i", INT32, value)
    return Literal("i", INT64 if value < 2**63 else _UINT64, value)


def _is_float32(value: float) -> bool:
    return abs(value) <= float(np.finfo(np.float32).max) and float(np.float32(value)) == value


def plain(dtype: NumpyType) -> NumpyType:
    """Return the type of the values of *dtype*, which may be declared atomic."""
    return NumpyType(dtype.dtype) if isinstance(dtype, AtomicType) else dtype


def settle(operand: Operand) -> NumpyType:
    """Return the type of *operand* without further context."""
    return operand.alone if isinstance(operand, Literal) else operand


@lru_cache(maxsize=4096)
def adapt(literal: Literal, dtype: NumpyType) -> NumpyType:
    """Return the type of *literal* beside an operand of a type.

    It never widens a type of its kind or a higher kind that can hold it: ``2 * float32`` is
    float32, ``uint8 + 1`` is uint8, ``uint8 + 1000`` is int32, ``1j * float32`` complex64.
    """
    kind = dtype.kind
    if literal.kind == "?":
        return dtype
    if literal.kind == "i":
        if kind in "fc" or (kind in "iu" and _fits(literal.value, dtype.dtype)):
            return dtype
        return literal.alone
    if kind not in "fc":
        return literal.alone
    part = np.dtype(f"f{dtype.itemsize // 2}") if kind == "c" else dtype.dtype
    if literal.value is not None and np.isfinite(literal.value):
        while part.itemsize < 8 and abs(literal.value) > largest_real(part):
            part = np.dtype(f"f{2 * part.itemsize}")
    if literal.is_mixed and part.itemsize < 4:
        part = FLOAT32.dtype
    if literal.kind == "c" or kind == "c":
        return NumpyType(np.dtype(f"c{2 * max(part.itemsize, 4)}"))
    return NumpyType(part)


def _fits(value: int | float | None, dtype: np.dtype[Any]) -> bool:
    # -1 beside an unsigned type is the wrapped one: a - 1 is read as a + (-1)
    bits = 8 * dtype.itemsize
    high = 2 ** (bits - 1) if dtype.kind == "i" else 2**bits
    return value is None or -(2 ** (bits - 1)) <= value < high


@lru_cache(maxsize=4096)
def _common(a: NumpyType, b: NumpyType) -> NumpyType:
    # a type with the exponents of float32 combines with other types as float32 does
    one, other = (FLOAT32 if dtype.dtype.name == BFLOAT16 else dtype for dtype in (a, b))
    if {one, other} == {INT32, FLOAT32}:
        return FLOAT32
    try:
        return NumpyType(np.result_type(one.dtype, other.dtype))
    except TypeError:
        raise TypeInferenceFailure(f"'{a}' and '{b}' have no common type") from None


def common(*operands: Operand) -> Operand:
    """Return the type that holds the values of all *operands*, by numpy's rules.

    One difference: int32, the type of loop variables, does not widen float32. Literals come
    last: they adapt to the others. Literals combined with each other stay literals, and so do real
    ones combined with integers, which would be float32: ``0.5*i`` is float64 beside a float64.
    """
    known: NumpyType | None = None
    literals: list[Literal] = []
    for operand in operands:
        if isinstance(operand, Literal):
            literals.append(operand)
        elif known is None:
            known = operand
        elif operand is not known and operand != known:
            known = _common(known, operand)
    if known is None:
        return _common_literal(literals)
    return _with_literals(known, literals) if literals else known


def without_opaque(operands: Sequence[Operand]) -> Sequence[Operand]:
    """Return the operands that have a common type: all but opaque ones, or the first of these."""
    return [one for one in operands if not isinstance(one, OpaqueType)] or operands[:1]


def _with_literals(known: NumpyType, literals: list[Literal]) -> Operand:
    result = known
    for literal in literals:
        adapted = adapt(literal, known)
        if adapted != result:
            result = _common(result, adapted)
    is_mixed = known.is_integral() and not result.is_integral()
    if is_mixed and (result == FLOAT32 or any(literal.is_mixed for literal in literals)):
        return Literal(result.kind, result, is_mixed=True)
    return result


def _common_literal(literals: list[Literal]) -> Literal:
    if UNDECIDED in literals:
        return UNDECIDED
    result = literals[0]
    for literal in literals[1:]:
        kind = max(result.kind, literal.kind, key="ifc".index)
        is_mixed = result.is_mixed or literal.is_mixed
        result = Literal(kind, _common(result.alone, literal.alone), is_mixed=is_mixed)
    return result


def modular(operands: Sequence[Operand]) -> Sequence[Operand]:
    """Return the operands of a sum or product, in which unsigned integers wrap.

    Beside unsigned integers, a negative number counts as its opposite: ``uint8 - 200``, which is
    ``uint8 + (-200)``, has the type of ``uint8 + 200``.

    >>> UINT8 = NumpyType(np.dtype(np.uint8))
    >>> [common(*modular((UINT8, literal_type(number)))) for number in (200, -200, -300)]
    [np:dtype('uint8'), np:dtype('uint8'), np:dtype('int32')]
    """
    kinds = {operand.kind for operand in operands if isinstance(operand, NumpyType)}
    return [*map(_opposite, operands)] if "u" in kinds and kinds <= {"u", "b"} else operands


def _opposite(operand: Operand) -> Operand:
    """Return the type of the opposite of a negative Python integer; other types as they are."""
    if not isinstance(operand, Literal) or operand.kind != "i" or (operand.value or 0) >= 0:
        return operand
    return integer_literal(-int(operand.value or 0))


def arithmetic(*operands: Operand) -> Operand:
    """Return the type of a sum or product; booleans count as int32.

    A negated boolean is 0 or -1, and adapts to any type: ``x - b`` has the type of ``x + b``.

    >>> settle(arithmetic(INT64, literal_type(1))), settle(arithmetic(BOOL8, BOOL8))
    (np:dtype('int64'), np:dtype('int32'))
    >>> arithmetic(_UINT64, arithmetic(literal_type(-1), BOOL8))
    np:dtype('uint64')
    """
    if len(operands) == 2 and BOOL8 in operands and _MINUS_ONE in operands:
        return _NEGATED_BOOL
    result = common(*operands)
    return INT32 if result == BOOL8 else result
