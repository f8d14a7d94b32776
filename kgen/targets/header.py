"""Headers for generated code: declarations that C, C++ and CUDA programs include."""

from __future__ import annotations

import re
from collections.abc import Collection

import numpy as np

from kgen.targets.base import CFamilyLanguage
from kgen.targets.module import Module
from kgen.targets.preamble import Need, Rank

__all__ = ["c_header", "cuda_header"]

#: The complex types of C, which have the layout of C++'s, but no common name.
_COMPLEX = re.compile(r"\b(float|double) complex\b")
_COMPLEX_HEADER = "complex.h"


def c_header(module: Module, target: CFamilyLanguage) -> str:
    """Return a header for C11 and C++17 that declares the functions of *module*."""
    needs = _needs_of(module, target)
    shared = [need for need in needs if need.key != _COMPLEX_HEADER]
    if len(shared) == len(needs):
        lines = [
            *("#ifdef __cplusplus", 'extern "C" {', "#endif", ""),
            module.declarations,
            *("", "#ifdef __cplusplus", "}", "#endif"),
        ]
    else:
        lines = [
            *("#ifdef __cplusplus", "#include <complex>", 'extern "C" {'),
            _COMPLEX.sub(r"std::complex<\1>", module.declarations),
            *("}", "#else", f"#include <{_COMPLEX_HEADER}>"),
            module.declarations,
            "#endif",
        ]
    return _guarded(module, [*_sections(shared), *lines])


def cuda_header(module: Module, target: CFamilyLanguage) -> str:
    """Return a header that declares the kernels of *module* to nvcc, and is empty for others."""
    sections = _sections(_needs_of(module, target))
    return _guarded(module, ["#ifdef __CUDACC__", *sections, module.declarations, "#endif"])


def _needs_of(module: Module, target: CFamilyLanguage) -> list[Need]:
    """Return the preamble of the types of the parameters, in order."""
    passed = {name for launch in module.launches for name in launch.parameters}
    dtypes = {arg.dtype for arg in module.arguments if arg.name in passed}
    dtypes |= {loop.dtype for loop in module.host_loops}
    if any(arg.offset in passed for arg in module.arguments):
        dtypes.add(np.dtype(np.int64))
    return sorted({need for dtype in dtypes for need in target.needs_of(dtype)})


def _sections(needs: Collection[Need]) -> list[str]:
    """Return the lines of *needs*, with a blank line after each section."""
    lines = list[str]()
    for rank in Rank:
        texts = [need.text for need in needs if need.rank == rank]
        lines += [*texts, ""] if texts else []
    return lines


def _guarded(module: Module, lines: list[str]) -> str:
    guard = f"KGEN_{module.launches[0].function}_H"
    return "\n".join([f"#ifndef {guard}", f"#define {guard}", "", *lines, "", "#endif"])
