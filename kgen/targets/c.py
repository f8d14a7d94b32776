"""The C targets: plain functions for a host's compiler."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from kgen.targets.base import Dtype, dtypes_by_name
from kgen.targets.builder import ASTBuilderBase, CFamilyTarget
from kgen.targets.functions import C_FUNCTIONS, GNU_FUNCTIONS, FunctionNames
from kgen.targets.preamble import Need, include
from kgen.targets.words import C_WORDS, CPP_WORDS, MACROS

__all__ = [
    "CTarget",
    "CWithGNULibcTarget",
    "ExecutableCTarget",
    "ExecutableCWithGNULibcTarget",
]

_STDINT = (include("stdint.h"),)
_COMPLEX = (include("complex.h"),)


@dataclass(frozen=True)
class CTarget(CFamilyTarget):
    """C functions, as C11 has it, to be compiled elsewhere.

    >>> import kgen as lp
    >>> unit = lp.make_kernel(
    ...     "{ [i]: 0<=i<n }", "a[i] = i", [lp.GlobalArg("a", "int32"), ...], target=CTarget())
    >>> print(lp.generate_code_v2(unit).device_code())
    void kgen_kernel(int *__restrict__ a, int const n)
    {
      for (int i = 0; i < n; ++i)
        a[i] = i;
    }
    """

    type_names: ClassVar[Mapping[Dtype, str]] = dtypes_by_name(
        {
            "bool": "bool",
            "int8": "int8_t",
            "int16": "int16_t",
            "int32": "int",
            "int64": "int64_t",
            "uint8": "uint8_t",
            "uint16": "uint16_t",
            "uint32": "uint32_t",
            "uint64": "uint64_t",
            "float32": "float",
            "float64": "double",
            "complex64": "float complex",
            "complex128": "double complex",
        }
    )
    type_needs: ClassVar[Mapping[Dtype, tuple[Need, ...]]] = {
        np.dtype(bool): (include("stdbool.h"),),
        **{
            np.dtype(name): _STDINT
            for name in ("int8", "int16", "int64", "uint8", "uint16", "uint32", "uint64")
        },
        np.dtype(np.complex64): _COMPLEX,
        np.dtype(np.complex128): _COMPLEX,
    }
    math_needs: ClassVar[tuple[Need, ...]] = (include("math.h"),)
    complex_constructors: ClassVar[Mapping[Dtype, str]] = dtypes_by_name(
        {"complex64": "CMPLXF", "complex128": "CMPLX"}
    )
    print_needs: ClassVar[tuple[Need, ...]] = (include("stdio.h"),)
    unroll_count_pragma: ClassVar[str] = "GCC unroll"
    functions: ClassVar[FunctionNames] = C_FUNCTIONS
    #: those of C++ too, where headers declare the functions
    reserved_words: ClassVar[frozenset[str]] = C_WORDS | CPP_WORDS | MACROS
    words_of_headers: ClassVar[Mapping[str, frozenset[str]]] = {
        "complex.h": frozenset({"I", "complex"}),
        "stdbool.h": frozenset({"bool", "false", "true"}),
    }

    def get_device_ast_builder(self) -> ASTBuilderBase:
        """Return what makes the code of functions."""
        return ASTBuilderBase(self)


@dataclass(frozen=True)
class ExecutableCTarget(CTarget):
    """C functions that the host's compiler builds and this process calls.

    >>> import kgen as lp
    >>> unit = lp.make_kernel("{ [i]: 0<=i<4 }", "out[i] = i*i", target=ExecutableCTarget())
    >>> event, (out,) = unit()
    >>> out
    array([0, 1, 4, 9], dtype=int32)
    """

    runtime_module: ClassVar[str | None] = "kgen.runtime.c"


@dataclass(frozen=True)
class CWithGNULibcTarget(CTarget):
    """C11 with the functions of GNU's library: Bessel functions of any order.

    >>> import kgen as lp
    >>> unit = lp.make_kernel(
    ...     "{ [i]: 0<=i<n }", "a[i] = bessel_jn(2, a[i])", [lp.GlobalArg("a", "float64"), ...],
    ...     target=CWithGNULibcTarget())
    >>> print(lp.generate_body(unit))
      for (int i = 0; i < n; ++i)
        a[i] = jn(2, a[i]);
    """

    functions: ClassVar[FunctionNames] = GNU_FUNCTIONS


@dataclass(frozen=True)
class ExecutableCWithGNULibcTarget(CWithGNULibcTarget, ExecutableCTarget):
    """C with GNU's library that the host's compiler builds and this process calls.

    >>> import kgen as lp
    >>> unit = lp.make_kernel(
    ...     "{ [i]: 0<=i<1 }", "out[i] = bessel_jn(1, 1.0)", target=ExecutableCWithGNULibcTarget())
    >>> event, (out,) = unit()
    >>> out
    array([0.44005059])
    """
