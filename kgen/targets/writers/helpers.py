"""Helper functions that generated code calls if its language has no operator."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

import cgen
import numpy as np

from kgen.ir.types import NumpyType
from kgen.targets.base import CFamilyLanguage, ComplexStyle
from kgen.targets.definitions import constant, helper_function
from kgen.targets.functions import Helper, returned
from kgen.targets.preamble import Need, Rank
from kgen.targets.writers.complex import stem

__all__ = ["dot_product", "find_helper", "helper_name", "helper_need", "reinterpretation"]


def _floor_div(kind: str) -> list[cgen.Generable]:
    return [
        constant(kind, "q", "a / b"),
        cgen.Statement("return q - (a % b != 0 && (a < 0) != (b < 0))"),
    ]


def _floor_mod(kind: str) -> list[cgen.Generable]:
    """Compare signs: gcc 12 vectorizes subscripts that depend on ``r != 0`` wrongly."""
    return [
        constant(kind, "r", "a % b"),
        cgen.Statement("return (r < 0 && b > 0) || (r > 0 && b < 0) ? r + b : r"),
    ]


def _float_mod(kind: str, fmod: str) -> list[cgen.Generable]:
    return [
        constant(kind, "r", f"{fmod}(a, b)"),
        cgen.If(cgen.Line("r == 0"), cgen.Statement(f"return b < 0 ? -({kind}) 0 : ({kind}) 0")),
        cgen.Statement("return (r < 0) != (b < 0) ? r + b : r"),
    ]


def _float_floor_div(kind: str, fmod: str, floor: str) -> list[cgen.Generable]:
    """Write numpy's quotient, for which ``a == a // b * b + a % b`` up to rounding.

    ``floor(a / b)`` is too large where ``a / b`` is rounded up to an integer.
    """
    return [
        cgen.If(cgen.Line("b == 0"), cgen.Statement("return a / b")),
        constant(kind, "r", f"{fmod}(a, b)"),
        constant(kind, "q", "(a - r) / b - (r != 0 && (r < 0) != (b < 0) ? 1 : 0)"),
        constant(kind, "whole", f"{floor}(q)"),
        cgen.If(cgen.Line("q == 0"), cgen.Statement("return 0 * (a / b)")),
        cgen.Statement(f"return q - whole > ({kind}) 0.5f ? whole + 1 : whole"),
    ]


def _power(kind: str, name: str, unsigned: str, *, is_signed: bool) -> list[cgen.Generable]:
    """Write exponentiation by squaring, modulo the values of the type *unsigned*.

    *kind* is the type *name* after the qualifier of a variant, if there are several.

    A negative exponent gives the result truncated to an integer, and 0 for the base 0.
    """
    wide = kind.removesuffix(name) + unsigned
    step = [
        cgen.If(cgen.Line("b % 2 != 0"), cgen.Statement("result *= factor")),
        cgen.Statement("b /= 2"),
        cgen.Statement("factor *= factor"),
    ]
    negative = "return a == 1 ? 1 : a == -1 ? (b % 2 != 0 ? -1 : 1) : 0"
    return [
        *([cgen.If(cgen.Line("b < 0"), cgen.Statement(negative))] if is_signed else []),
        cgen.Initializer(cgen.Value(wide, "result"), "1"),
        cgen.Initializer(cgen.Value(wide, "factor"), f"({wide}) a"),
        cgen.While(cgen.Line("b != 0"), cgen.Block(step)),
        cgen.Statement(f"return ({kind}) result"),
    ]


def _is_normal(kind: str) -> list[cgen.Generable]:
    least = "1.17549435e-38f" if kind == "float" else "2.2250738585072014e-308"
    magnitude = "fabsf(a)" if kind == "float" else "fabs(a)"
    return [cgen.Statement(f"return isfinite(a) && {magnitude} >= {least}")]


def _high_half(kind: str) -> list[cgen.Generable]:
    """Write the upper half of a product of 64-bit numbers, from their halves."""
    middle = "(a >> 32) * (b & 0xffffffffU) + ((a & 0xffffffffU) * (b & 0xffffffffU) >> 32)"
    low = "(a & 0xffffffffU) * (b >> 32) + (middle & 0xffffffffU)"
    return [
        constant(kind, "middle", middle),
        constant(kind, "low", low),
        cgen.Statement("return (a >> 32) * (b >> 32) + (middle >> 32) + (low >> 32)"),
    ]


def _complex_power(kind: str, target: CFamilyLanguage, dtype: NumpyType) -> list[cgen.Generable]:
    """Write a power with numpy's result for 0, of which libraries take the logarithm."""

    def call(name: str, *operands: str) -> str:
        suffix = "f" if dtype.itemsize == 8 else ""
        pattern = target.functions.complex[name].format(f=suffix, t=stem(dtype))
        return f"{pattern}({', '.join(operands)})"

    def is_zero(part: str, name: str) -> str:
        return f"{call(part, name)} == 0"

    one, zero = "1", "0"
    if target.complex_style is ComplexStyle.FUNCTIONS:
        constructor = target.complex_constructors[dtype.dtype]
        one, zero = f"{constructor}(1, 0)", f"{constructor}(0, 0)"
    zero_base = f"{is_zero('real', 'a')} && {is_zero('imag', 'a')}"
    return [
        cgen.If(
            cgen.Line(f"{is_zero('real', 'b')} && {is_zero('imag', 'b')}"),
            cgen.Statement(f"return {one}"),
        ),
        cgen.If(
            cgen.Line(f"{zero_base} && {is_zero('imag', 'b')} && {call('real', 'b')} > 0"),
            cgen.Statement(f"return {zero}"),
        ),
        cgen.Statement(f"return {call('pow', 'a', 'b')}"),
    ]


