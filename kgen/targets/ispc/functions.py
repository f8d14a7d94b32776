"""The spelling of functions in ISPC.

Functions that its library lacks are those of the C library, called for one lane after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

import cgen

from kgen.targets.definitions import constant
from kgen.targets.functions import FunctionNames, Helper, returned

__all__ = ["ISPC_FUNCTIONS"]

_SIGNED = ("int8", "int16", "int32", "int64")
_UNSIGNED = ("bool", "uint8", "uint16", "uint32", "uint64")
_SAME = """
    abs acos asin atan atan2 cbrt ceil cos exp floor fmod ldexp log pow sin sqrt tan trunc
"""

_REAL: Final = {
    **{name: name for name in _SAME.split()},
    "fabs": "abs",
    # halves to even
    "nearbyint": "round",
    "rint": "round",
    "llrint": "(int64) round",
    "lrint": "(int64) round",
    "rsqrt": "1.0{f} / sqrt",
    "scalbn": "ldexp",
}

#: Functions of the C library, by the number of their operands.
_OF_C: Final = {
    1: "acosh asinh atanh cosh erf erfc exp2 expm1 lgamma log10 log1p log2 logb sinh tanh tgamma",
    2: "fdim hypot nextafter remainder",
    3: "fma",
}


def _floor_div(kind: str) -> list[cgen.Generable]:
    return [
        constant(kind, "q", "a / b"),
        cgen.Statement("return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q"),
    ]


def _rounded(kind: str, *, cast: str = "") -> list[cgen.Generable]:
    """Round halves away from 0."""
    return [
        constant(kind, "whole", "trunc(a)"),
        cgen.If(cgen.Line("abs(a - whole) < 0.5f"), cgen.Statement(f"return {cast}whole")),
        cgen.Statement(f"return {cast}(a < 0 ? whole - 1 : whole + 1)"),
    ]


def _sign_copied(kind: str) -> list[cgen.Generable]:
    from_bits = "doublebits" if "double" in kind else "floatbits"
    return [cgen.Statement(f"return {from_bits}(intbits(abs(a)) | signbits(b))")]


def _is_normal(kind: str) -> list[cgen.Generable]:
    least = "2.2250738585072014e-308d" if "double" in kind else "1.17549435e-38f"
    return [cgen.Statement(f"return isfinite(a) && abs(a) >= {least} ? 1 : 0")]


def _of_c(name: str, operands: str, kind: str) -> list[cgen.Generable]:
    """Call a function of the C library once, or for each lane that runs."""
    called = name if "double" in kind else f"{name}f"
    if kind.startswith("uniform"):
        return [cgen.Statement(f"return {called}({', '.join(operands)})")]
    passed = ", ".join(f"extract({operand}, lane)" for operand in operands)
    one = kind.replace("varying", "uniform")
    return [
        cgen.Initializer(cgen.Value(kind, "result"), "0"),
        cgen.Line("foreach_active (lane)"),
        cgen.Block(
            [
                constant(one, "value", f"{called}({passed})"),
                cgen.Assign("result", "insert(result, lane, value)"),
            ]
        ),
        cgen.Statement("return result"),
    ]


def _declared_in_c(name: str, operands: str, type_name: str) -> str:
    called = name if type_name == "double" else f"{name}f"
    parameters = ", ".join(f"uniform {type_name} {operand}" for operand in operands)
    return f'extern "C" uniform {type_name} {called}({parameters});'


def _truth(condition: str) -> Helper:
    return Helper(partial(returned, f"{condition} ? 1 : 0"), "a", "int32")


def _c_helpers() -> Iterator[tuple[str, Helper]]:
    for count, names in _OF_C.items():
        operands = "abc"[:count]
        for name in names.split():
            body: Callable[[str], list[cgen.Generable]] = partial(_of_c, name, operands)
            yield name, Helper(body, operands, before=partial(_declared_in_c, name, operands))


ISPC_FUNCTIONS: Final = FunctionNames(
    _REAL,
    {
        "abs": dict.fromkeys(_SIGNED, "abs"),
        "max": dict.fromkeys((*_SIGNED, *_UNSIGNED), "max"),
        "min": dict.fromkeys((*_SIGNED, *_UNSIGNED), "min"),
    },
    helpers={
        **dict(_c_helpers()),
        "copysign": Helper(_sign_copied),
        "floor_div": Helper(_floor_div),
        "fmax": Helper(partial(returned, "b != b || a > b ? a : b")),
        "fmin": Helper(partial(returned, "b != b || a < b ? a : b")),
        "isfinite": _truth("isfinite(a)"),
        "isinf": _truth("isinf(a)"),
        "isnan": _truth("isnan(a)"),
        "isnormal": Helper(_is_normal, "a", "int32"),
        **dict.fromkeys(
            ("llround", "lround"), Helper(partial(_rounded, cast="(int64) "), "a", "int64")
        ),
        "max": Helper(partial(returned, "b != b || a > b ? a : b")),
        "min": Helper(partial(returned, "b != b || a < b ? a : b")),
        "round": Helper(_rounded, "a"),
        "signbit": _truth("signbits(a) != 0"),
    },
)
