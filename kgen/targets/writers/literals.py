"""Constants of every type as C text."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from pymbolic.mapper.stringifier import PREC_CALL, PREC_SUM, PREC_UNARY

from kgen.errors import CodegenError
from kgen.ir.types import INT32, INT64, UINT32, NumpyType, largest_real
from kgen.targets.base import CFamilyLanguage

__all__ = ["digits_type", "integer_text", "literal", "table_entry", "typed_integer"]


def literal(target: CFamilyLanguage, value: Any, dtype: NumpyType) -> tuple[str, int]:
    """Write *value* as a constant of *dtype*: the text and its precedence.

    Real numbers get as many digits as distinguish them from their neighbours.

    >>> from kgen.targets.c import CTarget
    >>> from kgen.ir.types import FLOAT64, INT64
    >>> literal(CTarget(), 2, FLOAT64)[0], literal(CTarget(), -(2**63), INT64)[0]
    ('2.0', '-9223372036854775807 - 1')
    """
    kind = dtype.kind
    if kind == "b":
        return str(int(bool(value))), PREC_CALL
    if kind in "iu":
        return _integer(target, int(value), dtype)
    if kind == "f":
        return _real(target, float(value), dtype)
    if kind == "c":
        number = complex(value)
        part = NumpyType(np.dtype(f"f{dtype.itemsize // 2}"))
        parts = (_real(target, number.real, part)[0], _real(target, number.imag, part)[0])
        return f"{target.complex_constructors[dtype.dtype]}({', '.join(parts)})", PREC_CALL
    raise CodegenError(f"{target.language} has no constants of type {dtype.dtype}")


def table_entry(target: CFamilyLanguage, value: Any, dtype: NumpyType) -> str:
    """Write *value* as an entry of a table of constants of *dtype*.

    >>> from kgen.targets.cuda import CudaTarget
    >>> from kgen.ir.types import FLOAT16
    >>> table_entry(CudaTarget(), np.float16(1), FLOAT16)
    '__half_raw{0x3c00}'
    """
    kind = target.half_bits.get(dtype.dtype.name)
    if kind is None:
        return literal(target, value, dtype)[0]
    return f"{kind}{{{int(np.asarray(value).view(np.uint16)):#06x}}}"


def _integer(target: CFamilyLanguage, value: int, dtype: NumpyType) -> tuple[str, int]:
    limits = np.iinfo(dtype.dtype)
    if not limits.min <= value <= limits.max:
        holds = "int64" if -(2**63) <= value < 2**63 else "uint64" if 0 <= value < 2**64 else None
        raise CodegenError(
            f"the constant {value} is not a value of type {dtype.dtype}",
            hint=f"give it a type of its own, such as numpy.{holds}"
            if holds
            else f"no type of integers holds it; write a real number: {float(value):g}",
        )
    if value in (-(2**31), -(2**63)):  # C negates the number without sign, which is too large
        return f"{integer_text(target, value + 1)} - 1", PREC_SUM
    if value > np.iinfo(np.int64).max:
        return f"{value}u{target.long_suffix}", PREC_CALL
    if dtype == UINT32 and value > np.iinfo(np.int32).max:
        return f"{value}u", PREC_CALL
    return integer_text(target, value), PREC_CALL if value >= 0 else PREC_UNARY


def integer_text(target: CFamilyLanguage, value: int) -> str:
    """Return the digits of an integer, with a suffix if it has 64 bits.

    >>> from kgen.targets.c import CTarget
    >>> integer_text(CTarget(), 2**40)
    '1099511627776'
    """
    is_long = not -(2**31) <= value < 2**31
    return f"{value}{target.long_suffix}" if is_long else str(value)


def digits_type(value: int, dtype: NumpyType) -> NumpyType:
    """Return the type that C gives to the digits of a constant of type *dtype*.

    >>> from kgen.ir.types import INT64
    >>> digits_type(3, INT64), digits_type(2**40, INT64)
    (np:dtype('int32'), np:dtype('int64'))
    """
    if -(2**31) <= value < 2**31:
        return INT32
    if dtype == UINT32 or value >= 2**63:
        return dtype
    return INT64


def typed_integer(target: CFamilyLanguage, value: int, dtype: NumpyType) -> tuple[str, int]:
    """Write an integer whose type is *dtype* without an implicit conversion.

    >>> from kgen.targets.c import CTarget
    >>> from kgen.ir.types import INT64
    >>> typed_integer(CTarget(), 3, INT64)[0]
    '(int64_t) 3'
    """
    if dtype == UINT32:
        return f"{value}u", PREC_CALL
    text = f"({target.type_name(dtype)}) {integer_text(target, value)}"
    return text, PREC_UNARY


def _real(target: CFamilyLanguage, value: float, dtype: NumpyType) -> tuple[str, int]:
    sign = "-" if math.copysign(1, value) < 0 else ""
    if not math.isfinite(value):
        name = dtype.dtype.name
        text = target.nan[name] if math.isnan(value) else sign + target.infinity[name]
        return text, PREC_UNARY if text[0] in "-(" else PREC_CALL
    if dtype.itemsize < 8 and abs(value) > largest_real(dtype.dtype):
        raise CodegenError(
            f"the constant {value} is too large for {dtype.dtype.name}\n"
            "  hint: make it numpy.float64(...), or declare the result float64"
        )
    if dtype.is_half:
        before, behind = target.half_forms[dtype.dtype.name]
        number = str(np.float32(dtype.dtype.type(value)))
        text = f"{before}{number}{behind}"
        return text, PREC_UNARY if sign and not before else PREC_CALL
    text = (
        repr(value) + target.double_suffix if dtype.itemsize == 8 else str(np.float32(value)) + "f"
    )
    return text, PREC_UNARY if sign else PREC_CALL
