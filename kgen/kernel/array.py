"""Array axes and layouts, under loopy's module name."""

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