def _smooth(kind: str) -> list[cgen.Generable]:
    return [
        constant(kind, "at", "(c - a) / (b - a)"),
        constant(kind, "t", "at < 0 ? 0 : at > 1 ? 1 : at"),
        cgen.Statement("return t * t * (3 - 2 * t)"),
    ]


def _scaled(factor: str, kind: str) -> list[cgen.Generable]:
    return [cgen.Statement(f"return a * ({kind}) {factor}")]


def _rotated(kind: str) -> list[cgen.Generable]:
    """Write a rotation to the left, modulo the bits of the type, in those of 64."""
    bits = "(unsigned long long) a << (64 - n) >> (64 - n)"
    return [
        constant("int", "n", "8 * (int) sizeof(a)"),
        constant("int", "k", "(int) b & (n - 1)"),
        constant("unsigned long long", "bits", bits),
        cgen.Statement(f"return k == 0 ? a : ({kind}) (bits << k | bits >> (n - k))"),
    ]


#: By name: all take numbers of one type, and most return that type.
HELPERS: Final[Mapping[str, Helper]] = {
    "clamp": Helper(partial(returned, "a < b ? b : a > c ? c : a"), "abc"),
    "cube": Helper(partial(returned, "a * a * a"), "a"),
    "degrees": Helper(partial(_scaled, "57.29577951308232"), "a"),
    "floor_div": Helper(_floor_div),
    "fourth_power": Helper(partial(returned, "a * a * (a * a)"), "a"),
    "isnormal": Helper(_is_normal, "a", "int"),
    "mad": Helper(partial(returned, "a * b + c"), "abc"),
    "max": Helper(partial(returned, "a > b ? a : b")),
    "min": Helper(partial(returned, "a < b ? a : b")),
    "mix": Helper(partial(returned, "a + (b - a) * c"), "abc"),
    "mod": Helper(_floor_mod),
    "mul_hi": Helper(_high_half),
    "native_divide": Helper(partial(returned, "a / b")),
    "radians": Helper(partial(_scaled, "0.017453292519943295"), "a"),
    "rotate": Helper(_rotated),
    "sign": Helper(partial(returned, "a > 0 ? 1 : a < 0 ? -1 : a == 0 ? a : 0"), "a"),
    "smoothstep": Helper(_smooth, "abc"),
    "square": Helper(partial(returned, "a * a"), "a"),
    "step": Helper(partial(returned, "b < a ? 0 : 1")),
}


