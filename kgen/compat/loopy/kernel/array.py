"""loopy.kernel.array: axes of arrays and their layouts."""

from __future__ import annotations

from kgen.ir.data import (
    ArrayBase,
)
from kgen.ir.layout import (
    ArrayDimImplementationTag,
    ComputedStrideArrayDimTag,
    FixedStrideArrayDimTag,
    SeparateArrayArrayDimTag,
    VectorArrayDimTag,
    parse_array_dim_tags,
)

__all__ = [
    "ArrayBase",
    "ArrayDimImplementationTag",
    "ComputedStrideArrayDimTag",
    "FixedStrideArrayDimTag",
    "SeparateArrayArrayDimTag",
    "VectorArrayDimTag",
    "parse_array_dim_tags",
]
