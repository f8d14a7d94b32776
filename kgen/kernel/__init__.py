"""Kernels and their parts, under the documented module names."""

from __future__ import annotations

from kgen.ir.kernel import (
    LoopKernel,
)

__all__ = [
    "LoopKernel",
]
