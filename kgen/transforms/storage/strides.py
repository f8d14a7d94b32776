"""Open strides, as values that each call reads from its arrays."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pymbolic.primitives as p

from kgen.ir.data import ArrayArg, ValueArg
from kgen.ir.kernel import LoopKernel
from kgen.ir.layout import FixedStrideArrayDimTag, SeparateArrayArrayDimTag
from kgen.ir.tags import FoundInCallTag
from kgen.ir.types import INT64, auto

__all__ = ["name_open_strides", "name_strides"]


def name_open_strides(kernel: LoopKernel) -> LoopKernel:
    """Make each stride that is ``stride:auto`` a value argument.

    ::

        a: stride:auto, stride:1  =>  a: stride:a_stride0, stride:1

    Arrays that a call may omit are in C order, in which they are allocated; a call that
    passes one of another layout gets code for that.
    """
    open_ = [
        arg
        for arg in kernel.args
        if isinstance(arg, ArrayArg) and any(map(_is_open, _tags_of(arg)))
    ]
    if not open_:
        return kernel
    outputs = {arg.name for arg in open_ if _is_left_out(arg)}
    in_order = tuple(
        arg.copy(dim_tags="C") if isinstance(arg, ArrayArg) and arg.name in outputs else arg
        for arg in kernel.args
    )
    others = [arg.name for arg in open_ if arg.name not in outputs]
    return name_strides(kernel.copy(args=in_order), others, only_open=True)


def _is_left_out(array: ArrayArg) -> bool:
    """Tell whether calls may leave *array* to be allocated, and its layout is not declared."""
    is_pure_output = bool(array.is_output) and not array.is_input
    return is_pure_output and all(map(_is_open, _tags_of(array)))


def name_strides(
    kernel: LoopKernel, names: Collection[str], *, only_open: bool = False
) -> LoopKernel:
    """Make the strides of the array arguments *names* value arguments that calls find.

    ``a[i, j]`` in C order, ``a[n*i + j]``, becomes ``a[a_stride0*i + a_stride1*j]``.
    """
    new_name = kernel.get_var_name_generator()
    args: list[ArrayArg | ValueArg] = []
    strides: list[ValueArg] = []

    def named(tag: Any, array: str, axis: int) -> Any:
        if isinstance(tag, SeparateArrayArrayDimTag) or (only_open and not _is_open(tag)):
            return tag
        name = new_name(f"{array}_stride{axis}")
        strides.append(ValueArg(name, INT64, tags=frozenset((FoundInCallTag(),))))
        return FixedStrideArrayDimTag(p.Variable(name))

    for arg in kernel.args:
        if isinstance(arg, ArrayArg) and arg.name in names:
            tags = [named(tag, arg.name, axis) for axis, tag in enumerate(_tags_of(arg))]
            arg = arg.copy(dim_tags=tuple(tags))
        args.append(arg)
    return kernel.copy(args=(*args, *strides))


def _tags_of(array: ArrayArg) -> tuple[Any, ...]:
    return array.dim_tags if isinstance(array.dim_tags, tuple) else ()


def _is_open(tag: Any) -> bool:
    return isinstance(tag, FixedStrideArrayDimTag) and tag.stride is auto
