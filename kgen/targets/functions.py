"""The spelling of functions on each target.

A spelling is a pattern before the parenthesis of the arguments: ``{f}`` is the suffix of
functions on float32, ``{t}`` the stem of OpenCL's complex types, and words before the name are
operators, as in ``0 != signbit``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Final

import cgen

from kgen.ir.functions import BuiltInCallable
from kgen.targets.preamble import Need, include

__all__ = [
    "CUDA_FUNCTIONS",
    "C_FUNCTIONS",
    "FunctionNames",
    "GNU_FUNCTIONS",
    "Helper",
    "OPENCL_FUNCTIONS",
    "returned",
]


@dataclass(frozen=True)
class Helper:
    """A small function that generated code defines because its language lacks it.

    ``body`` returns the statements for operands of a type, whose names are the letters of
    ``operands``; ``result`` is the type of the result if it differs, ``before`` the preamble of the
    function.
    """

    body: Callable[[str], list[cgen.Generable]]
    operands: str = "ab"
    result: str | None = None
    before: Callable[[str], str] | None = None


def returned(value: str, kind: str) -> list[cgen.Generable]:
    """Return the body of a helper that is one expression, for every *kind* of operands."""
    return [cgen.Statement(f"return {value}")]


@dataclass(frozen=True)
class FunctionNames:
    """Patterns of functions on real numbers, on integers by type name, and on complex ones.

    A function in no table does not exist in the language. ``needs``, by pattern, are preambles of
    calls in addition to the headers of the library and of complex numbers. ``helpers`` are
    functions that the generated code defines.
    """

    real: Mapping[str, str] = field(default_factory=dict)
    integer: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    complex: Mapping[str, str] = field(default_factory=dict)
    needs: Mapping[str, tuple[Need, ...]] = field(default_factory=dict)
    helpers: Mapping[str, Helper] = field(default_factory=dict)

    @cached_property
    def callables(self) -> Mapping[str, BuiltInCallable]:
        """The functions that are a name in the language, as ``known_callables`` list them."""
        names = {**self.complex, **self.real}
        return BuiltInCallable.of({n: text for n, text in names.items() if _NAME.fullmatch(text)})


#: A pattern that is a name, without operators.
_NAME: Final = re.compile(r"[\w:]+(\{f\})?")

_REAL = """
    acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp2 expm1
    fabs fdim floor fma fmax fmin fmod frexp hypot ilogb ldexp lgamma llrint llround log log10
    log1p log2 logb modf nearbyint nextafter pow remainder remquo rint round scalbn sin sinh sqrt
    tan tanh tgamma trunc
