"""Complex arithmetic: built in, as a class, or as functions, depending on the language."""

from __future__ import annotations

from pymbolic.mapper.stringifier import PREC_CALL, PREC_UNARY

from kgen.ir.types import NumpyType
from kgen.targets.base import CFamilyLanguage, ComplexStyle

__all__ = ["call_operation", "cast_complex", "stem"]


def stem(dtype: NumpyType) -> str:
    """Return the prefix of pyopencl's functions on a complex type."""
    return "cfloat" if dtype.itemsize == 8 else "cdouble"


def cast_complex(
    target: CFamilyLanguage, text: str, given: NumpyType, wanted: NumpyType
) -> tuple[str, int]:
    """Convert a number to or from a complex type: the text and its precedence.

    *text* must be a whole operand, in parentheses if necessary. A complex number that
    becomes a real one loses its imaginary part.
    """
    name = target.type_name(wanted)
    if target.complex_style is ComplexStyle.BUILTIN:
        return f"({name}) {text}", PREC_UNARY
    if not wanted.is_complex():
        is_class = target.complex_style is ComplexStyle.CLASS
        real = f"{text}.real()" if is_class else f"{stem(given)}_real({text})"
        if given.itemsize == 2 * wanted.itemsize and wanted.kind == "f":
            return real, PREC_CALL
        return f"({name}) {real}", PREC_UNARY
    if target.complex_style is ComplexStyle.CLASS:
        return f"{name}({text})", PREC_CALL
    how = "cast" if given.is_complex() else "fromreal"
    return f"{stem(wanted)}_{how}({text})", PREC_CALL


#: Functions of pyopencl's header by operator, and by which operand is real.
_OPERATIONS = {
    ("+", False, False): "add",
    ("+", True, False): "radd",
    ("+", False, True): "addr",
    ("-", False, False): "sub",
    ("*", False, False): "mul",
    ("*", True, False): "rmul",
    ("*", False, True): "mulr",
    ("/", False, False): "divide",
    ("/", True, False): "rdivide",
    ("/", False, True): "divider",
}


def call_operation(
    operator: str, left: str, right: str, types: tuple[NumpyType, NumpyType], result: NumpyType
) -> str:
    """Write a complex operation as a call of pyopencl's functions.

    One of *types* is the type of *result*, the other that or its real part's.
    """
    reals = tuple(not dtype.is_complex() for dtype in types)
    root = stem(result)
    if operator == "-" and any(reals):
        if reals[1]:
            return f"{root}_addr({left}, -({right}))"
        return f"{root}_radd({left}, {root}_neg({right}))"
    return f"{root}_{_OPERATIONS[operator, reals[0], reals[1]]}({left}, {right})"
