"""What is counted: operations, memory accesses and synchronizations, told apart by these keys."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from constantdict import constantdict
from pytools.tag import Tag

from kgen.errors import KernelError
from kgen.ir.expr import Expr, to_text
from kgen.ir.types import NumpyType, to_kgen_type

__all__ = ["CountGranularity", "Descriptor", "MemAccess", "Op", "Sync"]


class CountGranularity:
    """How often something counts that work-items do together: one of these strings.

    A sub-group is what runs in step: a warp on NVIDIA devices.

    >>> from kgen.statistics.descriptors import Op
    >>> Op("float32", "add", CountGranularity.WORKITEM).count_granularity
    'workitem'
    """

    WORKITEM = "workitem"
    SUBGROUP = "subgroup"
    WORKGROUP = "workgroup"
    ALL = (WORKITEM, SUBGROUP, WORKGROUP)


def _check_granularity(granularity: str | None) -> None:
    if granularity is not None and granularity not in CountGranularity.ALL:
        raise KernelError(
            f"'{granularity}' is no granularity\n"
            f"  hint: one of {', '.join(CountGranularity.ALL)}, or None"
        )


@dataclass(frozen=True)
class Op:
    """A kind of arithmetic operation; ``None`` where a map is grouped regardless of a field.

    ``name``: ``add`` (subtractions too), ``mul``, ``div`` (remainders too), ``pow``, ``shift``,
    ``bw`` (bitwise), ``maxmin``, ``cmp``, ``convert``, ``func:sin``..., and ``unknown:...`` for
    code that kgen does not see into.

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
        _check_granularity(self.count_granularity)
        object.__setattr__(self, "dtype", to_kgen_type(self.dtype))
        object.__setattr__(self, "tags", frozenset(self.tags))

    def copy(self, **changes: Any) -> Op:
        """Return this with some fields changed."""
        return dataclasses.replace(self, **changes)

    def __str__(self) -> str:
        fields = [str(self.dtype), str(self.name), str(self.count_granularity)]
        if self.kernel_name is not None:
            fields.append(f'"{self.kernel_name}"')
        if self.tags:
            fields.append(", ".join(sorted(str(tag) for tag in self.tags)))
        return f"Op({', '.join(fields)})"

    __repr__ = __str__


@dataclass(frozen=True)
class MemAccess:
    """A kind of access to memory; ``None`` where a map is grouped regardless of a field.

    ``lid_strides`` and ``gid_strides`` say by how many elements the accessed place moves from
    one work-item, or work-group, to the next along each axis; axes that do not occur in the
    subscripts are left out, and ``None`` stands for a step that is not constant.

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
    variable_tags: frozenset[Tag] | None = None
    count_granularity: str | None = None
    kernel_name: str | None = None

    def __post_init__(self) -> None:
        _check_granularity(self.count_granularity)
        object.__setattr__(self, "dtype", to_kgen_type(self.dtype))
        for name in ("lid_strides", "gid_strides"):
            strides = getattr(self, name)
            if strides is not None:
                ordered = {axis: strides[axis] for axis in sorted(strides)}
                object.__setattr__(self, name, constantdict(ordered))

    def copy(self, **changes: Any) -> MemAccess:
        """Return this with some fields changed."""
        return dataclasses.replace(self, **changes)

    @property
    def itemsize(self) -> int:
        """The bytes that one access moves."""
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
            "None" if tags is None else "{" + ", ".join(sorted(map(str, tags))) + "}",
            str(self.count_granularity),
            repr(self.kernel_name),
        ]
        return f"MemAccess({', '.join(fields)})"

    __repr__ = __str__


def _shown_strides(strides: Mapping[int, Expr] | None) -> str:
    if strides is None:
        return "None"
    return "{" + ", ".join(f"{axis}: {to_text(step)}" for axis, step in strides.items()) + "}"


@dataclass(frozen=True)
class Sync:
    """A kind of synchronization: ``barrier_local``, ``barrier_global`` or ``kernel_launch``.

    >>> print(Sync("barrier_local", "knl"))
    Sync(barrier_local, knl)
    """

    kind: str | None = None
    kernel_name: str | None = None
    tags: frozenset[Tag] = frozenset()

    def copy(self, **changes: Any) -> Sync:
        """Return this with some fields changed."""
        return dataclasses.replace(self, **changes)

    def __str__(self) -> str:
        fields = [str(self.kind), str(self.kernel_name), *sorted(str(tag) for tag in self.tags)]
        return f"Sync({', '.join(fields)})"

    __repr__ = __str__


#: A key of a map of counts.
Descriptor: TypeAlias = Op | MemAccess | Sync
