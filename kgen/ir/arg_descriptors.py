"""Descriptions of call arguments that functions receive: shapes and layouts."""

from __future__ import annotations

from dataclasses import dataclass

from kgen.ir.expr import Expr
from kgen.ir.fields import Copyable
from kgen.ir.layout import FixedStrideArrayDimTag
from kgen.ir.types import AddressSpace

__all__ = ["ArgDescriptor", "ArrayArgDescriptor", "ValueArgDescriptor"]


class ArgDescriptor(Copyable):
    """The known facts of an argument, besides its type.

    >>> isinstance(ValueArgDescriptor(), ArgDescriptor)
    True
    """


@dataclass(frozen=True)
class ValueArgDescriptor(ArgDescriptor):
    """A number.

    >>> ValueArgDescriptor() == ValueArgDescriptor()
    True
    """


@dataclass(frozen=True)
class ArrayArgDescriptor(ArgDescriptor):
    """A part of an array: extents, address space, and strides.

    Extents and strides, in elements, are those that a call passes: of the caller's array, in
    terms of the caller's sizes. ``dim_tags`` is ``None`` while the layout is unknown.

    >>> from kgen.ir.layout import FixedStrideArrayDimTag
    >>> rows = (FixedStrideArrayDimTag(10), FixedStrideArrayDimTag(1))
    >>> matrix = ArrayArgDescriptor((7, 10), AddressSpace.GLOBAL, rows)
    >>> matrix.shape, [tag.stride for tag in matrix.dim_tags]
    ((7, 10), [10, 1])
    """

    shape: tuple[Expr | None, ...]
    address_space: AddressSpace
    dim_tags: tuple[FixedStrideArrayDimTag, ...] | None
