"""loopy.translation_unit: whole programs."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Concatenate, ParamSpec, TypeAlias, TypeVar

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
    "check_each_kernel",
    "for_each_kernel",
    "make_program",
]

#: A name in the table of callables.
CallableId: TypeAlias = str
CallablesTable: TypeAlias = Mapping[CallableId, InKernelCallable]
#: The value that ``with_types`` and ``with_descrs`` receive and return, besides the callable.
CallablesInferenceContext: TypeAlias = Mapping[CallableId, InKernelCallable]
TUnitOrKernelT = TypeVar("TUnitOrKernelT", TranslationUnit, LoopKernel)
P = ParamSpec("P")


def check_each_kernel(
    check: Callable[Concatenate[LoopKernel, P], None],
) -> Callable[Concatenate[TranslationUnit | LoopKernel, P], None]:
    """Let a check of a kernel, which raises an error or returns nothing, take programs, too.

    >>> @check_each_kernel
    ... def check_name(kernel, start):
    ...     if not kernel.name.startswith(start):
    ...         raise ValueError(kernel.name)
    >>> from kgen.frontend import make_kernel
    >>> check_name(make_kernel("{ [i]: 0<=i<n }", "out[i] = 1", name="ones"), "t")
    Traceback (most recent call last):
        ...
    ValueError: ones
    """

    def call(program: TranslationUnit | LoopKernel, /, *args: P.args, **kwargs: P.kwargs) -> None:
        if isinstance(program, LoopKernel):
            check(program, *args, **kwargs)
            return
        for called in program.callables_table.values():
            if isinstance(called, CallableKernel):
                check(called.subkernel, *args, **kwargs)

    functools.update_wrapper(call, check)
    return call


def make_program(kernel: LoopKernel) -> TranslationUnit:
    """Return the program whose only kernel, and entry point, is *kernel*."""
    warn_once("make_program", "make_kernel")
    return TranslationUnit(
        callables_table={kernel.name: CallableKernel(kernel)},
        entrypoints=frozenset({kernel.name}),
        target=kernel.target,
    )
