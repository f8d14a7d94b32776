"""Descriptions of call arguments that functions receive: shapes and layouts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

from kgen.ir.expr import Expr, variable_names
from kgen.ir.fields import Copyable
from kgen.ir.layout import FixedStrideArrayDimTag
from kgen.ir.types import AddressSpace

__all__ = ["ArgDescriptor", "ArrayArgDescriptor", "ValueArgDescriptor"]


class ArgDescriptor(Copyable):
    """The known facts of an argument, besides its type.

    >>> isinstance(ValueArgDescriptor(), ArgDescriptor)
    True
    """

    def map_expr(self, f: Callable[[Expr], Expr]) -> Self:
        """Return this with *f* applied to extents and strides."""
        return self

    def depends_on(self) -> frozenset[str]:
        """Return the variables in extents and strides."""
        return frozenset()


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

    def map_expr(self, f: Callable[[Expr], Expr]) -> Self:
        """Return this with *f* applied to extents and strides."""
        shape = tuple(None if extent is None else f(extent) for extent in self.shape)
        tags = self.dim_tags and tuple(tag.map_expr(f) for tag in self.dim_tags)
        return self.copy(shape=shape, dim_tags=tags)

    def depends_on(self) -> frozenset[str]:
        """Return the variables in extents and strides."""
        extents = (variable_names(extent) for extent in self.shape if extent is not None)
        return frozenset[str]().union(*extents, *(tag.depends_on() for tag in self.dim_tags or ()))
