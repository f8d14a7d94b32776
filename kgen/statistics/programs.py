"""The kernel of a program to count, prepared as for code generation."""

from __future__ import annotations

from kgen.ir.analyses import Analysis
from kgen.ir.kernel import LoopKernel
from kgen.ir.stages import PreparedKernel
from kgen.ir.unit import TranslationUnit
from kgen.lowering import prepare
from kgen.transforms.programs.inline import inlined_kernel

__all__ = ["prepared_kernel"]

_PREPARED = Analysis[PreparedKernel](LoopKernel)


def prepared_kernel(
    unit: TranslationUnit | LoopKernel, entrypoint: str | None = None
) -> PreparedKernel:
    """Return a kernel of a program as code generation sees it: with types, without reductions.

    Calls of other kernels are inlined. The result is cached in the kernel, since operations,
    accesses and others are counted one after the other.
    """
    kernel = inlined_kernel(unit, entrypoint)
    found = kernel.analyses.answer(_PREPARED, None, lambda: prepare(kernel))
    return found.analyses.answer(_PREPARED, None, lambda: found)
