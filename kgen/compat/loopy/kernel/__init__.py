"""loopy.kernel: kernels and their parts."""

from __future__ import annotations

from kgen.compat.loopy.kernel import (
    array,
    creation,
    data,
    function_interface,
    instruction,
    tools,
)
from kgen.ir.kernel import KernelState, LoopKernel

__all__ = [
    "KernelState",
    "LoopKernel",
    "array",
    "creation",
    "data",
    "function_interface",
    "instruction",
    "tools",
]
