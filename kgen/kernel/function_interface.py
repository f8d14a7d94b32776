"""What can be called, under the documented module name."""

from __future__ import annotations

from kgen.ir.callables import CallMangleInfo, InKernelCallable, ScalarCallable
from kgen.ir.unit import CallableKernel

__all__ = [
    "CallMangleInfo",
    "CallableKernel",
    "InKernelCallable",
    "ScalarCallable",
]
