"""What the tests of the targets share: small kernels, and compilers for many of them at once."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import kgen as lp
from kgen.ir.kernel import LoopKernel
from kgen.lowering import generate_module
from kgen.targets.builder import CFamilyTarget
from kgen.targets.c import OPENMP_SIMD, CTarget
from kgen.targets.module import Module

Dtypes = Mapping[str, Any]


def make(
    instructions: Any,
    dtypes: Dtypes,
    *,
    domain: str = "{ [i]: 0 <= i < n }",
    target: CFamilyTarget | None = None,
    name: str = "k",
    **options: Any,
) -> LoopKernel:
    """Return a kernel on vectors of length n of the given types."""
    args = [lp.GlobalArg(key, dtype, shape="n") for key, dtype in dtypes.items()]
    unit = lp.make_kernel(
        domain, instructions, [*args, ...], name=name, target=target or CTarget(), **options
    )
    return unit.default_entrypoint


def module_of(instructions: Any, dtypes: Dtypes, **options: Any) -> Module:
    """Generate the code of :func:`make`'s kernel."""
    return generate_module(make(instructions, dtypes, **options))


def body_of(source: str) -> list[str]:
    """Return the lines between the braces of the last function."""
    lines = source.split("\n")
    start = max(at for at, line in enumerate(lines) if line == "{")
    return [line[2:] for line in lines[start + 1 : -1]]


def value_of(
    expression: str, dtypes: Dtypes, target: CFamilyTarget | None = None, **options: Any
) -> str:
    """Return the C text of *expression*, assigned to an element."""
    source = module_of(f"out[i] = {expression}", dtypes, target=target, **options).device_source
    (line,) = [line for line in body_of(source) if "out[" in line]
    return line.split(" = ", 1)[1].removesuffix(";")


def merge_sources(sources: Iterable[str]) -> str:
    """Put programs into one: what they have in common comes once, directives come first."""
    blocks: dict[str, None] = {}
    for source in sources:
        depth, block = 0, list[str]()
        for line in [*source.split("\n"), ""]:
            depth += line.count("{") - line.count("}")
            if line.startswith(("typedef ", "struct ")) and depth == 0:
                blocks[line] = None
            elif line or depth:
                block.append(line)
            elif block:
                blocks["\n".join(block)] = None
                block = []
    ranked = sorted(blocks, key=_rank)
    return "\n\n".join(ranked) + "\n"


def _rank(block: str) -> int:
    heads = ("#if", "#define PYOPENCL", "#include", "#", "typedef ", "struct ")
    return next((k for k, head in enumerate(heads) if block.startswith(head)), len(heads))


def compile_c(source: str, folder: Path) -> ctypes.CDLL:
    """Compile C without a warning, and load it.

    gcc does not know that a loop before the use of a value has an iteration; kgen proves it.
    """
    path = folder / "code.c"
    path.write_text(source)
    compiler = os.environ.get("CC") or shutil.which("gcc") or "cc"
    flags = ["-O1", "-Wall", "-Werror", "-Wno-maybe-uninitialized", "-fPIC", "-shared", OPENMP_SIMD]
    library = folder / "code.so"
    command = [compiler, *flags, str(path), "-o", str(library), "-lm"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return ctypes.CDLL(str(library))


def compile_cuda(source: str, folder: Path, nvcc: str) -> None:
    """Compile CUDA to PTX for a recent device."""
    path = folder / "code.cu"
    path.write_text(source)
    command = [nvcc, "-arch=sm_90", "--ptx", "-w", "-o", str(folder / "code.ptx"), str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


#: What CUDA's words for functions are on the host, where the library has overloads by type.
_ON_HOST = """
#undef __device__
#undef __global__
#undef __launch_bounds__
#define __device__
#define __global__
#define __launch_bounds__(...)
#include <cmath>
using namespace std;
"""


def compile_cuda_for_host(source: str, folder: Path, nvcc: str) -> ctypes.CDLL:
    """Compile functions of CUDA C++ that use no axes of the device for the host, and load them."""
    lines = source.split("\n")
    last = max(at for at, line in enumerate(lines) if line.startswith("#include")) + 1
    path = folder / "code.cpp"
    path.write_text("\n".join((*lines[:last], _ON_HOST, *lines[last:])))
    library = folder / "code.so"
    flags = ["-x", "c++", "-O1", "-shared", "-cudart=none", "-Xcompiler=-fPIC"]
    command = [nvcc, *flags, str(path), "-o", str(library)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return ctypes.CDLL(str(library))


def call(library: ctypes.CDLL, module: Module, values: Mapping[str, Any]) -> None:
    """Call a function of :func:`compile_c`'s library with numpy arrays and integers."""
    arguments: list[Any] = []
    for name in module.launches[0].parameters:
        value = values[name]
        if isinstance(value, np.ndarray):
            arguments.append(ctypes.c_void_p(value.ctypes.data))
        else:
            arguments.append(ctypes.c_int(value))
    library[module.launches[0].function](*arguments)
