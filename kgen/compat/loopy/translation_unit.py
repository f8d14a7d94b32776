"""loopy.translation_unit: whole programs."""

from __future__ import annotations

from kgen.compat.renamed import warn_once
from kgen.ir.callables import InKernelCallable
from kgen.ir.kernel import LoopKernel
from kgen.ir.unit import CallableKernel, TranslationUnit, for_each_kernel

__all__ = [
    "CallableKernel",
    "InKernelCallable",
    "TranslationUnit",
    "for_each_kernel",
    "make_program",
]


def make_program(kernel: LoopKernel) -> TranslationUnit:
    """Return the program whose only kernel, and entry point, is *kernel*."""
    warn_once("make_program", "make_kernel")
    return TranslationUnit(
        callables_table={kernel.name: CallableKernel(kernel)},
        entrypoints=frozenset({kernel.name}),
        target=kernel.target,
    )
