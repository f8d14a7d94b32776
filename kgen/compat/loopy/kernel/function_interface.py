"""loopy.kernel.function_interface: what can be called."""

from __future__ import annotations

from kgen.ir.arg_descriptors import (
    ArgDescriptor,
    ArrayArgDescriptor,
    ValueArgDescriptor,
)
from kgen.ir.callables import (
    CallMangleInfo,
    InKernelCallable,
    ScalarCallable,
)
from kgen.ir.unit import (
    CallableKernel,
)

__all__ = [
    "ArgDescriptor",
    "ArrayArgDescriptor",
    "CallMangleInfo",
    "CallableKernel",
    "InKernelCallable",
    "ScalarCallable",
    "ValueArgDescriptor",
]
