"""Memory layout of array axes: dimension tags, orders and strides."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Self

import pymbolic.primitives as p

from kgen.errors import KernelError, counted
from kgen.ir.checked import unfit
from kgen.ir.expr import Expr, is_constant, to_text, variable_names
from kgen.ir.fields import Copyable
from kgen.ir.language.expressions import parse
from kgen.ir.types import AutoType, auto

__all__ = [
    "ArrayDimImplementationTag",
    "ComputedStrideArrayDimTag",
    "FixedStrideArrayDimTag",
    "SeparateArrayArrayDimTag",
    "Swizzle",
    "VectorArrayDimTag",
    "is_open_extent",
    "parse_array_dim_tags",
    "parse_shape",
    "resolve_strides",
    "vector_room",
]


#: The possible numbers of lanes of vectors.
_LENGTHS: Final = (2, 3, 4, 8, 16)


class ArrayDimImplementationTag(Copyable):
    """How one axis of an array is laid out in storage."""

    def map_expr(self, mapper: Callable[[Expr], Expr]) -> Self:
        """Return this with *mapper* applied to the stride, if that is an expression."""
        return self

    def depends_on(self) -> frozenset[str]:
        """Return the variables in the stride.

        >>> FixedStrideArrayDimTag(parse("4*n")).depends_on()
        frozenset({'n'})
        """
        return frozenset()


@dataclass(frozen=True)
class FixedStrideArrayDimTag(ArrayDimImplementationTag):
    """``N<level>:stride:<stride>``: consecutive elements are *stride* elements apart."""

    stride: Expr | AutoType
    #: The axis of the array in generated code, which has one.
    target_axis: int = 0
    layout_nesting_level: int | None = None

    def __post_init__(self) -> None:
        if self.target_axis != 0:
            raise KernelError(
                f"the target axis of an axis is 0, not {self.target_axis!r}",
                hint="arrays have one axis in generated code",
            )
        if self.stride is None:
            raise KernelError(
                "the stride of an axis is None\n  hint: give a number of elements or an "
                "expression, or lp.auto to infer it"
            )

    def map_expr(self, mapper: Callable[[Expr], Expr]) -> Self:
        """Return this with *mapper* applied to the stride, if that is an expression."""
        return self if self.stride is auto else self.copy(stride=mapper(self.stride))

    def depends_on(self) -> frozenset[str]:
        """Return the variables in the stride."""
        return frozenset(() if self.stride is auto else variable_names(self.stride))

    def __str__(self) -> str:
        level = "" if self.layout_nesting_level is None else f"N{self.layout_nesting_level}:"
        return f"{level}stride:{self.stride if self.stride is auto else to_text(self.stride)}"


@dataclass(frozen=True)
class ComputedStrideArrayDimTag(ArrayDimImplementationTag):
    """``N<level>``: the stride follows from the extents of the axes of lower level."""

    layout_nesting_level: int
    pad_to: int | None = None

    def __str__(self) -> str:
        pad = "" if self.pad_to is None else f"({self.pad_to})"
        return f"N{self.layout_nesting_level}:c{pad}"


@dataclass(frozen=True)
class SeparateArrayArrayDimTag(ArrayDimImplementationTag):
    """``sep``: one array per index of this axis, which does not affect the linear index."""

    #: The contribution of this axis to the linear index.
    stride: ClassVar[int] = 0

    def __str__(self) -> str:
        return "sep"


@dataclass(frozen=True)
class VectorArrayDimTag(ArrayDimImplementationTag):
    """``vec``: the contiguous lanes of a vector.

    The vectors along other axes are aligned: a vector of three numbers takes the space of four.
    """

    #: The contribution of this axis to the linear index.
    stride: ClassVar[int] = 1

    def __str__(self) -> str:
        return "vec"


@dataclass(frozen=True)
class Swizzle:
    """``swizzle:128``: the chunks of each row of storage are permuted, depending on the row.

    Elements of one column are then in different banks. *row* and *chunk* are numbers of
    elements, powers of two.
    """

    row: int
    chunk: int

    @property
    def period(self) -> int:
        """The number of elements after which the permutation repeats."""
        return self.row * (self.row // self.chunk)

    def turn(self, element: Expr) -> Expr:
        """Return the chunk that an element of the first chunk of its row is moved to."""
        return p.Remainder(p.FloorDiv(element, self.row), self.row // self.chunk)

    def stored(self, element: Any) -> Any:
        """Return the storage index of an element, given its linear index without swizzle."""
        return element ^ (element // self.row % (self.row // self.chunk) * self.chunk)

    def __str__(self) -> str:
        return f"swizzle:{self.row}/{self.chunk}"


def parse_shape(shape: Any) -> tuple[Expr, ...] | AutoType | None:
    """Read a shape: one extent or several, as numbers, text or expressions.

    An extent that is ``None`` is unknown; ``auto`` means that it is inferred.

    >>> parse_shape("n, 2*n")
    (Variable('n'), Product((2, Variable('n'))))
    """
    if shape is None or shape is auto:
        return shape
    if isinstance(shape, str):
        shape = parse(shape) if shape.strip() else ()
        if shape == p.Variable("auto"):
            raise KernelError("the shape 'auto' is text\n  hint: pass the object kgen.auto")
    if not isinstance(shape, tuple | list):
        shape = (shape,)
    return tuple(axis if is_open_extent(axis) else _read_extent(axis) for axis in shape)


def is_open_extent(extent: Any) -> bool:
    """Tell whether an extent is to be inferred, or unknown."""
    return extent is auto or extent is None


def _read_extent(axis: Any) -> Expr:
    if isinstance(axis, str):
        axis = parse(axis)
    if isinstance(axis, p.ExpressionNode):
        return axis
    if not is_constant(axis):
        raise unfit(
            "extent of an axis",
            "text, a number or an expression",
            axis,
            hint="the type comes before the shape: GlobalArg(name, dtype, shape)",
        )
    if isinstance(axis, complex) or axis % 1 != 0:
        raise unfit("extent of an axis", "an integer", axis)
    return int(axis)


def _parse_one(text: str) -> ArrayDimImplementationTag:
    text = text.strip()
    if text in ("sep", "vec"):
        return SeparateArrayArrayDimTag() if text == "sep" else VectorArrayDimTag()
    level: int | None = None
    if text.startswith("N"):
        head, _, text = text.partition(":")
        if not head[1:].isdigit():
            raise KernelError(f"'{head}' is not a dimension tag: 'N' needs a number, as in 'N0'")
        level = int(head[1:])
    if text.startswith("stride:"):
        stride = text.removeprefix("stride:").strip()
        return FixedStrideArrayDimTag(
            auto if stride == "auto" else parse(stride), layout_nesting_level=level
        )
    if level is not None and text in ("", "c"):
        return ComputedStrideArrayDimTag(level)
    raise KernelError(
        f"'{text}' is not a dimension tag\n  hint: the tags are 'c', 'f', 'N0', 'N1', ..., "
        "'stride:EXPR', 'N0:stride:EXPR', 'sep' and 'vec'; an order is 'C' or 'F'"
    )


def _nest(items: Sequence[Any]) -> dict[int, ComputedStrideArrayDimTag]:
    """Read ``c`` (inside the axes before it) and ``f`` (outside them), by axis."""
    order: list[int] = []
    for axis, item in enumerate(items):
        letter = item.strip().upper() if isinstance(item, str) else None
        if letter in ("C", "F"):
            order.insert(0 if letter == "C" else len(order), axis)
    return {axis: ComputedStrideArrayDimTag(level) for level, axis in enumerate(order)}


def is_order(given: Any) -> bool:
    """Tell whether *given* is an order of axes: ``"C"`` or ``"F"``."""
    return isinstance(given, str) and given in ("C", "c", "F", "f")


def layout_items(spec: Any) -> Sequence[Any]:
    """Return the tags of all axes, or their texts."""
    if isinstance(spec, str):
        return spec.split(",")
    if isinstance(spec, Sequence) and all(
        isinstance(item, str | ArrayDimImplementationTag) for item in spec
    ):
        return spec
    raise unfit("layout of an array", "text, or a tag for each axis", spec, hint="dim_tags='N1,N0'")


def parse_array_dim_tags(
    spec: Any, naxes: int, *, order: str | None = None, strides: Any = None
) -> tuple[ArrayDimImplementationTag, ...]:
    """Read one tag per axis from a *spec*, an *order* or *strides*; C order by default.

    >>> [str(tag) for tag in parse_array_dim_tags("N0,N1", 2)]
    ['N0:c', 'N1:c']
    >>> [str(tag) for tag in parse_array_dim_tags("c,c,vec", 3)]
    ['N1:c', 'N0:c', 'vec']
    """
    if strides is not None and strides is not auto:
        values = parse_shape(strides)
        assert isinstance(values, tuple)
        tags: tuple[ArrayDimImplementationTag, ...] = tuple(
            FixedStrideArrayDimTag(stride) for stride in values
        )
    elif spec is None or is_order(spec):
        letter = spec or ("C" if order is None else order)
        if not is_order(letter):
            raise KernelError(f"the order of an array is 'C' or 'F', not {order!r}")
        letter = letter.upper()
        tags = tuple(
            ComputedStrideArrayDimTag(axis if letter == "F" else naxes - 1 - axis)
            for axis in range(naxes)
        )
    else:
        items = layout_items(spec)
        nested = _nest(items)
        tags = tuple(
            nested[axis] if axis in nested else _parse_one(item) if isinstance(item, str) else item
            for axis, item in enumerate(items)
        )
    if len(tags) != naxes:
        raise KernelError(
            f"an array of {counted(naxes, 'axis', 'axes')} has "
            f"{counted(len(tags), 'dimension tag')}\n"
            "  hint: dim_tags has one tag for each axis, outer ones first"
        )
    levels = [level for level in map(_level_of, tags) if level is not None]
    if len(set(levels)) < len(levels):
        raise KernelError(
            f"two axes have the level 'N{max(levels, key=levels.count)}'\n"
            "  hint: 'N0' is the axis whose neighbours are adjacent, 'N1' the next one, ..."
        )
    return tags


def _level_of(tag: ArrayDimImplementationTag) -> int | None:
    """Return the nesting level of an axis, or ``None``."""
    if isinstance(tag, ComputedStrideArrayDimTag | FixedStrideArrayDimTag):
        return tag.layout_nesting_level
    return None


def resolve_strides(
    tags: tuple[ArrayDimImplementationTag, ...], shape: tuple[Expr, ...]
) -> tuple[ArrayDimImplementationTag, ...]:
    """Replace computed strides by fixed ones, in elements, given the *shape*.

    Shape ``(n, m)`` in C order gives strides ``(m, 1)``; shape ``(n, m, 4)``, whose last
    axis is ``vec``, gives ``(4*m, 4, 1)``.
    """
    room = vector_room(tags, shape)
    if room is None:
        return tags
    levels = {
        tag.layout_nesting_level: axis
        for axis, tag in enumerate(tags)
        if isinstance(tag, ComputedStrideArrayDimTag)
    }
    result = list(tags)
    stride: Expr = room
    for level in sorted(levels):
        axis = levels[level]
        result[axis] = FixedStrideArrayDimTag(stride, layout_nesting_level=level)
        extent = shape[axis]
        if is_open_extent(extent):
            break
        stride = extent if stride == 1 else _product(stride, extent)
        tag = tags[axis]
        if isinstance(tag, ComputedStrideArrayDimTag) and tag.pad_to is not None:
            stride = (stride + tag.pad_to - 1) // tag.pad_to * tag.pad_to
    return tuple(result)


def vector_room(tags: tuple[ArrayDimImplementationTag, ...], shape: tuple[Expr, ...]) -> int | None:
    """Return how many elements each vector takes; 1 without vectors, ``None`` if unknown."""
    extents = [
        extent
        for tag, extent in zip(tags, shape, strict=True)
        if isinstance(tag, VectorArrayDimTag)
    ]
    if not extents:
        return 1
    if len(extents) > 1:
        raise KernelError("an array has one axis of vector lanes, 'vec', at most")
    if extents[0] is auto:
        return None
    if extents[0] not in _LENGTHS:
        raise KernelError(
            f"an axis 'vec' has 2, 3, 4, 8 or 16 entries, not {to_text(extents[0])}\n"
            "  hint: split_array_axis makes an axis of such a length"
        )
    return 4 if extents[0] == 3 else int(extents[0])


def _product(a: Expr, b: Expr) -> Expr:
    if is_constant(a) and is_constant(b):
        return a * b
    factors = (b.children if isinstance(b, p.Product) else (b,)) + (
        a.children if isinstance(a, p.Product) else (a,)
    )
    constant: Any = 1
    rest: list[Expr] = []
    for factor in factors:
        if is_constant(factor):
            constant *= factor
        else:
            rest.append(factor)
    children = (constant, *rest) if constant != 1 else tuple(rest)
    return children[0] if len(children) == 1 else p.Product(children)