"""
_CLASSIFICATION = {name: name for name in ("isfinite", "isinf", "isnan", "isnormal")}

_C_REAL: Final[Mapping[str, str]] = {
    **{name: name + "{f}" for name in _REAL.split()},
    **_CLASSIFICATION,
    # a set sign bit may be any nonzero number
    "signbit": "0 != signbit",
    "abs": "fabs{f}",
    "max": "fmax{f}",
    "min": "fmin{f}",
    # long has 32 bits on some systems
    "lrint": "llrint{f}",
    "lround": "llround{f}",
    "rsqrt": "1.0{f} / sqrt{f}",
}
_COMPLEX = "abs conj cos cosh exp imag log pow real sin sinh sqrt tan tanh"
_C_COMPLEX = {
    **{name: "c" + name + "{f}" for name in _COMPLEX.split()},
    **{name: f"c{name}{{f}}" for name in ("acos", "acosh", "asin", "asinh", "atan", "atanh")},
    "conj": "conj{f}",
}
_BESSEL = {f"bessel_{kind}{order}": f"{kind}{order}" for kind in "jy" for order in "01n"}

_SIGNED = ("int8", "int16", "int32", "int64")
_UNSIGNED = ("bool", "uint8", "uint16", "uint32", "uint64")

#: Integers: their extrema are helpers in C, and ``abs`` of an unsigned integer needs no call.
_C_ABS = {
    "int8": "(signed char) abs",
    "int16": "(short) abs",
    "int32": "abs",
    "int64": "llabs",
}

_NATIVE = "cos exp exp2 log log2 log10 sin sqrt tan"


def _of_bits(count: str, of_zero: str, kind: str) -> list[cgen.Generable]:
    """Write a count of the bits of a type, by the function for 64 bits."""
    bits = "(unsigned long long) a << (64 - 8 * (int) sizeof(a))"
    return [cgen.Statement(f"return a == 0 ? {of_zero} : {count}({bits})")]


def _counts(popcount: str, clz: str) -> dict[str, Helper]:
    """Return helpers that count bits by two functions for 64 bits."""
    return {
        "popcount": Helper(partial(_of_bits, popcount, "0"), "a"),
        "clz": Helper(partial(_of_bits, clz, "8 * (int) sizeof(a)"), "a"),
    }


C_FUNCTIONS: Final = FunctionNames(
    {
        **_C_REAL,
        **{f"native_{name}": name + "f" for name in _NATIVE.split()},
        "native_powr": "powf",
        "native_recip": "1.0f / ",
        "native_rsqrt": "1.0f / sqrtf",
    },
    {"abs": _C_ABS},
    _C_COMPLEX,
    {name: (include("stdlib.h"),) for name in _C_ABS.values()},
    {
        **_counts("__builtin_popcountll", "__builtin_clzll"),
        "native_exp10": Helper(partial(returned, "powf(10.0f, a)"), "a"),
    },
)
GNU_FUNCTIONS: Final = FunctionNames(
    {**C_FUNCTIONS.real, **_BESSEL},
    C_FUNCTIONS.integer,
    C_FUNCTIONS.complex,
    C_FUNCTIONS.needs,
    C_FUNCTIONS.helpers,
)

_EXTREMA = {name: dict.fromkeys((*_SIGNED, *_UNSIGNED), name) for name in ("max", "min")}


def _lanes_of_row(kind: str) -> list[cgen.Generable]:
    return [
        cgen.Value(kind, "lane"),
        cgen.Statement('asm("mov.u32 %0, %%laneid;" : "=r"(lane))'),
        cgen.Statement("return a << (lane & b)"),
    ]


def _native_exp2(kind: str) -> list[cgen.Generable]:
    return [
        cgen.Value("float", "power"),
        cgen.Statement('asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"((float) a))'),
        cgen.Statement("return power"),
    ]


_INTRINSIC = "cos exp log log2 log10 sin tan"

_CUDA_REAL = {name: pattern for name, pattern in _C_REAL.items() if name != "isnormal"}

CUDA_FUNCTIONS: Final = FunctionNames(
    {
        **_CUDA_REAL,
        **_BESSEL,
        "rsqrt": "rsqrt{f}",
        "exchange_lanes": "__shfl_xor_sync",
        "lane_before": "__shfl_up_sync",
        **{
            f"native_{name}": f"__{name}f"
            for name in ["cos", "exp", "log", "log2", "log10", "sin", "tan"]
        },
        "native_divide": "__fdividef",
        "native_exp10": "__exp10f",
        "native_powr": "__powf",
        "native_recip": "__frcp_rn",
        "native_rsqrt": "rsqrtf",
        "native_sqrt": "__fsqrt_rn",
    },
    {"abs": _C_ABS, **_EXTREMA, "mul_hi": {"uint64": "__umul64hi"}},
    {name: f"cuda::std::{name}" for name in _COMPLEX.split()},
    helpers={
        "lanes_of_row": Helper(_lanes_of_row),
        "native_exp2": Helper(_native_exp2, "a"),
        **_counts("__popcll", "__clzll"),
    },
)

_OPENCL_ABS = {
    "int8": "(char) abs",
    "int16": "(short) abs",
    "int32": "(int) abs",
    "int64": "(long) abs",
}


_OPENCL_REAL = """
    clamp degrees mad mix radians sign smoothstep step
    native_cos native_divide native_exp native_exp2 native_exp10 native_log native_log2 native_log10
    native_powr native_recip native_rsqrt native_sin native_sqrt native_tan
"""


_BESSEL_J = (include("pyopencl-bessel-j.cl"),)
_BESSEL_Y = (include("pyopencl-bessel-y.cl"),)

OPENCL_FUNCTIONS: Final = FunctionNames(
    {
        **{name: name for name in _REAL.split()},
        **_CLASSIFICATION,
        "signbit": "signbit",
        "abs": "fabs",
        "max": "fmax",
        "min": "fmin",
        "nearbyint": "rint",
        "scalbn": "ldexp",
        "llrint": "(long) rint",
        "lrint": "(long) rint",
        "llround": "(long) round",
        "lround": "(long) round",
        "rsqrt": "rsqrt",
        **{f"bessel_{name}": f"bessel_{name}" for name in ("j0", "j1", "y0", "y1", "yn")},
        "bessel_jn": "bessel_jv",
        **{name: name for name in ("clz", "popcount", "rotate", "sincos")},
        **{name: name for name in _OPENCL_REAL.split()},
        "exchange_lanes": "sub_group_shuffle_xor",
        "lane_before": "sub_group_shuffle_up",
    },
    {
        "abs": _OPENCL_ABS,
        **_EXTREMA,
        "clamp": dict.fromkeys((*_SIGNED, *_UNSIGNED), "clamp"),
        "mul_hi": {"uint64": "mul_hi"},
    },
    {name: "{t}_" + name for name in _COMPLEX.split()},
    {
        **{f"bessel_{name}": _BESSEL_J for name in ("j0", "j1", "jv")},
        **{f"bessel_{name}": _BESSEL_Y for name in ("y0", "y1", "yn")},
    },
)
