"""loopy.kernel.array: axes of arrays and their layouts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from pymbolic.typing import ArithmeticExpression

from kgen.ir import layout
from kgen.ir.data import *
from kgen.ir.layout import (
    ArrayDimImplementationTag,
    ComputedStrideArrayDimTag,
    FixedStrideArrayDimTag,
    SeparateArrayArrayDimTag,
    VectorArrayDimTag,
)

__all__ = [
    "ArrayArg",
    "ArrayBase",
    "ArrayDimImplementationTag",
    "ComputedStrideArrayDimTag",
    "FixedStrideArrayDimTag",
    "SeparateArrayArrayDimTag",
    "ShapeType",
    "ToDimTagsParseable",
    "VectorArrayDimTag",
    "parse_array_dim_tags",
]

ShapeType: TypeAlias = tuple[ArithmeticExpression, ...]
#: The argument types of :func:`parse_array_dim_tags`.
ToDimTagsParseable: TypeAlias = (
    str | Mapping[str, str] | Sequence[str | ArrayDimImplementationTag] | None
)


def parse_array_dim_tags(
    dim_tags: Any,
    n_axes: int | None = None,
    use_increasing_target_axes: bool = False,
    dim_names: Sequence[str] | None = None,
) -> tuple[ArrayDimImplementationTag, ...]:
    """Read one tag for each axis, from text, a sequence, or tags by *dim_names*.

    Of arrays with several target axes kgen knows those that ``sep`` makes; it makes no difference
    whether *use_increasing_target_axes*.

    >>> [str(tag) for tag in parse_array_dim_tags("N0,N1,vec")]
    ['N0:c', 'N1:c', 'vec']
    >>> [str(tag) for tag in parse_array_dim_tags({"y": "N1", "x": "N0"}, dim_names=("x", "y"))]
    ['N0:c', 'N1:c']
    """
    if isinstance(dim_tags, Mapping):
        dim_tags = [dim_tags.get(name, "c") for name in dim_names or ()]
    count = len(layout.layout_items(dim_tags)) if n_axes is None else n_axes
    return layout.parse_array_dim_tags(dim_tags, count)
