"""loopy.translation_unit: whole programs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias, TypeVar

from kgen.compat.renamed import warn_once
from kgen.ir.callables import InKernelCallable, ScalarCallable
from kgen.ir.kernel import LoopKernel
from kgen.ir.unit import CallableKernel, TranslationUnit, for_each_kernel

__all__ = [
    "CallableId",
    "CallableKernel",
    "CallablesInferenceContext",
    "CallablesTable",
    "InKernelCallable",
    "ScalarCallable",
    "TUnitOrKernelT",
    "TranslationUnit",
    "for_each_kernel",
    "make_program",
]

#: A name in the table of callables.
CallableId: TypeAlias = str
CallablesTable: TypeAlias = Mapping[CallableId, InKernelCallable]
#: The value that ``with_types`` and ``with_descrs`` receive and return, besides the callable.
CallablesInferenceContext: TypeAlias = Mapping[CallableId, InKernelCallable]
TUnitOrKernelT = TypeVar("TUnitOrKernelT", TranslationUnit, LoopKernel)


def make_program(kernel: LoopKernel) -> TranslationUnit:
    """Return the program whose only kernel, and entry point, is *kernel*."""
    warn_once("make_program", "make_kernel")
    return TranslationUnit(
        callables_table={kernel.name: CallableKernel(kernel)},
        entrypoints=frozenset({kernel.name}),
        target=kernel.target,
    )
