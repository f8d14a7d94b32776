"""Sub-arrays that calls pass: their extents and strides."""

from __future__ import annotations

from collections.abc import Sequence

import pymbolic.primitives as p

from kgen.errors import StaticValueFindingError
from kgen.ir.affine import simplify
from kgen.ir.arg_descriptors import ArgDescriptor, ArrayArgDescriptor, ValueArgDescriptor
from kgen.ir.assignee import assignee_name
from kgen.ir.data import ArrayArg, ArrayBase, TemporaryVariable
from kgen.ir.expr import Expr, SubArrayRef, minus, substitute, variable_names
from kgen.ir.kernel import LoopKernel
from kgen.ir.layout import FixedStrideArrayDimTag
from kgen.ir.types import auto

__all__ = ["extents_and_strides", "get_arg_descriptor_for_expression", "strides_of"]


def get_arg_descriptor_for_expression(kernel: LoopKernel, expr: Expr) -> ArgDescriptor:
    """Return the descriptor that a called function gets of a part of an array, or a number."""
    if not isinstance(expr, SubArrayRef):
        return ValueArgDescriptor()
    array = kernel.array_vars[assignee_name(expr)]
    assert isinstance(array, ArrayArg | TemporaryVariable)
    shape, strides = extents_and_strides(kernel, expr)
    tags = [FixedStrideArrayDimTag(stride) for stride in strides if stride is not None]
    return ArrayArgDescriptor(
        tuple(shape), array.address_space, tuple(tags) if len(tags) == len(strides) else None
    )


def extents_and_strides(
    kernel: LoopKernel, place: Expr
) -> tuple[Sequence[Expr | None], Sequence[Expr | None]]:
    """Return the extents and strides of an array argument, in terms of the caller."""
    if isinstance(place, p.Variable):
        whole = kernel.array_vars[place.name]
        shape = whole.shape if isinstance(whole.shape, tuple) else ()
        return shape, strides_of(whole) or (None,) * len(shape)
    if not isinstance(place, SubArrayRef):
        return (), ()
    swept = [var.name for var in place.swept_inames]
    strides = strides_of(kernel.array_vars[assignee_name(place.subscript)])
    if strides is None:
        return [_extent(kernel, name) for name in swept], [None] * len(swept)
    index = place.subscript.index_tuple
    return (
        [_extent(kernel, name) for name in swept],
        [_stride(index, strides, name) for name in swept],
    )


def _stride(index: Sequence[Expr], strides: Sequence[Expr], name: str) -> Expr | None:
    """Return the constant stride of an element's linear index in a variable, if there is one."""
    total: Expr = 0
    for subscript, stride in zip(index, strides, strict=True):
        moved = substitute(subscript, {name: p.Sum((p.Variable(name), 1))})
        step = simplify(minus(moved, subscript))
        total = p.Sum((total, p.Product((step, stride))))
    stride = simplify(total)
    return None if name in variable_names(stride) else stride


def _extent(kernel: LoopKernel, iname: str) -> Expr | None:
    try:
        return simplify(kernel.get_iname_bounds(iname).extent)
    except StaticValueFindingError:  # each call passes a different number of elements
        return None


def strides_of(array: ArrayBase) -> tuple[Expr, ...] | None:
    """Return the strides of an array, ``None`` if they are unknown."""
    tags = array.dim_tags
    if not isinstance(tags, tuple) or not isinstance(array.shape, tuple) or auto in array.shape:
        return None
    if not all(isinstance(tag, FixedStrideArrayDimTag) for tag in tags):
        return None
    strides = array.fixed_strides
    return None if any(stride is auto for stride in strides) else strides
