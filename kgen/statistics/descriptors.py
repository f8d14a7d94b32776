"""The keys of counts: operations, memory accesses and synchronizations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pymbolic.primitives as p
from constantdict import constantdict
from pytools.tag import Tag

from kgen.errors import InvalidValueError, KernelError, near_names
from kgen.ir.affine import canonical
from kgen.ir.expr import Expr, is_zero, to_text
from kgen.ir.fields import Copyable
from kgen.ir.language.expressions import parse
from kgen.ir.types import NumpyType, read_type

__all__ = ["CountGranularity", "Descriptor", "MemAccess", "Op", "Sync"]


class CountGranularity:
    """The unit of a count: per work-item, sub-group or work-group.

    The work-items of a sub-group run in lockstep: a warp on NVIDIA devices.

    >>> from kgen.statistics.descriptors import Op
    >>> Op("float32", "add", CountGranularity.WORKITEM).count_granularity
    'workitem'
    """

    WORKITEM = "workitem"
    SUBGROUP = "subgroup"
    WORKGROUP = "workgroup"
    ALL = (WORKITEM, SUBGROUP, WORKGROUP)


#: Names of operations; those of functions and of unknown code begin with one of the prefixes.
OP_NAMES = ("add", "mul", "div", "pow", "shift", "bw", "maxmin", "cmp", "convert", "madd")
OP_PREFIXES = ("func:", "unknown:")
MEMORY_TYPES = ("global", "local")
DIRECTIONS = ("load", "store")
SYNC_KINDS = ("barrier_warp", "barrier_local", "barrier_global", "kernel_launch")


def _check_name(key: Any, field: str, known: Iterable[str] | None = None) -> None:
    """Reject a field that is not text, or not among the *known* values; ``None`` is allowed."""
    value, kind = getattr(key, field), type(key).__name__
    if value is None:
        return
    if not isinstance(value, str):
        raise InvalidValueError(f"the field '{field}' of {kind} is text or None, not {value!r}")
    if known is not None and value not in known:
        raise InvalidValueError(
            f"{value!r} is not a {field} of {kind}\n  hint: {near_names(value, known)}"
        )


def _tags(key: Any, field: str) -> frozenset[Tag]:
    value = getattr(key, field)
    if value is None:
        return frozenset()
    tags = tuple(value) if isinstance(value, Iterable) else (value,)
    if isinstance(value, str) or not all(isinstance(tag, Tag) for tag in tags):
        raise KernelError(
            f"the field '{field}' of {type(key).__name__} is a set of Tag objects, not {value!r}"
        )
    return frozenset(tags)


def _strides(key: Any, field: str) -> constantdict[int, Expr] | None:
    """Return strides by axis in normal form; axes of stride 0 are left out."""
    value = getattr(key, field)
    if value is None:
        return None
    if not isinstance(value, Mapping) or not all(_is_axis(axis) for axis in value):
        raise KernelError(
            f"the field '{field}' of {type(key).__name__} maps numbers of axes to strides, "
            f'not {value!r}\n  hint: {field}={{0: 1, 1: "16*n"}}'
        )
    steps = {int(axis): _stride(field, value[axis]) for axis in sorted(value)}
    return constantdict({axis: step for axis, step in steps.items() if not is_zero(step)})


def _is_axis(axis: object) -> bool:
    return isinstance(axis, int | np.integer) and not isinstance(axis, bool) and int(axis) >= 0


def _stride(field: str, step: Any) -> Expr:
    if step is None:
        return None
    step = parse(step) if isinstance(step, str) else step
    if not isinstance(step, int | np.integer | p.ExpressionNode) or isinstance(step, bool):
        raise KernelError(
            f"a stride in '{field}' is an integer, an expression, its text, or None, not {step!r}"
        )
    return canonical(step)


@dataclass(frozen=True)
class Op(Copyable):
    """A kind of arithmetic operation; a field is ``None`` if a map is grouped without it.

    ``name``: ``add`` (also subtractions), ``mul``, ``div`` (also remainders), ``pow``, ``shift``,
    ``bw`` (bitwise), ``maxmin``, ``cmp``, ``convert``, ``func:sin``..., and ``unknown:...`` for
    code that kgen does not analyze.

    >>> import numpy as np
    >>> print(Op(np.float32, "add", CountGranularity.SUBGROUP, "knl"))
    Op(np:dtype('float32'), add, subgroup, "knl")
    """

    dtype: Any = None
    name: str | None = None
    count_granularity: str | None = None
    kernel_name: str | None = None
    tags: frozenset[Tag] = frozenset()

    def __post_init__(self) -> None:
        _check_name(self, "count_granularity", CountGranularity.ALL)
        _check_name(self, "kernel_name")
        of_code = isinstance(self.name, str) and self.name.startswith(OP_PREFIXES)
        _check_name(self, "name", None if of_code else (*OP_NAMES, *OP_PREFIXES))
        object.__setattr__(self, "dtype", read_type(self.dtype, f"a key {type(self).__name__}"))
        object.__setattr__(self, "tags", _tags(self, "tags"))

    def __str__(self) -> str:
        fields = [str(self.dtype), str(self.name), str(self.count_granularity)]
        if self.kernel_name is not None:
            fields.append(f'"{self.kernel_name}"')
        if self.tags:
            fields.append(", ".join(sorted(str(tag) for tag in self.tags)))
        return f"Op({', '.join(fields)})"

    __repr__ = __str__


@dataclass(frozen=True)
class MemAccess(Copyable):
    """A kind of memory access; a field is ``None`` if a map is grouped without it.

    ``lid_strides`` and ``gid_strides`` are the strides of the access, in elements, from
    one work-item, or work-group, to the next along each axis. Axes that do not occur in the
    subscripts, or do not matter, are omitted; ``None`` means a stride that is not
    constant. Strides may be given as text; ``"m*8"`` and ``"8*m"`` are the same key.

    >>> import numpy as np
    >>> print(MemAccess("global", np.float32, {0: 1}, {0: 16}, "load", "a"))
    MemAccess(global, np:dtype('float32'), {0: 1}, {0: 16}, load, a, None, None, None)
    """

    mtype: str | None = None
    dtype: Any = None
    lid_strides: Mapping[int, Expr] | None = None
    gid_strides: Mapping[int, Expr] | None = None
    direction: str | None = None
    variable: str | None = None
    variable_tags: frozenset[Tag] = frozenset()
    count_granularity: str | None = None
    kernel_name: str | None = None

    def __post_init__(self) -> None:
        _check_name(self, "mtype", MEMORY_TYPES)
        _check_name(self, "direction", DIRECTIONS)
        _check_name(self, "count_granularity", CountGranularity.ALL)
        _check_name(self, "variable")
        _check_name(self, "kernel_name")
        object.__setattr__(self, "dtype", read_type(self.dtype, f"a key {type(self).__name__}"))
        for name in ("lid_strides", "gid_strides"):
            object.__setattr__(self, name, _strides(self, name))
        object.__setattr__(self, "variable_tags", _tags(self, "variable_tags"))

    @property
    def itemsize(self) -> int:
        """The number of bytes that one access moves."""
        if not isinstance(self.dtype, NumpyType):
            raise KernelError(
                f"{self} has no type, so it has no size\n"
                "  hint: group_by(...) with 'dtype' among the fields, or call to_bytes() first"
            )
        return self.dtype.itemsize

    def __str__(self) -> str:
        tags = self.variable_tags
        fields = [
            str(self.mtype),
            str(self.dtype),
            _shown_strides(self.lid_strides),
            _shown_strides(self.gid_strides),
            str(self.direction),
            str(self.variable),
            "{" + ", ".join(sorted(map(str, tags))) + "}" if tags else "None",
            str(self.count_granularity),
            repr(self.kernel_name),
        ]
        return f"MemAccess({', '.join(fields)})"

    __repr__ = __str__


def _shown_strides(strides: Mapping[int, Expr] | None) -> str:
    if strides is None:
        return "None"
    texts = {axis: "None" if step is None else to_text(step) for axis, step in strides.items()}
    return "{" + ", ".join(f"{axis}: {text}" for axis, text in texts.items()) + "}"


@dataclass(frozen=True)
class Sync(Copyable):
    """A kind of synchronization: ``barrier_local``, ``barrier_global`` or ``kernel_launch``.

    Also ``barrier_warp``, on CUDA.

    >>> print(Sync("barrier_local", "knl"))
    Sync(barrier_local, knl)
    """

    kind: str | None = None
    kernel_name: str | None = None
    tags: frozenset[Tag] = frozenset()

    def __post_init__(self) -> None:
        _check_name(self, "kind", SYNC_KINDS)
        _check_name(self, "kernel_name")
        object.__setattr__(self, "tags", _tags(self, "tags"))

    def __str__(self) -> str:
        fields = [str(self.kind), str(self.kernel_name), *sorted(str(tag) for tag in self.tags)]
        return f"Sync({', '.join(fields)})"

    __repr__ = __str__


#: A key of a map of counts.
Descriptor: TypeAlias = Op | MemAccess | Sync
