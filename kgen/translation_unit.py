"""Whole programs, under the documented module name."""

from __future__ import annotations

from kgen.ir.unit import CallableKernel, InKernelCallable, TranslationUnit, for_each_kernel

__all__ = ["CallableKernel", "InKernelCallable", "TranslationUnit", "for_each_kernel"]