def find_helper(target: CFamilyLanguage, name: str, dtype: NumpyType) -> Helper | None:
    """Return the helper *name* for *dtype*, if the target has one."""
    if name in ("mod", "floor_div") and dtype.kind == "f":
        suffix = "f" if dtype.itemsize == 4 else ""
        fmod, floor = (target.functions.real[n].format(f=suffix) for n in ("fmod", "floor"))
        if name == "mod":
            return Helper(partial(_float_mod, fmod=fmod))
        return Helper(partial(_float_floor_div, fmod=fmod, floor=floor))
    if name == "pow" and dtype.is_complex():
        return Helper(partial(_complex_power, target=target, dtype=dtype))
    if name == "pow" and dtype.is_integral():
        # narrower types would become int, whose overflow is undefined
        is_long = dtype.itemsize == 8
        unsigned = target.type_name(NumpyType(np.dtype(np.uint64))) if is_long else "unsigned int"
        own = target.type_name(dtype)
        return Helper(partial(_power, name=own, unsigned=unsigned, is_signed=dtype.kind != "u"))
    return target.functions.helpers.get(name) or HELPERS.get(name)


def reinterpretation(target: CFamilyLanguage, own: NumpyType, wanted: NumpyType) -> Need:
    """Return the function that reinterprets the bits of one type as a number of another."""
    given, made = target.type_name(own), target.type_name(wanted)
    called = f"kgen_{wanted.dtype.name}_of_{own.dtype.name}"
    body = [
        cgen.Statement(f"union {{ {given} from; {made} to; }} bits"),
        cgen.Assign("bits.from", "a"),
        cgen.Statement("return bits.to"),
    ]
    head = f"{target.helper_qualifier} {made}"
    return helper_function(head, called, [cgen.Value(given, "a")], body)


def dot_product(target: CFamilyLanguage, vector: NumpyType, number: NumpyType) -> Need:
    """Return the dot product function of two vectors."""
    kind = target.vector_of(vector.dtype)
    assert kind is not None
    called = f"kgen_dot_{number.dtype.name}x{len(kind.lanes)}"
    head = f"{target.helper_qualifier} {target.type_name(number)}"
    operands = [cgen.Value(kind.name, operand) for operand in "ab"]
    products = " + ".join(f"a.{lane} * b.{lane}" for lane in kind.lanes)
    return helper_function(head, called, operands, [cgen.Statement(f"return {products}")])


def helper_name(name: str, dtype: NumpyType) -> str:
    """Return the name of the helper *name* for *dtype* in generated code.

    >>> from kgen.ir.types import INT32
    >>> helper_name("floor_div", INT32)
    'kgen_floor_div_int32'
    """
    return f"kgen_{name}_{dtype.dtype.name}"


def helper_need(target: CFamilyLanguage, name: str, dtype: NumpyType) -> Need:
    """Return the definition of the helper *name* for *dtype*."""
    helper = find_helper(target, name, dtype)
    assert helper is not None
    type_name, called = target.type_name(dtype), helper_name(name, dtype)
    texts = [] if helper.before is None else [helper.before(type_name)]
    for variant in target.helper_variants:
        kind, result = (variant + text for text in (type_name, helper.result or type_name))
        head = f"{target.helper_qualifier} {result}"
        operands = [cgen.Value(kind, operand) for operand in helper.operands]
        texts.append(helper_function(head, called, operands, helper.body(kind)).text)
    return Need(Rank.HELPER, called, "\n\n".join(texts))
