"""loopy.target: targets of code generation."""

from __future__ import annotations

from kgen.compat.loopy.target import (
    c,
    cuda,
    execution,
    ispc,
    opencl,
    pyopencl,
)
from kgen.ir.target import (
    TargetBase,
)
from kgen.targets.builder import (
    ASTBuilderBase,
)

__all__ = [
    "ASTBuilderBase",
    "TargetBase",
    "c",
    "cuda",
    "execution",
    "ispc",
    "opencl",
    "pyopencl",
]
