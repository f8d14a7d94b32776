"""Accesses to array elements as C text: one linear subscript per access."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import pymbolic.primitives as p

from kgen.analysis.range import index_type
from kgen.errors import CodegenError, KgenIndexError, counted
from kgen.ir.affine import BoundsOf, simplify
from kgen.ir.assignee import assignee_name
from kgen.ir.data import ArrayArg, ArrayBase, ImageArg, TemporaryVariable
from kgen.ir.digits import join_digits
from kgen.ir.expr import (
    Expr,
    IdentityMapper,
    LinearSubscript,
    TruncQuotient,
    TruncRemainder,
    is_zero,
    to_text,
)
from kgen.ir.layout import ComputedStrideArrayDimTag, Swizzle
from kgen.ir.pieces import piece_name, piece_names, separate_axes, separate_extents
from kgen.ir.sets.interval import Interval
from kgen.ir.stages import DeviceKernel
from kgen.ir.types import INT64, AddressSpace, auto
from kgen.targets.writers.indices import IntegerWriter
from kgen.targets.writers.site import EmissionSite, HardwareIndices

__all__ = ["AccessWriter", "has_division", "is_pointer", "offset_names", "within_storage"]

_Key: TypeAlias = tuple[int, frozenset[str]]


class _Element(NamedTuple):
    """The cached facts of an *access*: its index, its array, and whether its indices are wide."""

    access: p.Subscript | LinearSubscript
    index: Expr
    array: ArrayBase
    is_wide: bool


#: The known facts of hardware axes around statements, their indices, and the arrays that are read
#: by streaming loads.
_Facts: TypeAlias = tuple[frozenset[tuple[Expr, Interval]], HardwareIndices, frozenset[str]]
#: The facts of accesses, and their texts.
_Kept: TypeAlias = tuple[dict[_Key, _Element], dict[_Key, str]]


def is_pointer(array: ArrayBase) -> bool:
    """Tell whether a function is passed *array*; otherwise it declares the array itself."""
    if isinstance(array, ArrayArg):
        return True
    assert isinstance(array, TemporaryVariable)
    return array.address_space == AddressSpace.GLOBAL and array.initializer is None


def within_storage(array: ArrayBase, name: str) -> str:
    """Return the code of an array, or a piece: a part of its storage, if it shares storage."""
    if not isinstance(array, TemporaryVariable) or is_pointer(array):
        return name
    base = array.base_storage
    return name if base is None else f"{base}.{name}"


def offset_names(kernel: DeviceKernel) -> dict[str, str]:
    """Return the parameter with the offset of each array that has an open offset.

    If axes are kept in separate arrays, each of these has its own.
    """
    arrays = [array for _, array in sorted(kernel.array_vars.items()) if array.offset is auto]
    if not arrays:
        return {}
    unused = kernel.get_var_name_generator()
    names = (name for array in arrays for name in piece_names(array))
    return {name: str(unused(f"{name}_offset")) for name in names}


class AccessWriter:
    """Writes accesses to arrays for one kernel; *integers* writes the subscripts.

    Facts of an access are cached: an instruction that occurs many times in the code,
    unrolled, only has different values of its loop variables.
    """

    def __init__(self, kernel: DeviceKernel, integers: IntegerWriter, site: EmissionSite) -> None:
        self.kernel = kernel
        self.integers = integers
        self.site = site
        self.offsets = offset_names(kernel)
        #: The axes of arrays that are kept in separate arrays, for those that have some.
        self.separate = _separate_arrays(kernel)
        self.images = {arg.name: arg for arg in kernel.args if isinstance(arg, ImageArg)}
        integers.long_names.update(self.offsets.values())
        #: For statements, by what is known of their sites.
        self._kept: dict[_Facts, _Kept] = {}
        #: By id of the access, which is kept alive, and the loops around it; with its text if no
        #: loop variable has its own value.
        self._elements, self._texts = self._kept_at(site)
        #: Equal indices, which arrays often have, are one object.
        self._indices: dict[Expr, Expr] = {}
        #: By array, and number of subscripts: the strides, and the offset.
        self._layouts: dict[tuple[str, int], tuple[tuple[Expr, ...], Expr]] = {}
        self._is_wide: dict[str, bool] = {}
        #: The bytes to which arrays must be aligned, if the code relies on that.
        self.alignments: dict[str, int] = {}
        #: accesses of instructions whose lanes are apart, of which there is one warning each
        self.apart: set[tuple[str, Expr]] = set()
        #: For one site, by id of the index.
        self._index_texts: dict[tuple[int, bool, bool], str] = {}
        #: The arrays that the kernel writes and reads.
        self._updated = kernel.writers.keys() & kernel.readers.keys()

    def at(self, site: EmissionSite, integers: IntegerWriter) -> AccessWriter:
        """Return the writer for another site, which shares cached facts of accesses."""
        writer = AccessWriter.__new__(AccessWriter)
        writer.__dict__.update(self.__dict__, site=site, integers=integers, _index_texts={})
        same = (site.signs, site.indices, site.streaming)
        own = (self.site.signs, self.site.indices, self.site.streaming)
        if any(one is not other for one, other in zip(same, own, strict=True)):
            writer._elements, writer._texts = self._kept_at(site)
        return writer

    def _kept_at(self, site: EmissionSite) -> _Kept:
        """Return the cached accesses; those of bounds and conditions are separate for each site."""
        if site.signs.scope is not None:
            return {}, {}
        key = frozenset(site.signs.axes.items()), site.indices, site.streaming
        return self._kept.setdefault(key, ({}, {}))

    def element(self, access: p.Subscript | LinearSubscript) -> str:
        """Write an access."""
        if isinstance(access, p.Subscript) and access.index == ():
            return self.scalar(self.kernel.array_vars[assignee_name(access)])
        if not self.site.values:
            key = id(access), self.site.inames
            text = self._texts.get(key)
            if text is None:
                text = self._texts[key] = self._element(access)
            return text
        return self._element(access)

    def _element(self, access: p.Subscript | LinearSubscript) -> str:
        if self.images and assignee_name(access) in self.images:
            return self._read_image(self.images[assignee_name(access)], access)
        known = self._survey(access)
        array = known.array
        if array.name in self.separate:
            return self._element_of_piece(known)
        text = self._index_text(known)
        return f"{within_storage(array, array.name)}[{text}]"

    def _element_of_piece(self, element: _Element) -> str:
        """Write an access to one of the separate arrays of an array."""
        memory = self._memory(element.array.name, element.access)
        if memory in self.offsets:
            index = simplify(p.Sum((element.index, p.Variable(self.offsets[memory]))))
            element = element._replace(index=self._indices.setdefault(index, index))
        text = self._index_text(element)
        return f"{within_storage(element.array, memory)}[{text}]"

    def _survey(self, access: p.Subscript | LinearSubscript) -> _Element:
        """Return the cached facts of an access."""
        key = id(access), self.site.inames
        known = self._elements.get(key)
        if known is None:
            known = self._elements[key] = self._find(access)
        return known

    def _find(self, access: p.Subscript | LinearSubscript) -> _Element:
        name = assignee_name(access)
        index = self._linear_index(access)
        array = self.kernel.array_vars[name]
        if isinstance(array, TemporaryVariable) and array.swizzle is not None:
            index = self._swizzled(array.swizzle, index)
        if has_division(index):
            index = join_digits(index, self._bounds())
            index = _ProvenDivisions(self.site)(index)
        index = self._indices.setdefault(index, index)
        return _Element(access, index, array, self._wide(name))

    def _swizzled(self, swizzle: Swizzle, index: Expr) -> Expr:
        """Return the swizzled index of an element, whose row is often the value of a loop."""
        turn = simplify(swizzle.turn(index), None, self._bounds())
        change = simplify(p.Product((swizzle.chunk, turn)))
        return index if is_zero(change) else p.BitwiseXor((index, change))

    def _bounds(self) -> BoundsOf | None:
        """Return the bounds of subscripts in statements; cached texts are valid in all of them."""
        signs = self.site.signs
        return signs.interval if signs.scope is None else None

    def _memory(self, name: str, access: p.Subscript | LinearSubscript) -> str:
        """Return the name of the memory that an access is to: the array's, or a piece's."""
        axes = self.separate.get(name)
        array = self.kernel.array_vars[name]
        if axes is None:
            return name
        indices = access.index_tuple if isinstance(access, p.Subscript) else ()
        chosen = [simplify(indices[axis], self.site.values) for axis in axes if axis < len(indices)]
        for axis, index, extent in zip(axes, chosen, separate_extents(array), strict=False):
            if not isinstance(index, int) or not 0 <= index < extent:
                raise CodegenError(
                    f"axis {axis} of array '{name}' is kept in separate arrays, and "
                    f"'{to_text(access)}' does not select one of them",
                    because=f"the subscript is {to_text(index)}",
                    hint="tag the loop 'unr', so that its variable is a number",
                )
        if len(chosen) != len(axes):
            raise CodegenError(
                f"'{to_text(access)}' does not select one of the separate arrays of '{name}'",
                hint="write one subscript for each axis",
            )
        return piece_name(array, chosen)

    def linear_index(self, access: p.Subscript | LinearSubscript) -> Expr:
        """Return the linear index of the element, counted from the start of the array."""
        return simplify(self._survey(access).index, self.site.values, self._bounds())

    def index_of_first(self, access: p.Subscript | LinearSubscript, count: int) -> Expr:
        """Return the linear index of the first of *count* elements that are aligned together.

        A swizzle moves them together if they are in one chunk; the index is that before it.
        """
        array = self._survey(access).array
        swizzle = array.swizzle if isinstance(array, TemporaryVariable) else None
        if swizzle is None or swizzle.chunk % count:
            return self.linear_index(access)
        return self.number(access)

    def number(self, access: p.Subscript | LinearSubscript) -> Expr:
        """Return the linear index of the element, ignoring swizzles."""
        return simplify(self._linear_index(access), self.site.values, self._bounds())

    def numbered(self, name: str, number: Expr) -> str:
        """Write the element that is stored at a linear index."""
        array = self.kernel.array_vars[name]
        text = self._subscript(name, number, self._wide(name))
        return f"{within_storage(array, name)}[{text}]"

    def _index_text(self, element: _Element) -> str:
        name, index = element.array.name, element.index
        key = id(index), element.is_wide, name in self._updated
        text = self._index_texts.get(key)
        if text is None:
            values = self.site.values
            valued = simplify(index, values, self._bounds()) if values else index
            text = self._index_texts[key] = self._subscript(name, valued, element.is_wide)
        return text

    def _subscript(self, name: str, index: Expr, wide: bool) -> str:
        is_updated = name in self._updated
        return self.integers.subscript(index, fits=not wide, is_updated=is_updated)

    def _read_image(self, image: ImageArg, access: p.Subscript | LinearSubscript) -> str:
        """Write the element of an image, whose axes are coordinates."""
        functions = self.integers.target.images
        indices = access.index_tuple if isinstance(access, p.Subscript) else ()
        if functions is None or functions.type_name(len(indices)) is None:
            why = "images have one, two or three axes"
            raise self._no_image(image, access, why if functions is not None else "it has none")
        texts = []
        for index in indices:
            if has_division(index):
                index = _ProvenDivisions(self.site)(index)
            texts.append(self.integers.text(simplify(index, self.site.values, self._bounds())))
        text = functions.read(image.name, image.dtype.numpy_dtype, texts)
        if text is None:
            raise self._no_image(image, access, f"no images have elements of {image.dtype}")
        self.integers.preamble.add(*functions.needs)
        return text

    def _no_image(
        self, image: ImageArg, access: p.Subscript | LinearSubscript, why: str
    ) -> CodegenError:
        return CodegenError(
            f"'{to_text(access)}' is an element of an image, for which "
            f"{self.integers.target.language} has no code",
            because=why,
            hint=f"declare '{image.name}' as a GlobalArg",
        )

    def scalar(self, array: ArrayBase) -> str:
        """Write the only element of an array without axes."""
        if not is_pointer(array):
            return within_storage(array, array.name)
        index = simplify(self._offset(array))
        return f"{array.name}[{self.integers.text(index)}]"

    def pointer(self, array: ArrayBase) -> str:
        """Write an array as a pointer to its first element."""
        if array.name in self.separate or array.name in self.images:
            raise CodegenError(
                f"array '{array.name}' has no single pointer: it is an image, or in several pieces",
                hint=f"declare '{array.name}' as a GlobalArg with the layout 'C' or 'F'",
            )
        memory, offset = within_storage(array, array.name), simplify(self._offset(array))
        return memory if is_zero(offset) else f"({memory} + {self.integers.text(offset)})"

    def _wide(self, name: str) -> bool:
        wide = self._is_wide.get(name)
        if wide is None:
            wide = is_pointer(self.kernel.array_vars[name])
            wide = wide and index_type(self.kernel, name) == INT64
            self._is_wide[name] = wide
        return wide

    def _linear_index(self, access: p.Subscript | LinearSubscript) -> Expr:
        array = self.kernel.array_vars[assignee_name(access)]
        if isinstance(access, LinearSubscript):
            return simplify(p.Sum((access.index, self._offset(array))))
        indices: tuple[Expr, ...] = access.index_tuple
        key = array.name, len(indices)
        layout = self._layouts.get(key)
        if layout is None:
            layout = self._strides(array, len(indices)), self._offset(array)
            self._layouts[key] = layout
        strides, offset = layout
        if len(indices) != len(strides):
            raise KgenIndexError(
                f"array '{array.name}' has {counted(len(strides), 'axis', 'axes')}",
                because=f"'{to_text(access)}' has {counted(len(indices), 'subscript')}",
            )
        if strides == (1,) and is_zero(offset):
            return simplify(indices[0])
        terms: list[Expr] = [p.Product((s, i)) for s, i in zip(strides, indices, strict=True)]
        return simplify(p.Sum((*terms, offset)))

    def _strides(self, array: ArrayBase, naxes: int) -> tuple[Expr, ...]:
        if array.dim_tags is None and naxes == 1:  # of unknown extent
            return (1,)
        tags = array.dim_tags if isinstance(array.dim_tags, tuple) else ()
        for axis, tag in enumerate(tags):
            if isinstance(tag, ComputedStrideArrayDimTag) or tag.stride is auto:
                raise CodegenError(
                    f"axis {axis} of array '{array.name}' is implemented by '{tag}', "
                    "for which there is no code",
                    because="an axis inside of it in memory has an unknown extent, None"
                    if isinstance(array.shape, tuple) and None in array.shape
                    else None,
                    hint=f"tag_array_axes(kernel, '{array.name}', 'C')",
                )
        return array.fixed_strides

    def _offset(self, array: ArrayBase) -> Expr:
        if array.offset is auto and array.name not in self.separate:
            return p.Variable(self.offsets[array.name])
        return 0 if array.offset in (None, auto) or is_zero(array.offset) else array.offset


def _separate_arrays(kernel: DeviceKernel) -> dict[str, tuple[int, ...]]:
    found: dict[str, tuple[int, ...]] = {}
    for name, array in kernel.array_vars.items():
        axes = separate_axes(array)
        if not axes:
            continue
        found[name] = axes
        taken = sorted(kernel.all_variable_names().intersection(piece_names(array)))
        if taken or getattr(array, "initializer", None) is not None:
            raise CodegenError(
                f"array '{name}' cannot be kept in separate arrays",
                because=f"the name '{taken[0]}' is in use" if taken else "it has initial values",
                hint=f"tag_array_axes(kernel, '{name}', 'C')",
            )
    return found


class _ProvenDivisions(IdentityMapper):
    """Replaces floor divisions by C's divisions, if the signs of the operands allow it."""

    def __init__(self, site: EmissionSite) -> None:
        super().__init__()
        self.site = site

    def map_floor_div(self, expr: p.FloorDiv | p.Remainder) -> Expr:
        operands = (expr.numerator, expr.denominator)
        kind: Any = type(expr)
        if self.site.signs.divides_as_in_c(*operands, self.site.inames):
            kind = TruncRemainder if kind is p.Remainder else TruncQuotient
        return kind(*map(self.rec, operands))

    map_remainder = map_floor_div

    def map_subscript(self, expr: p.Subscript) -> Expr:
        return expr  # an access, which is written separately

    def map_call(self, expr: p.Call) -> Expr:
        return expr

    def map_if(self, expr: p.If) -> Expr:
        return expr


def has_division(expr: Expr) -> bool:
    """Tell whether a floor quotient, or a remainder, is part of integer arithmetic."""
    if isinstance(expr, _OPERATIONS):
        return any(map(has_division, expr.children))
    return isinstance(expr, _DIVISIONS)


_OPERATIONS = (p.Sum, p.Product, p.Min, p.Max)
_DIVISIONS = (p.FloorDiv, p.Remainder)
