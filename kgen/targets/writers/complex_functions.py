"""Inverse functions of complex numbers for OpenCL C and CUDA C++.

OpenCL's library lacks them. CUDA's, ``cuda::std``, takes logarithms of ``z + sqrt(z*z - 1)``,
which cancels and overflows: for ``z = -18397 + 945j`` in 32 bits, its ``acos`` is infinite.
These are Kahan's formulas (Branch cuts for complex elementary functions, 1987): the sign of a zero
selects the side of a cut.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import cgen

from kgen.ir.types import NumpyType
from kgen.targets.base import CFamilyLanguage
from kgen.targets.conversions import real_part
from kgen.targets.definitions import constant, helper_function
from kgen.targets.preamble import Need
from kgen.targets.writers.complex import stem
from kgen.targets.writers.helpers import helper_name

__all__ = ["INVERSES", "inverse_need"]

#: By name: the arguments of the roots, and the two parts of the result. ``x`` and ``y`` are the
#: parts of the argument, ``p_real``... those of the roots.
INVERSES: Final[Mapping[str, tuple[tuple[tuple[str, str], ...], str, str]]] = {
    "acos": (
        (("1 - x", "-y"), ("1 + x", "y")),
        "2 * atan2(p_real, q_real)",
        "asinh(q_real * p_imag - q_imag * p_real)",
    ),
    "acosh": (
        (("x - 1", "y"), ("x + 1", "y")),
        "asinh(p_real * q_real + p_imag * q_imag)",
        "2 * atan2(p_imag, q_real)",
    ),
    "asin": (
        (("1 - x", "-y"), ("1 + x", "y")),
        "atan2(x, p_real * q_real - p_imag * q_imag)",
        "asinh(p_real * q_imag - p_imag * q_real)",
    ),
    "asinh": (
        (("1 - y", "x"), ("1 + y", "-x")),
        "asinh(p_imag * q_real - p_real * q_imag)",
        "atan2(y, p_real * q_real - p_imag * q_imag)",
    ),
    "atan": (
        (),
        "atan2(2 * x, (1 - y) * (1 + y) - x * x) / 2",
        "copysign(log1p(4 * fabs(y) / (x * x + (1 - fabs(y)) * (1 - fabs(y)))) / 4, y)",
    ),
    "atanh": (
        (),
        "copysign(log1p(4 * fabs(x) / ((1 - fabs(x)) * (1 - fabs(x)) + y * y)) / 4, x)",
        "atan2(2 * y, (1 - x) * (1 + x) - y * y) / 2",
    ),
}


def inverse_need(target: CFamilyLanguage, name: str, dtype: NumpyType) -> Need:
    """Return the definition of the function *name* for *dtype*."""
    roots, real, imaginary = INVERSES[name]
    kind, part = target.type_name(dtype), target.type_name(real_part(dtype))

    def library(function: str, operand: str) -> str:
        pattern = target.functions.complex[function].format(t=stem(dtype))
        return f"{pattern}({operand})"

    def number(*parts: str) -> str:
        return f"{target.complex_constructors[dtype.dtype]}({', '.join(parts)})"

    body: list[cgen.Generable] = [
        constant(part, "x", library("real", "a")),
        constant(part, "y", library("imag", "a")),
    ]
    for letter, parts in zip("pq", roots, strict=False):
        body.append(constant(kind, letter, library("sqrt", number(*parts))))
        # on the cut of the root, its sign is that of the zero, which pyopencl's drops
        signed = f"copysign({library('imag', letter)}, {parts[1]})"
        body.append(constant(part, f"{letter}_real", f"fabs({library('real', letter)})"))
        body.append(constant(part, f"{letter}_imag", signed))
    body.append(cgen.Statement(f"return {number(real, imaginary)}"))
    head, called = f"{target.helper_qualifier} {kind}", helper_name(name, dtype)
    return helper_function(head, called, [cgen.Value(kind, "a")], body)
