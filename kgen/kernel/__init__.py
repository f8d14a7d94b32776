"""Kernels and their parts, under loopy's module names."""

from __future__ import annotations

from kgen.ir.kernel import LoopKernel
from kgen.kernel import array, data, function_interface, instruction

__all__ = ["LoopKernel", "array", "data", "function_interface", "instruction"]
