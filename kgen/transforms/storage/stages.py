"""The stages of a pipeline: copies of a tile, or more planes of a window."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import pymbolic.primitives as p

from kgen.analysis.access import Access, collect_accesses_to
from kgen.analysis.signs import Signs
from kgen.errors import TransformError
from kgen.ir.affine import simplify
from kgen.ir.data import TemporaryVariable, with_outer_axis
from kgen.ir.expr import Expr, minus
from kgen.ir.kernel import LoopKernel
from kgen.ir.layout import ComputedStrideArrayDimTag, FixedStrideArrayDimTag, VectorArrayDimTag
from kgen.ir.types import NumpyType
from kgen.transforms.array_accesses import Index
from kgen.transforms.storage.iterations import step_in

__all__ = ["Buffers", "Planes", "Stages", "is_window", "planes_of"]


class Buffers(Protocol):
    """The storage of tiles of several iterations in one temporary."""

    def place(self, index: Index) -> Index:
        """Return the new subscripts of the element that had the subscripts *index*."""

    def declared(self, variable: TemporaryVariable) -> TemporaryVariable:
        """Return the temporary, enlarged for all tiles."""


@dataclass(frozen=True)
class Stages:
    """Copies of a whole tile along a new first axis; iterations use them cyclically."""

    loop: str
    count: int

    def place(self, index: Index) -> Index:
        return (p.Remainder(p.Variable(self.loop), self.count), *index)

    def declared(self, variable: TemporaryVariable) -> TemporaryVariable:
        """Add the axis of the copies."""
        outer = _outermost(variable) if isinstance(variable.dim_tags, tuple) else None
        return with_outer_axis(variable, "stage", self.count, outer)


@dataclass(frozen=True)
class Planes:
    """A circular buffer: plane ``z`` of a window is ``t[z % count]``, along an axis."""

    axis: int
    count: int

    def place(self, index: Index) -> Index:
        part = index[self.axis]
        assert isinstance(part, p.Remainder)
        plane = p.Remainder(part.numerator, self.count)
        return (*index[: self.axis], plane, *index[self.axis + 1 :])

    def declared(self, variable: TemporaryVariable) -> TemporaryVariable:
        """Change the number of planes."""
        shape = (*variable.shape[: self.axis], self.count, *variable.shape[self.axis + 1 :])
        if variable.with_shape(variable.shape).dim_tags == variable.dim_tags:
            return variable.with_shape(shape)
        strides = [getattr(tag, "stride", None) for tag in variable.dim_tags]
        own = strides[self.axis]
        if any(stride is None or stride > own for stride in strides):
            raise TransformError(
                f"temporary '{variable.name}' cannot have {self.count} planes",
                because=f"its layout has been changed, in which axis {self.axis} is not outermost",
                hint="call pipeline before what changes the layout",
            )
        return variable.copy(shape=shape)


def is_window(kernel: LoopKernel, loop: str, name: str) -> bool:
    """Tell whether a temporary is a circular buffer through which a loop moves."""
    accesses = collect_accesses_to(kernel, name)
    return _window_axis(kernel.temporary_variables[name], loop, accesses) is not None


def planes_of(kernel: LoopKernel, loop: str, name: str, stages: int) -> Planes | None:
    """Return the planes that a window needs to be filled ahead; ``None`` if it is not a window.

    A window is a temporary that has one axis with subscripts ``e % planes`` only. An iteration
    fills planes that are up to *lead* ahead of one that it reads. If they are filled
    ``stages - 1`` iterations earlier, they are further ahead, and none may overwrite a plane
    that is still read.

    Raises :class:`TransformError` for a window that is used otherwise.
    """
    accesses = collect_accesses_to(kernel, name)
    axis = _window_axis(kernel.temporary_variables[name], loop, accesses)
    if axis is None:
        return None
    steps = {step_in(loop, _plane(a, axis)) for a in accesses if loop in a.place.inames}
    if len(steps) > 1 or None in steps:
        shown = ", ".join(sorted({f"'{a}'" for a in accesses if loop in a.place.inames}))
        raise _rejected(name, loop, f"{shown} do not move through it at the same rate")
    (step,) = steps
    assert step is not None
    fills = [a for a in accesses if a.is_write and loop in a.place.inames]
    reads = [a for a in accesses if not a.is_write]
    for read in reads:
        if loop not in read.place.inames:
            raise _rejected(name, loop, f"'{read.insn_id}' reads it outside the loop")
    signs = Signs(kernel)
    lead = 0
    for fill in fills:
        for read in reads:
            apart = signs.interval(simplify(minus(_plane(fill, axis), _plane(read, axis))))
            most = apart.high if step > 0 else (None if apart.low is None else -apart.low)
            if most is None:
                raise _rejected(
                    name, loop, f"the distance in planes from '{fill}' to '{read}' is not bounded"
                )
            lead = max(lead, most)
    return Planes(axis, lead + 1 + abs(step) * (stages - 1))


def _window_axis(variable: TemporaryVariable, loop: str, accesses: Sequence[Access]) -> int | None:
    """Return the axis with subscripts modulo its extent only, which move in each fill."""
    fills = [a for a in accesses if a.is_write and loop in a.place.inames]
    shape = variable.shape if isinstance(variable.shape, tuple) else ()
    for axis, extent in enumerate(shape):
        parts = [None if a.index is None else a.index[axis] for a in accesses]
        if all(isinstance(part, p.Remainder) and part.denominator == extent for part in parts):
            moves = bool(fills) and all(step_in(loop, _plane(a, axis)) for a in fills)
            return axis if moves else None
    return None


def _plane(access: Access, axis: int) -> Expr:
    """Return the plane that an access refers to, as numbered in the array before the remainder."""
    assert access.index is not None
    part = access.index[axis]
    assert isinstance(part, p.Remainder)
    return part.numerator


def _rejected(name: str, loop: str, because: str) -> TransformError:
    return TransformError(
        f"the window '{name}' cannot be fetched ahead in loop '{loop}'",
        because=because,
        hint=f"leave '{name}' out of fetches",
    )


def _outermost(variable: TemporaryVariable) -> FixedStrideArrayDimTag | ComputedStrideArrayDimTag:
    """Return the layout of a new axis whose stride is the size of the whole temporary."""
    tags = variable.dim_tags
    levels = [getattr(tag, "layout_nesting_level", None) for tag in tags]
    known = [level for level in levels if level is not None]
    level = max(known) + 1 if known else (0 if not tags else None)
    if any(isinstance(tag, ComputedStrideArrayDimTag) for tag in tags):
        assert level is not None
        return ComputedStrideArrayDimTag(level)
    extents = variable.storage_shape or variable.shape
    sizes = [tag.stride * extent for tag, extent in zip(tags, extents, strict=True)]
    if not all(isinstance(size, int) for size in sizes):
        raise TransformError(
            f"temporary '{variable.name}' cannot have several buffers",
            because="its size is not a number",
            hint=f"declare the shape of '{variable.name}'",
        )
    size = max(sizes, default=1)
    return FixedStrideArrayDimTag(
        -(-size // _unit(variable)) * _unit(variable), layout_nesting_level=level
    )


def _unit(variable: TemporaryVariable) -> int:
    """Return the number of elements to which buffers are padded, to align vectors in them."""
    lanes: list[int] = [
        1 << (extent - 1).bit_length()
        for tag, extent in zip(variable.dim_tags, variable.shape, strict=True)
        if isinstance(tag, VectorArrayDimTag)
    ]
    itemsize: int = variable.dtype.itemsize if isinstance(variable.dtype, NumpyType) else 1
    aligned: int = (variable.alignment or 1) // itemsize
    return max(aligned, 1, *lanes)
