"""The declarations of a kernel: arguments, temporaries, substitution rules and inames."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Mapping
from dataclasses import KW_ONLY, InitVar, dataclass, field
from functools import cached_property
from typing import Any, Final, Literal, TypeVar, overload

import numpy as np
import pymbolic.primitives as p
from pytools.tag import Tag

from kgen.errors import KernelError, KgenError, counted
from kgen.ir.checked import unfit
from kgen.ir.expr import (
    Expr,
    LinearSubscript,
    is_constant,
    is_zero,
    substitute,
    to_text,
    variable_names,
    walk,
)
from kgen.ir.fields import Copyable
from kgen.ir.language.expressions import read_expression
from kgen.ir.layout import (
    ComputedStrideArrayDimTag,
    FixedStrideArrayDimTag,
    SeparateArrayArrayDimTag,
    Swizzle,
    is_open_extent,
    is_order,
    layout_items,
    parse_array_dim_tags,
    parse_shape,
    resolve_strides,
    vector_room,
)
from kgen.ir.tags import Taggable, UseStreamingLoadTag, reject_hints, to_tags
from kgen.ir.target import TargetBase
from kgen.ir.types import AddressSpace, KgenType, NumpyType, auto, read_type

__all__ = [
    "ArrayArg",
    "ArrayBase",
    "ConstantArg",
    "GlobalArg",
    "ImageArg",
    "Iname",
    "KernelArgument",
    "SubstitutionRule",
    "TemporaryVariable",
    "ValueArg",
]

Self_ = TypeVar("Self_", bound="Declaration")
ArrayT = TypeVar("ArrayT", bound="ArrayBase")


@dataclass(frozen=True)
class Declaration(Copyable):
    """A named part of a kernel, with a type."""

    name: str

    def _set(self, **values: Any) -> None:
        vars(self).update(values)


def _check_name(name: Any, what: str) -> None:
    """Reject an invalid name; names separated by commas declare several variables."""
    parts = name.split(",") if isinstance(name, str) else ("",)
    if not all(part.strip().isidentifier() for part in parts):
        raise KernelError(f"'{name}' is not a valid name for {what}")


#: Fields of arrays that determine no others, and their values that need no parsing.
_SETTLED: Final[Mapping[str, type]] = {
    "dtype": NumpyType,
    "address_space": AddressSpace,
    "is_input": bool,
    "is_output": bool,
}


@dataclass(frozen=True)
class ArrayBase(Declaration, Taggable):
    """An array: element type, shape (in elements), layout and address space.

    ``dtype=None`` and ``shape=auto`` are inferred. ``shape=(None, 3)`` of an argument
    has an unknown extent, of the outermost axis in memory. ``offset`` is in elements;
    ``auto`` makes it a value that the runtime passes. ``dim_tags`` may be a map from *dim_names*.
    """

    dtype: Any = None
    shape: Any = None
    _: KW_ONLY
    dim_tags: Any = None
    offset: Any = 0
    dim_names: Any = None
    strides: InitVar[Any] = None
    order: InitVar[str | None] = None
    for_atomic: InitVar[bool] = False
    alignment: int | None = None
    tags: Any = frozenset()
    #: Whether the layout was declared; else ``default_order`` of :func:`make_kernel` sets it.
    has_layout: bool | None = field(default=None, repr=False)

    def copy(self: Self_, **changes: Any) -> Self_:
        """Return this with some fields changed."""
        if all(isinstance(value, _SETTLED.get(name, ())) for name, value in changes.items()):
            copied = object.__new__(type(self))
            vars(copied).update(vars(self), **changes)
            return copied
        if not changes.keys().isdisjoint(("dim_tags", "strides", "order")):
            changes = {"has_layout": None, **changes}
        return dataclasses.replace(self, **changes)

    def __post_init__(self, strides: Any, order: str | None, for_atomic: bool) -> None:
        _check_name(self.name, "an array")
        strides = None if strides is auto else strides
        if _read_flag(self.has_layout, f"has_layout of array '{self.name}'") is None:
            is_open = self.dim_tags is None and strides is None and order is None
            self._set(has_layout=not is_open)
        try:
            shape = parse_shape(self.shape)
        except KgenError as err:
            err.args = (f"in the shape of array '{self.name}': {err}",)
            raise
        dim_names = _split_names(self.dim_names, f"dim_names of array '{self.name}'")
        if isinstance(shape, tuple) and dim_names is not None and len(dim_names) != len(shape):
            raise KernelError(
                f"array '{self.name}' has {counted(len(shape), 'axis', 'axes')} in its shape and "
                f"{len(dim_names)} in dim_names"
            )
        self._set(
            dtype=read_type(
                self.dtype,
                f"array '{self.name}'",
                for_atomic=bool(_read_flag(for_atomic, f"for_atomic of array '{self.name}'")),
            ),
            shape=shape,
            dim_names=dim_names,
            dim_tags=self._read_dim_tags(shape, dim_names, strides, order),
            offset=_read_offset(self.offset, f"offset of array '{self.name}'"),
            alignment=_read_alignment(self.alignment, f"alignment of array '{self.name}'"),
            tags=to_tags(self.tags),
        )
        reject_hints(self.tags, *self._what())

    def _what(self) -> tuple[str, type[Tag] | None]:
        """Return what this is, for errors, and the hint that it may have as a tag."""
        return f"array '{self.name}'", None

    def _read_dim_tags(
        self, shape: Any, dim_names: tuple[str, ...] | None, strides: Any, order: str | None
    ) -> Any:
        """Return a tag for each axis; if the number of axes is unknown, an order, or nothing."""
        given = self.dim_tags
        if isinstance(given, Mapping):
            given = self._tags_by_name(given, dim_names or ())
        if given is None and strides is not None:
            given = parse_array_dim_tags(None, len(_as_tuple(strides)), strides=strides)
            if isinstance(shape, tuple) and len(given) != len(shape):
                raise KernelError(
                    f"array '{self.name}' has {counted(len(shape), 'axis', 'axes')} in its "
                    "shape and "
                    f"{len(given)} in its strides"
                )
            return given
        if isinstance(shape, tuple):
            return resolve_strides(parse_array_dim_tags(given, len(shape), order=order), shape)
        if given is not None and not is_order(given):
            return parse_array_dim_tags(given, len(layout_items(given)))
        if order is not None and not is_order(order):
            raise KernelError(f"the order of array '{self.name}' is 'C' or 'F', not {order!r}")
        return given if order is None else order

    def _tags_by_name(self, tags: Mapping[str, Any], dim_names: tuple[str, ...]) -> tuple[Any, ...]:
        if set(tags) != set(dim_names):
            raise KernelError(
                f"array '{self.name}' has the axes {dim_names}, and {tuple(tags)} have tags"
            )
        return tuple(tags[name] for name in dim_names)

    @overload
    def num_user_axes(self, require_answer: Literal[True] = True) -> int: ...

    @overload
    def num_user_axes(self, require_answer: bool) -> int | None: ...

    def num_user_axes(self, require_answer: bool = True) -> int | None:
        """Return the number of axes that a subscript has.

        Before it is known, that is an error, or without *require_answer* ``None``.
        """
        known = self.shape if isinstance(self.shape, tuple) else self.dim_tags
        if isinstance(known, tuple):
            return len(known)
        if require_answer:
            raise KernelError(
                f"the number of axes of array '{self.name}' is not known yet",
                hint=f"declare its shape, or its layout: GlobalArg('{self.name}', shape='n, m')",
            )
        return None

    def num_target_axes(self) -> int:
        """Return the number of axes in generated code: 1, or those of an image."""
        return 1

    def vector_size(self, target: TargetBase | None = None) -> int:
        """Return the number of elements of a vector: 1 without an axis ``vec``, 4 for three lanes.

        It is the same for each *target*.

        >>> ArrayArg("a", "float32", shape="n, 3", dim_tags="N0,vec").vector_size()
        4
        """
        if not isinstance(self.shape, tuple) or not isinstance(self.dim_tags, tuple):
            return 1
        room = vector_room(self.dim_tags, self.shape)
        if room is None:
            raise KernelError(f"the number of lanes of array '{self.name}' is not known yet")
        return room

    def with_shape(self: Self_, shape: tuple[Expr, ...]) -> Self_:
        """Return this array with its shape, and the strides that follow from it.

        Strides that were derived from an earlier shape are derived again.
        """
        assert isinstance(self, ArrayBase)
        tags = self.dim_tags
        if isinstance(tags, tuple):
            tags = tuple(
                ComputedStrideArrayDimTag(tag.layout_nesting_level)
                if isinstance(tag, FixedStrideArrayDimTag) and tag.layout_nesting_level is not None
                else tag
                for tag in tags
            )
        return self.copy(shape=shape, dim_tags=tags)

    @property
    def fixed_strides(self) -> tuple[Expr, ...]:
        """The strides of all axes, in elements; raises an error while one is unknown."""
        if not isinstance(self.dim_tags, tuple) or any(
            isinstance(tag, ComputedStrideArrayDimTag) for tag in self.dim_tags
        ):
            raise KernelError(f"the strides of array '{self.name}' are not known yet")
        return tuple(tag.stride for tag in self.dim_tags)

    @cached_property
    def layout_exprs(self) -> tuple[Expr, ...]:
        """The extents, the strides and the offset that are not constant."""
        exprs = [*self.shape] if isinstance(self.shape, tuple) else []
        if isinstance(self.dim_tags, tuple):
            exprs += [getattr(tag, "stride", None) for tag in self.dim_tags]
        exprs.append(self.offset)
        return tuple(expr for expr in exprs if isinstance(expr, p.ExpressionNode))

    @cached_property
    def layout_names(self) -> tuple[str, ...]:
        """The variables in extents, strides and the offset."""
        return variable_names(*self.layout_exprs)

    def supporting_names(self) -> frozenset[str]:
        """Return the variables on which the address of an element depends: strides and offset.

        >>> sorted(GlobalArg("a", "float32", shape="n, m").supporting_names())
        ['m']
        """
        assert isinstance(self, ArrayBase)
        tags = self.dim_tags if isinstance(self.dim_tags, tuple) else ()
        names = variable_names(self.offset) if isinstance(self.offset, p.ExpressionNode) else ()
        return frozenset(names).union(*(tag.depends_on() for tag in tags))

    def map_exprs(self: Self_, mapper: Any) -> Self_:
        """Apply *mapper* to shape, strides and offset."""
        assert isinstance(self, ArrayBase)
        changes: dict[str, Any] = {}
        if isinstance(self.shape, tuple):
            changes["shape"] = tuple(s if is_open_extent(s) else mapper(s) for s in self.shape)
        if isinstance(self.dim_tags, tuple):
            changes["dim_tags"] = tuple(tag.map_expr(mapper) for tag in self.dim_tags)
            changes["has_layout"] = self.has_layout
        if self.offset is not auto and self.offset is not None:
            changes["offset"] = mapper(self.offset)
        return self.copy(**changes)

    def _layout_text(self) -> str:
        shape = self.shape
        if shape is None or shape is auto:
            shown = "unknown" if shape is None else "auto"
        else:
            shown = ", ".join(str(s) if is_open_extent(s) else to_text(s) for s in shape)
            shown = f"({shown})"
        text = f"shape: {shown}"
        if isinstance(self.dim_tags, tuple) and self.dim_tags:
            text += f", dim_tags: ({', '.join(str(tag) for tag in self.dim_tags)})"
        swizzle = getattr(self, "swizzle", None)
        text += f", {swizzle}" if swizzle else ""
        distribution = getattr(self, "distribution", None)
        if distribution is not None:
            axes = ("-" if axis is None else f"l.{axis}" for axis in distribution)
            text += f", held by ({', '.join(axes)})"
        if self.offset is auto or not is_zero(self.offset):
            text += f", offset: {'auto' if self.offset is auto else to_text(self.offset)}"
        if self.tags:
            text += f", tags: {':'.join(sorted(map(str, self.tags)))}"
        return text


def _read_offset(offset: Any, what: str) -> Any:
    if offset is None or offset is auto or type(offset) is int:
        return offset
    if isinstance(offset, str) and offset.isidentifier():
        return p.Variable(offset)
    read = read_expression(offset, what)
    if isinstance(read, tuple):
        raise unfit(what, "one expression", offset)
    return read


def _read_alignment(given: Any, what: str) -> int | None:
    """Read a power of two, or ``None``."""
    if given is None:
        return None
    if not (isinstance(given, int | np.integer) and given > 0 and not given & (given - 1)):
        raise unfit(what, "a power of two or None", given)
    return int(given)


def _read_flag(given: Any, what: str) -> bool | None:
    """Read a truth value, or ``None``."""
    if given is not None and not isinstance(given, bool | np.bool_):
        raise unfit(what, "True, False or None", given)
    return None if given is None else bool(given)


def _read_name(given: Any, what: str) -> str | None:
    """Read a name, or ``None``."""
    if given is not None and not (isinstance(given, str) and given.isidentifier()):
        raise unfit(what, "a name or None", given)
    return given


def _as_tuple(value: Any) -> tuple[Any, ...]:
    parsed = parse_shape(value)
    assert isinstance(parsed, tuple)
    return parsed


def _split_names(names: Any, what: str) -> tuple[str, ...] | None:
    if isinstance(names, str):
        return tuple(name.strip() for name in names.split(","))
    if names is None:
        return None
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise unfit(what, "text, or a list of texts", names)
    return tuple(names)


class KernelArgument:
    """The base class of arguments.

    >>> import kgen as lp
    >>> unit = lp.make_kernel("{ [i]: 0<=i<n }", "out[i] = 2*a[i]")
    >>> [(arg.name, isinstance(arg, KernelArgument)) for arg in unit["kgen_kernel"].args]
    [('a', True), ('n', True), ('out', True)]
    """

    def supporting_names(self) -> frozenset[str]:
        """Return the variables on which the address of an element depends: a number has none."""
        return frozenset()


@dataclass(frozen=True)
class ArrayArg(ArrayBase, KernelArgument):
    """An array argument.

    >>> print(ArrayArg("a", "float32", shape="n,4", is_input=True))  # doctest: +ELLIPSIS
    a: type: np:dtype('float32'), shape: (n, 4), ... in aspace: global
    """

    # By position, too: the shape, and the layout after it.
    dim_tags: Any = None
    offset: Any = 0
    dim_names: Any = None
    strides: InitVar[Any] = None
    order: InitVar[str | None] = None
    _: KW_ONLY
    address_space: Any = AddressSpace.GLOBAL
    is_input: bool | None = None
    is_output: bool | None = None

    def __post_init__(self, strides: Any, order: str | None, for_atomic: bool) -> None:
        super().__post_init__(strides, order, for_atomic)
        self._set(
            address_space=read_address_space(self.address_space),
            is_input=_read_flag(self.is_input, f"is_input of array '{self.name}'"),
            is_output=_read_flag(self.is_output, f"is_output of array '{self.name}'"),
        )

    def _what(self) -> tuple[str, type[Tag] | None]:
        return f"argument '{self.name}'", UseStreamingLoadTag

    #: Read-only in the whole kernel, and declared so.
    is_constant = False
    #: Read through the device's image units, which have no addresses.
    is_image = False

    def __str__(self) -> str:
        kind = "auto/runtime" if self.dtype is None else str(self.dtype)
        kind = f"<{kind}>" if self.dtype is None else kind
        flow = "/".join(word for word, on in (("in", self.is_input), ("out", self.is_output)) if on)
        space = "constant" if self.is_constant else AddressSpace.stringify(self.address_space)
        return f"{self.name}: type: {kind}, {self._layout_text()} {flow} aspace: {space}"


@dataclass(frozen=True)
class GlobalArg(ArrayArg):
    """An array argument in global memory: ``GlobalArg("a", np.float32, shape="n,n")``.

    >>> print(*GlobalArg("a", "float32", shape="n,n", order="F").dim_tags)
    N0:stride:1 N1:stride:n
    """


@dataclass(frozen=True)
class ConstantArg(ArrayArg):
    """A read-only array argument in constant memory.

    >>> import kgen as lp
    >>> unit = lp.make_kernel(
    ...     "{ [i]: 0<=i<n }", "out[i] = w[i % 3]", [ConstantArg("w", "float32", shape=3), ...],
    ...     target=lp.OpenCLTarget())
    >>> "__constant float const *__restrict__ w" in lp.generate_header(unit)[0]
    True
    """

    is_constant = True


@dataclass(frozen=True)
class ImageArg(ArrayArg):
    """A read-only array argument as an image: ``ImageArg("a", np.float32)``; one to three axes.

    OpenCL has these. Its last axis is the image's width.

    >>> import kgen as lp
    >>> unit = lp.make_kernel(
    ...     "{ [i]: 0<=i<n }", "out[i] = a[i]", [ImageArg("a", "float32", shape="n"), ...],
    ...     target=lp.OpenCLTarget())
    >>> print(lp.generate_body(unit))
      for (int i = 0; i < n; ++i)
        out[i] = read_imagef(a, kgen_sampler, i).x;
    """

    is_image = True

    @property
    def dimensions(self) -> int:
        """The number of axes."""
        return self.num_user_axes()

    def num_target_axes(self) -> int:
        """Return the number of axes in generated code."""
        return self.dimensions


@dataclass(frozen=True)
class ValueArg(Declaration, Taggable, KernelArgument):
    """A number argument: ``ValueArg("n", np.int32)``.

    ``dtype=None`` is inferred: an integer of the kernel's index type if used in sizes.

    >>> print(ValueArg("n", "int32"))
    n: ValueArg, type: np:dtype('int32')
    """

    dtype: Any = None
    approximately: Any = 1000
    is_output: bool = False
    is_input: bool = True
    tags: Any = frozenset()

    def __post_init__(self) -> None:
        _check_name(self.name, "a value")
        self._set(
            dtype=read_type(self.dtype, f"value '{self.name}'", is_stored=False),
            tags=to_tags(self.tags),
        )
        reject_hints(self.tags, f"value '{self.name}'")

    def __str__(self) -> str:
        kind = "<auto/runtime>" if self.dtype is None else str(self.dtype)
        return f"{self.name}: ValueArg, type: {kind}"


@dataclass(frozen=True)
class TemporaryVariable(ArrayBase):
    """A temporary, which exists only while a kernel runs.

    ``initializer`` (a numpy array) makes it a constant table; it is then ``read_only``.
    ``storage_shape`` is the minimum of its storage, if that is more than *shape* needs.

    >>> import numpy as np
    >>> import kgen as lp
    >>> weights = TemporaryVariable("w", initializer=np.array([0.25, 0.5]), read_only=True)
    >>> unit = lp.make_kernel(
    ...     "{ [i]: 0<=i<2 }", "out[i] = w[i]", [weights, ...], target=lp.CTarget())
    >>> print(lp.generate_code_v2(unit).device_code().splitlines()[0])
    static double const w[2] = {0.25, 0.5};
    """

    shape: Any = auto
    address_space: Any = auto
    _: KW_ONLY
    base_indices: tuple[Expr, ...] | None = None
    storage_shape: tuple[Expr, ...] | None = None
    base_storage: str | None = None
    initializer: Any = None
    read_only: bool = False
    #: The permutation of storage by which work-items access different banks.
    swizzle: Swizzle | None = None
    #: For each axis, the work-item axis that holds its elements in registers: 0 for ``l.0``.
    distribution: tuple[int | None, ...] | None = None

    def __post_init__(self, strides: Any, order: str | None, for_atomic: bool) -> None:
        what = f"of temporary '{self.name}'"
        self._set(
            base_indices=parse_shape(self.base_indices),
            storage_shape=parse_shape(self.storage_shape),
            base_storage=_read_name(self.base_storage, f"base_storage {what}"),
            read_only=bool(_read_flag(self.read_only, f"read_only {what}")),
        )
        if not isinstance(self.swizzle, Swizzle | None):
            raise KernelError(
                f"swizzle={self.swizzle!r} {what} is none\n"
                f"  hint: tag_array_axes(kernel, '{self.name}', 'swizzle:128')"
            )
        self._check_distribution()
        values = self.initializer
        if values is not None:
            if not isinstance(values, np.ndarray):
                raise KernelError(f"the initializer of '{self.name}' is not a numpy array")
            if isinstance(values, np.ma.MaskedArray):
                raise KernelError(
                    f"the initializer of '{self.name}' is a masked array, which kernels do not "
                    "support\n  hint: pass values.filled(...)"
                )
            if not self.read_only:
                raise KernelError(
                    f"temporary '{self.name}' has an initializer but is not read_only\n"
                    "  hint: pass read_only=True, or assign the values in an instruction"
                )
            shape = values.shape if is_auto(self.shape) else self.shape
            wanted, given = _as_tuple(shape), values.shape
            if all(isinstance(n, int) for n in wanted) and wanted != given:
                raise KernelError(f"'{self.name}' has the shape {wanted}, its initializer {given}")
            dtype = read_type(self.dtype, what[3:]) or read_type(values.dtype, what[3:])
            self._set(shape=shape, dtype=dtype)
        if isinstance(self.shape, tuple | list) and any(n is None for n in self.shape):
            raise KernelError(
                f"temporary '{self.name}' has an axis of unknown extent\n  hint: pass kgen.auto "
                "to infer the extent from the writes"
            )
        if self.address_space is None:
            self._set(address_space=auto)
        elif self.address_space is not auto:
            self._set(address_space=read_address_space(self.address_space))
        super().__post_init__(strides, order, for_atomic)

    def _what(self) -> tuple[str, type[Tag] | None]:
        return f"temporary '{self.name}'", None

    def _check_distribution(self) -> None:
        found: Any = self.distribution
        if found is None:
            return
        is_read = isinstance(found, tuple) and all(n is None or type(n) is int for n in found)
        has_axes = isinstance(self.shape, tuple | list)
        if not is_read or not has_axes or len(found) != len(self.shape):
            raise KernelError(
                f"the distribution of temporary '{self.name}' over work-items, {found!r}, has no "
                "entry for each of its axes\n  hint: call distribute_temporaries(kernel, "
                f"'{self.name}') after transformations that change axes"
            )

    @property
    def nbytes(self) -> Any:
        """The number of bytes of the elements: a number, or an expression of parameters.

        Gaps between rows are included if extents and strides are numbers. Raises
        :class:`KernelError` if the shape or the type is not inferred yet.

        >>> import numpy as np
        >>> TemporaryVariable("tile", np.float32, shape=(16, 17)).nbytes
        1088
        >>> TemporaryVariable("tile", np.float32, shape=(16, 16), strides=(17, 1)).nbytes
        1084
        """
        extents = self.storage_shape or self.shape
        if not isinstance(extents, tuple) or not isinstance(self.dtype, KgenType):
            raise KernelError(
                f"the size of temporary '{self.name}' is not known\n  hint: call "
                "preprocess_kernel, which infers shapes and types that are not declared"
            )
        sizes = [int(n) if is_constant(n) else n for n in extents]
        dense = math.prod(sizes, start=self.dtype.itemsize)
        n_stored = self.n_stored
        if n_stored is None or not is_constant(dense):
            return dense
        is_separate = (isinstance(tag, SeparateArrayArrayDimTag) for tag in self.dim_tags)
        n_pieces = math.prod(itertools.compress(self.shape, is_separate))
        return max(dense, n_stored * n_pieces * self.dtype.itemsize)

    @property
    def n_stored(self) -> int | None:
        """The length from the first to the last element of one array; ``None`` if not a number.

        It is at least what *storage_shape* requires.
        """
        if not isinstance(self.shape, tuple) or not isinstance(self.dim_tags, tuple):
            return None
        size = 1
        for extent, tag in zip(self.shape, self.dim_tags, strict=True):
            stride = getattr(tag, "stride", None)
            if not isinstance(extent, int) or not isinstance(stride, int):
                return None
            size += (extent - 1) * stride
        if self.storage_shape and all(isinstance(extent, int) for extent in self.storage_shape):
            size = max(size, math.prod(self.storage_shape))
        row = self.swizzle.row if self.swizzle else 1
        return -(-size // row) * row

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if type(other) is not TemporaryVariable:
            return NotImplemented
        mine, theirs = self._comparable(), other._comparable()
        return mine == theirs

    def __hash__(self) -> int:
        return hash(self._comparable())

    def _comparable(self) -> tuple[Any, ...]:
        return tuple(
            value.tobytes() if isinstance(value, np.ndarray) else value
            for value in (getattr(self, f.name) for f in dataclasses.fields(self) if f.compare)
        )

    def __str__(self) -> str:
        kind = "<auto/runtime>" if self.dtype is None else str(self.dtype)
        return (
            f"{self.name}: type: {kind}, {self._layout_text()} "
            f"aspace: {AddressSpace.stringify(self.address_space)}"
        )


@dataclass(frozen=True)
class SubstitutionRule(Declaration):
    """``name(arguments) := expression``: expanded at each use.

    >>> rule = SubstitutionRule("mean", "x, y", "(x + y)/2")
    >>> print(rule)
    mean(x, y) := (x + y) / 2
    """

    arguments: tuple[str, ...] = ()
    expression: Expr = None

    def __post_init__(self) -> None:
        _check_name(self.name, "a substitution rule")
        what = f"expression of the substitution rule '{self.name}'"
        self._set(
            arguments=_split_names(
                self.arguments, f"arguments of the substitution rule '{self.name}'"
            )
            or (),
            expression=read_expression(self.expression, what),
        )
        if len(set(self.arguments)) < len(self.arguments):
            raise KernelError(
                f"substitution rule '{self}' has two arguments of the same name\n  hint: rename one"
            )
        for node in walk(self.expression) if self.arguments else ():
            if isinstance(node, p.Subscript | LinearSubscript):
                self._reject_array(getattr(node.aggregate, "name", ""))

    def _reject_array(self, name: str) -> None:
        if name in self.arguments:
            raise KernelError(
                f"substitution rule '{self}' subscripts its argument '{name}'\n"
                "  hint: arguments are values: name the array in the rule, or pass an element of it"
            )

    def __str__(self) -> str:
        arguments = f"({', '.join(self.arguments)})" if self.arguments else ""
        return f"{self.name}{arguments} := {to_text(self.expression)}"

    @cached_property
    def free_names(self) -> frozenset[str]:
        """The names in the expression that are not arguments."""
        return frozenset(variable_names(self.expression)) - frozenset(self.arguments)

    def expand(self, operands: tuple[Expr, ...]) -> Expr:
        """Return the expression for *operands*; rejects a wrong number of them."""
        if len(operands) != len(self.arguments):
            raise KernelError(
                f"substitution rule '{self.name}' takes "
                f"{counted(len(self.arguments), 'argument')}, "
                f"not {len(operands)}"
            )
        return substitute(self.expression, dict(zip(self.arguments, operands, strict=True)))


@dataclass(frozen=True)
class Iname(Declaration, Taggable):
    """A loop variable and its tags."""

    tags: frozenset[Tag] = frozenset()


def dtype_of(declaration: ArrayBase | ValueArg) -> KgenType:
    """Return the known element type of *declaration*, or raise an error."""
    if declaration.dtype is None:
        raise KernelError(
            f"the type of '{declaration.name}' is not known\n"
            f"  hint: add_dtypes(kernel, {{'{declaration.name}': numpy.float64}})"
        )
    assert isinstance(declaration.dtype, KgenType)
    return declaration.dtype


def read_address_space(given: Any) -> AddressSpace:
    """Read ``private``, ``local`` or ``global``."""
    if isinstance(given, AddressSpace):
        return given
    if isinstance(given, str):
        found = AddressSpace.__members__.get(given.strip().upper())
        if found is not None:
            return found
    elif isinstance(given, int) and given in tuple(AddressSpace):
        return AddressSpace(given)
    raise KernelError(
        f"'{given}' is not an address space\n  hint: it is 'private', 'local' or 'global'"
    )


def with_outer_axis(array: ArrayT, name: str, count: Expr, tag: Any) -> ArrayT:
    """Return an array with a new first axis of *count* entries, whose layout is *tag*."""
    new: dict[str, Any] = {"shape": count, "dim_tags": tag, "dim_names": name}
    if isinstance(array, TemporaryVariable):
        new |= {"storage_shape": count, "base_indices": 0}
    old = {field: getattr(array, field) for field in new}
    return array.copy(**{k: (new[k], *axes) for k, axes in old.items() if isinstance(axes, tuple)})


def is_auto(value: Any) -> bool:
    """Tell whether *value* is to be inferred."""
    return value is None or value is auto
