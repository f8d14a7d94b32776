"""Whole programs, under loopy's module name."""

from __future__ import annotations

from kgen.ir.callables import InKernelCallable
from kgen.ir.unit import CallableKernel, TranslationUnit, for_each_kernel

__all__ = ["CallableKernel", "InKernelCallable", "TranslationUnit", "for_each_kernel"]
