"""Kernels for arrays of any layout: strides and offsets that a call finds in its arrays."""

from __future__ import annotations

from dataclasses import dataclass

import pymbolic.primitives as p

from kgen.ir.data import ArrayArg, ValueArg
from kgen.ir.kernel import LoopKernel
from kgen.ir.layout import FixedStrideArrayDimTag
from kgen.ir.tags import FoundInCallTag
from kgen.ir.types import INT64, auto

__all__ = ["FreeLayout", "with_free_layout"]


@dataclass(frozen=True)
class FreeLayout:
    """The arrays whose strides, and those whose offsets, may be anything."""

    strides: frozenset[str] = frozenset()
    offsets: frozenset[str] = frozenset()

    def __or__(self, other: FreeLayout) -> FreeLayout:
        return FreeLayout(self.strides | other.strides, self.offsets | other.offsets)


def with_free_layout(kernel: LoopKernel, free: FreeLayout) -> LoopKernel:
    """Make strides and offsets of some array arguments values that are found in each call.

    ``a[i, j]`` in C order, ``a[n*i + j]``, becomes ``a[a_stride0*i + a_stride1*j]``.
    """
    if free == FreeLayout():
        return kernel
    new_name = kernel.get_var_name_generator()
    args: list[ArrayArg | ValueArg] = []
    strides: list[ValueArg] = []
    for arg in kernel.args:
        if isinstance(arg, ArrayArg) and arg.name in free.strides:
            names = [new_name(f"{arg.name}_stride{axis}") for axis in range(len(arg.dim_tags))]
            tags = tuple(FixedStrideArrayDimTag(p.Variable(name)) for name in names)
            arg = arg.copy(dim_tags=tags)
            strides += [
                ValueArg(name, INT64, tags=frozenset((FoundInCallTag(),))) for name in names
            ]
        if isinstance(arg, ArrayArg) and arg.name in free.offsets:
            arg = arg.copy(offset=auto)
        args.append(arg)
    return kernel.copy(args=(*args, *strides))
