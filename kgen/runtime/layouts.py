"""Kernels for arrays of any layout: strides and offsets that a call reads from its arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, dataclass

from kgen.ir.data import ArrayArg
from kgen.ir.kernel import LoopKernel
from kgen.ir.types import auto
from kgen.transforms.storage.strides import name_strides

__all__ = ["FreeLayout", "with_free_layout"]


@dataclass(frozen=True)
class FreeLayout:
    """The arrays with arbitrary strides, and the arrays with arbitrary offsets."""

    strides: frozenset[str] = frozenset()
    offsets: frozenset[str] = frozenset()

    def __or__(self, other: FreeLayout) -> FreeLayout:
        return FreeLayout(self.strides | other.strides, self.offsets | other.offsets)

    def of_arrays(self, array_of: Mapping[str, str]) -> FreeLayout:
        """Return the same for the arrays to which pieces belong."""
        return FreeLayout(
            *(frozenset(array_of.get(name, name) for name in names) for names in astuple(self))
        )


def with_free_layout(kernel: LoopKernel, free: FreeLayout) -> LoopKernel:
    """Make strides and offsets of some array arguments values that are found in each call."""
    if free == FreeLayout():
        return kernel
    kernel = name_strides(kernel, free.strides)
    args = (
        arg.copy(offset=auto) if isinstance(arg, ArrayArg) and arg.name in free.offsets else arg
        for arg in kernel.args
    )
    return kernel.copy(args=tuple(args))
