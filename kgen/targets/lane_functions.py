"""Vectorized mathematical functions: GNU's vector library, as gcc calls it."""

from __future__ import annotations

from typing import Final

from kgen.targets.preamble import Need, Rank

__all__ = ["GNU_LANE_FUNCTIONS", "lane_function_need", "lane_name"]

_SINCE_2_35: Final = """
    acos acosh asin asinh atan atan2 atanh cbrt cosh erf erfc exp2 expm1 hypot log10 log1p log2
    sinh tan tanh
"""

#: The functions of libmvec for processors of x86-64, in both precisions, by name: the number of
#: arguments, and the minor version of GNU's C library that first had them.
GNU_LANE_FUNCTIONS: Final = {
    **{name: (2 if name in ("atan2", "hypot") else 1, 35) for name in _SINCE_2_35.split()},
    **dict.fromkeys(("cos", "exp", "log", "sin"), (1, 22)),
    "pow": (2, 22),
}


#: The larger, or smaller, of two numbers, one of which may be nan: compilers do not vectorize calls
#: of these functions, but they do vectorize comparisons.
_EXTREMA: Final = {"fmax": ">", "fmin": "<"}


def lane_name(function: str) -> str:
    """Return the name of a function in lanes.

    >>> lane_name("expf")
    'kgen_lanes_expf'
    """
    return f"kgen_lanes_{function}"


def lane_function_need(function: str) -> Need | None:
    """Return the declaration of a C function for lanes; ``None`` if no library has it.

    It declares the function under another name, with its versions for vectors; ``math.h`` declares
    these only with ``-ffast-math``. clang finds these versions only if a flag names the library, so
    its warning about loops that are not vectorized is disabled.

    >>> print(lane_function_need("exp").text)
    #if defined __x86_64__ && defined __GLIBC__ && __GLIBC_MINOR__ >= 22 && !defined __clang__
    double kgen_lanes_exp(double) __asm__("exp") __attribute__((simd("notinbranch"), const));
    #else
    #define kgen_lanes_exp exp
    #ifdef __clang__
    #pragma clang diagnostic ignored "-Wpass-failed"
    #endif
    #endif
    """
    is_single = function.endswith("f") and function not in GNU_LANE_FUNCTIONS
    stem = function[:-1] if is_single else function
    type_name, name = "float" if is_single else "double", lane_name(function)
    if stem in _EXTREMA:
        return _extremum(name, type_name, _EXTREMA[stem])
    if stem not in GNU_LANE_FUNCTIONS:
        return None
    count, version = GNU_LANE_FUNCTIONS[stem]
    head = f"{type_name} {name}({', '.join([type_name] * count)})"
    text = f"""\
#if defined __x86_64__ && defined __GLIBC__ && __GLIBC_MINOR__ >= {version} && !defined __clang__
{head} __asm__("{function}") __attribute__((simd("notinbranch"), const));
#else
#define {name} {function}
#ifdef __clang__
#pragma clang diagnostic ignored "-Wpass-failed"
#endif
#endif"""
    return Need(Rank.MACRO, name, text)


def _extremum(name: str, type_name: str, operator: str) -> Need:
    text = f"""\
static inline {type_name} {name}({type_name} a, {type_name} b)
{{
  return ((a {operator} b) | (b != b)) ? a : b;
}}"""
    return Need(Rank.HELPER, name, text)
