"""Schedules for GPUs that access vectors: elementwise operations, and stencils in registers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any, Final

import pymbolic.primitives as p

from kgen.analysis.access import Access
from kgen.autoscheduler.machine import Machine
from kgen.autoscheduler.nests import Nest
from kgen.autoscheduler.steps import InVectors, Step, step
from kgen.ir.affine import simplify
from kgen.ir.expr import is_constant, is_zero, minus, to_text, variable_names
from kgen.ir.types import AddressSpace
from kgen.transforms.loops.split import join_inames, split_iname
from kgen.transforms.loops.tag import tag_inames
from kgen.transforms.storage.async_copies import async_copy
from kgen.transforms.storage.declarations import align_temporaries
from kgen.transforms.storage.pipeline import pipeline
from kgen.transforms.storage.prefetch import add_prefetch

__all__ = ["lanes_of", "stencil_in_vectors"]

#: The bytes of a vector.
_VECTOR: Final = 16
#: The sizes in bytes of elements of vectors.
_SIZES: Final = (2, 4, 8)
#: The number of work-groups that occupy a device.
BUSY: Final = 64
#: The maximum ratio of all work-items of a tile to those that compute something.
FULL: Final = 2
#: Rows that a work-item computes in a plane, and planes for which it holds a column.
_ROWS: Final = 2
_PLANES: Final = 8
#: Work-items along the rows of a stencil in the plane.
_HEIGHT: Final = 4
#: The maximum number of planes of a work-group; the minimum is a multiple of the radius.
_COLUMN: Final = 128
_RADII: Final = 4
#: Work-items of a tile along the rows, and stages of its pipeline: the fastest first.
_TILES: Final = ((16, 5), (16, 3), (8, 3), (8, 2), (4, 2))
#: The largest radius of a stencil.
_FAR: Final = 8


def lanes_of(nest: Nest, loops: Sequence[str]) -> int:
    """Return the number of elements of vectors in all arrays; 1 if there are none.

    All instructions run in all iterations, and access adjacent elements along the innermost loop.
    """
    lane = nest.lane(loops)
    if lane is None or nest.inner or any(insn.predicates for insn in nest.instructions):
        return 1
    if not is_zero(nest.kernel.get_iname_bounds(lane).lower):
        return 1
    moving = [access for access in nest.accesses if not nest.is_uniform(access, lane)]
    writes = [access for access in nest.accesses if access.is_write]
    if not all(nest.is_unit(access, lane) for access in {*moving, *writes}):
        return 1
    written = {access.array: access.index for access in writes}
    if any(written.get(access.array, access.index) != access.index for access in moving):
        return 1
    types = [nest.kernel.array_vars[access.array].dtype.numpy_dtype for access in moving]
    if not all(dtype.kind in "iuf" and dtype.itemsize in _SIZES for dtype in types):
        return 1
    lanes = _VECTOR // max(dtype.itemsize for dtype in types)
    strides = [nest.stride(access, n) for access in moving for n in nest.band if n != lane]
    return 1 if any(is_constant(by) and by % lanes for by in strides) else lanes


def stencil_in_vectors(
    machine: Machine, nest: Nest, loops: Sequence[str]
) -> Iterator[Sequence[Step]]:
    """Yield schedules of stencils whose work-items read vectors to registers.

    In the plane, a work-item computes a vector in each of two rows. In space, it keeps the column
    that it needs: for several planes at once if the radius is one, else from plane to plane.
    """
    lanes = lanes_of(nest, loops)
    found = _neighbourhoods(nest, loops) if lanes > 1 else None
    if not found:
        return
    stencil = _Stencil(machine, nest, tuple(loops), lanes, tuple(found))
    if len(stencil.along) == 1:
        yield from stencil.in_rows()
    elif len(stencil.along) == 2 and all(one.center for one in found):
        yield from stencil.in_columns()


@dataclass(frozen=True)
class _Neighbourhood:
    """The elements of an array that an iteration reads, by their distances from its own element."""

    array: str
    #: the loop along each axis, or the subscript if there is none
    loops: tuple[str | None, ...]
    texts: tuple[str, ...]
    offsets: tuple[tuple[int, ...], ...]

    @cached_property
    def center(self) -> tuple[int, ...] | None:
        """The middle of a star, from which each read differs along at most one axis."""
        middle = tuple(
            Counter(axis).most_common(1)[0][0] for axis in zip(*self.offsets, strict=True)
        )
        return middle if all(len(_moved(middle, one)) < 2 for one in self.offsets) else None

    def axis(self, loop: str) -> int | None:
        """Return the axis of a loop."""
        return self.loops.index(loop) if loop in self.loops else None

    def ends(self, loop: str) -> tuple[int, int]:
        """Return the least and the greatest distance along a loop."""
        axis = self.axis(loop)
        found = {one[axis] for one in self.offsets} if axis is not None else {0}
        return min(found), max(found)

    def arm(self, loop: str) -> tuple[tuple[int, ...], ...]:
        """Return the distances of the reads along one loop, with the middle."""
        axis, middle = self.axis(loop), self.center
        if axis is None or middle is None:
            return ()
        return tuple(o for o in self.offsets if set(_moved(middle, o)) <= {axis})

    def subscripts(
        self, offsets: Sequence[tuple[int, ...]], lane: str, lanes: int
    ) -> list[tuple[str, ...]]:
        """Return the subscripts of reads, and those that complete their vectors."""
        ends = [(min(axis), max(axis)) for axis in zip(*offsets, strict=True)]
        at = self.loops.index(lane)
        low, high = ends[at]
        ends[at] = low // lanes * lanes, -(-high // lanes) * lanes
        corners = {tuple(end[k] for end in ends) for k in (0, 1)}
        return [
            tuple(
                text if loop is None else f"{loop} + {by}" if by else loop
                for text, loop, by in zip(self.texts, self.loops, offset, strict=True)
            )
            for offset in (*offsets, *sorted(corners.difference(offsets)))
        ]


def _moved(middle: Sequence[int], offset: Sequence[int]) -> list[int]:
    """Return the axes along which an offset differs from the middle."""
    return [axis for axis, (a, b) in enumerate(zip(middle, offset, strict=True)) if a != b]


def _neighbourhoods(nest: Nest, loops: Sequence[str]) -> list[_Neighbourhood] | None:
    """Return the arrays of which several elements are read, if they are only read."""
    reads: dict[str, list[Access]] = {}
    for access in nest.accesses:
        if not access.is_write:
            reads.setdefault(access.array, []).append(access)
    lane = nest.lane(loops)
    several = {
        array: some
        for array, some in reads.items()
        if len(some) > 1 and not all(nest.is_uniform(access, str(lane)) for access in some)
    }
    found = [_neighbourhood(array, some, loops) for array, some in several.items()]
    complete = [one for one in found if one is not None and lane in one.loops]
    if len(complete) < len(found) or not all(nest.is_only_read(one.array) for one in complete):
        return None
    return complete


def _neighbourhood(
    array: str, reads: Sequence[Access], loops: Sequence[str]
) -> _Neighbourhood | None:
    """Return the reads of an array, if they differ by numbers along loops."""
    places = [_place(access, loops) for access in reads]
    if any(place is None for place in places):
        return None
    known = [place for place in places if place is not None]
    names, texts, _ = known[0]
    if any(place[:2] != (names, texts) for place in known):
        return None
    used = [name for name in names if name is not None]
    if len(set(used)) < len(used):
        return None
    return _Neighbourhood(array, names, texts, tuple(place[2] for place in known))


_Place = tuple[tuple[str | None, ...], tuple[str, ...], tuple[int, ...]]


def _place(access: Access, loops: Sequence[str]) -> _Place | None:
    """Return the loop, the subscript without a loop, and the distance along each axis."""
    names: list[str | None] = []
    texts: list[str] = []
    offsets: list[int] = []
    for index in access.index or ():
        moving = [name for name in variable_names(index) if name in loops]
        if not moving:
            names.append(None)
            texts.append(to_text(index))
            offsets.append(0)
            continue
        by = simplify(minus(index, p.Variable(moving[0])))
        if len(moving) > 1 or not is_constant(by):
            return None
        names.append(moving[0])
        texts.append("")
        offsets.append(int(by))
    return (tuple(names), tuple(texts), tuple(offsets)) if names else None


@dataclass(frozen=True)
class _Stencil:
    machine: Machine
    nest: Nest
    loops: tuple[str, ...]
    lanes: int
    found: tuple[_Neighbourhood, ...]

    @cached_property
    def lane(self) -> str:
        """The loop along adjacent elements."""
        return str(self.nest.lane(self.loops))

    @cached_property
    def along(self) -> list[str]:
        """The other loops along which neighbours are read, outermost first."""
        return [name for name in self.loops if name != self.lane and self._reach(name)]

    @cached_property
    def others(self) -> list[str]:
        """The loops without neighbours."""
        return [name for name in self.loops if name != self.lane and name not in self.along]

    def _reach(self, loop: str) -> int:
        return max(high - low for low, high in (one.ends(loop) for one in self.found))

    @property
    def width(self) -> int:
        """The elements of a row that adjacent work-items compute."""
        return self.machine.warp * self.lanes

    def _is_large(self, *tiles: tuple[str, int]) -> bool:
        """Tell whether there are many tiles that are almost full, if trip counts are known."""
        known = [(self.nest.trips(name) or length * BUSY, length) for name, length in tiles]
        rest = prod(self.nest.trips(name) or BUSY for name in self.others)
        counts = [-(-trips // length) for trips, length in known]
        are_full = all(trips * FULL >= length for trips, length in known)
        return are_full and rest * prod(counts) >= BUSY

    def _has_few_guards(self, tile: tuple[str, int]) -> bool:
        """Tell whether compilers combine the guards of a tile, so that registers suffice."""
        loop, length = tile
        return self.nest.trips(loop) is not None or self.nest.divides(length, loop)

    # -- parts of schedules -----------------------------------------------------------------

    def _lanes(self) -> Iterator[Step]:
        """Yield the steps that give each work-item a vector."""
        yield step(split_iname, self.lane, self.width, outer_tag="g.0")
        yield step(split_iname, f"{self.lane}_inner", self.lanes, outer_tag="l.0", inner_tag="vec")

    def _fetch(
        self, one: _Neighbourhood, name: str, offsets: Sequence[tuple[int, ...]], **options: Any
    ) -> Step:
        """Return the step that reads elements to registers."""
        axes = [f"{name}_{axis}" for axis in range(len(one.loops))]
        return step(
            add_prefetch,
            one.array,
            [*options.pop("sweep"), f"{self.lane}_inner_inner"],
            axes,
            default_tag=None,
            footprint_subscripts=one.subscripts(offsets, self.lane, self.lanes),
            temporary_name=name,
            temporary_address_space=AddressSpace.PRIVATE,
            **options,
        )

    def _in_registers(
        self,
        one: _Neighbourhood,
        name: str,
        offsets: Sequence[tuple[int, ...]],
        sweep: Sequence[str],
        outer: Sequence[str],
    ) -> Iterator[Step]:
        """Yield the steps that read elements to registers as vectors."""
        options = {"fetch_bounding_box": True, "fetch_outer_inames": ",".join(outer)}
        yield self._fetch(one, name, offsets, sweep=sweep, **options)
        at = one.loops.index(self.lane)
        yield step(split_iname, f"{name}_{at}", self.lanes, outer_tag="unr", inner_tag="vec")
        rest = [f"{name}_{axis}:unr" for axis, loop in enumerate(one.loops) if axis != at and loop]
        if rest:
            yield step(tag_inames, ", ".join(rest))

    def _outer(self, *names: str) -> list[str]:
        lane = self.lane
        return [*self.nest.around, *self.others, *names, f"{lane}_outer", f"{lane}_inner_outer"]

    def _on_other_axis(self, axis: int) -> Iterator[Step]:
        for name in self.others[-1:]:
            yield step(tag_inames, f"{name}:g.{axis}")

    # -- schedules --------------------------------------------------------------------------

    def in_rows(self) -> Iterator[Sequence[Step]]:
        """Yield the schedule of a stencil in the plane."""
        (rows,), height = self.along, _HEIGHT * _ROWS
        if max(self._reach(rows), self._reach(self.lane)) > self.lanes:
            return
        if not self._is_large((self.lane, self.width), (rows, height)):
            return
        outer = self._outer(f"{rows}_outer", f"{rows}_inner_outer")
        sweep = [f"{rows}_inner_inner"]
        yield InVectors(
            (
                step(split_iname, rows, height, outer_tag="g.1"),
                step(split_iname, f"{rows}_inner", _ROWS, outer_tag="l.1", inner_tag="unr"),
                *self._lanes(),
                *self._on_other_axis(2),
                *(
                    one_step
                    for one in self.found
                    for one_step in self._in_registers(
                        one, f"{one.array}_near", one.offsets, sweep, outer
                    )
                ),
            )
        )

    def in_columns(self) -> Iterator[Sequence[Step]]:
        """Yield the schedules of a star in space."""
        planes, rows = self.along
        if self.others:
            return
        reach = max(map(self._reach, (planes, rows, self.lane)))
        if reach > 2 and len(self.found) == 1 and reach <= 2 * _FAR:
            yield from self._planes_ahead(self.found[0], planes, rows)
        if reach <= 2 * self.lanes:
            yield from self._planes_at_once(planes, rows)

    def _planes_at_once(self, planes: str, rows: str) -> Iterator[Sequence[Step]]:
        """Yield the schedule whose work-items compute vectors in several planes at once."""
        height = max(1, self.machine.most_items // self.machine.warp)
        tile = ((self.lane, self.width), (rows, height))
        if not self.nest.divides(_PLANES, planes) or not all(map(self._has_few_guards, tile)):
            return
        if not self._is_large(*tile, (planes, _PLANES)):
            return
        outer = self._outer(f"{planes}_outer", f"{rows}_outer", f"{rows}_inner")
        arms = (
            one_step
            for one in self.found
            for axis, loop in ((0, self.lane), (1, rows), (2, planes))
            if loop == self.lane or one.ends(loop)[0] < one.ends(loop)[1]
            for one_step in self._in_registers(
                one, f"{one.array}_{'xyz'[axis]}", one.arm(loop), [f"{planes}_inner"], outer
            )
        )
        yield InVectors(
            (
                step(split_iname, planes, _PLANES, outer_tag="g.2", inner_tag="unr"),
                step(split_iname, rows, height, outer_tag="g.1", inner_tag="l.1"),
                *self._lanes(),
                *arms,
            )
        )

    def _planes_ahead(
        self, one: _Neighbourhood, planes: str, rows: str
    ) -> Iterator[Sequence[Step]]:
        """Yield schedules that go from plane to plane, with the column in registers.

        Planes of a tile are copied to local memory, some stages ahead.
        """
        low, high = one.ends(planes)
        if (one.center or (0,))[one.loops.index(self.lane)] % self.lanes:
            return
        most = self.machine.usual_local_memory
        for height, stages in _TILES:
            side = height * _ROWS
            are_whole = self.nest.divides(self.width, self.lane) and self.nest.divides(side, rows)
            if height * self.machine.warp > self._most_items or not are_whole:
                continue
            depth = self._depth(planes, rows, side, high - low)
            places = high - (one.center or (0,))[one.loops.index(planes)] + stages
            if depth is not None and places * self._bytes_of_plane(one, rows, side) <= most:
                yield InVectors(self._pipeline(one, planes, rows, height, stages, depth))
                return

    @property
    def _most_items(self) -> int:
        limits = self.machine.limits
        return self.machine.most_items if limits is None else limits.work_items

    def _depth(self, planes: str, rows: str, side: int, reach: int) -> int | None:
        """Return the number of planes of a work-group, with which there are enough groups."""
        depth = _COLUMN
        while depth * 2 >= _RADII * reach:
            if self._is_large((self.lane, self.width), (rows, side), (planes, depth)):
                return depth
            depth //= 2
        return None

    def _bytes_of_plane(self, one: _Neighbourhood, rows: str, side: int) -> int:
        low, high = one.ends(self.lane)
        width = self.width - low // self.lanes * self.lanes - -high // self.lanes * self.lanes
        dtype = self.nest.kernel.array_vars[one.array].dtype.numpy_dtype
        return int((side + self._reach(rows)) * width * dtype.itemsize)

    def _pipeline(
        self, one: _Neighbourhood, planes: str, rows: str, height: int, stages: int, depth: int
    ) -> Iterator[Step]:
        array, lane, z = one.array, self.lane, f"{planes}_inner"
        yield step(split_iname, planes, depth, outer_tag="g.2")
        yield step(split_iname, rows, height * _ROWS, outer_tag="g.1")
        yield step(split_iname, f"{rows}_inner", _ROWS, outer_tag="l.1", inner_tag="unr")
        yield from self._lanes()
        sweep, column = [f"{rows}_inner_inner"], f"{array}_column"
        yield self._fetch(one, column, one.arm(planes), sweep=sweep, window=z)
        at = one.loops.index(lane)
        across = one.loops.index(rows)
        vectors = f"{column}_{at}:vec, {column}_{at}_prologue:vec"
        yield step(tag_inames, vectors, force=True)
        outer = self._outer(f"{planes}_outer", z, f"{rows}_outer", f"{rows}_inner_outer")
        swept = [f"{rows}_inner_outer", f"{lane}_inner_outer"]
        swept += [f"{column}_{across}", f"{column}_{at}"]
        for loop in (lane, rows):
            name = f"{array}_{'xy'[loop == rows]}"
            yield from self._in_registers(one, name, one.arm(loop), sweep, outer)
            swept += [f"{name}_{across}", f"{name}_{at}_outer", f"{name}_{at}_inner"]
        plane, fetch = f"{array}_plane", f"{array}_plane_fetch"
        yield step(
            add_prefetch,
            array,
            swept,
            [f"{plane}_{axis}" for axis in range(len(one.loops))],
            default_tag=None,
            fetch_bounding_box=True,
            within=f"iname:{z}",
            window=z,
            temporary_name=plane,
            prefetch_insn_id=fetch,
            temporary_address_space=AddressSpace.LOCAL,
        )
        for suffix in ("", "_prologue"):
            yield from self._by_all_items(plane, across, at, height, suffix)
        yield step(align_temporaries, plane, _VECTOR)
        if self.nest.kernel.target.async_copies:
            yield step(async_copy, fetch)
        yield step(pipeline, z, stages, plane)

    def _by_all_items(
        self, plane: str, across: int, at: int, height: int, suffix: str
    ) -> Iterator[Step]:
        """Yield the steps by which all work-items copy a plane as a run of vectors."""
        row, run = f"{plane}_{across}{suffix}", f"{plane}_run{suffix}"
        yield step(split_iname, f"{plane}_{at}{suffix}", self.lanes, inner_tag="vec")
        yield step(join_inames, [row, f"{plane}_{at}{suffix}_outer"], run)
        yield step(split_iname, run, self.machine.warp, inner_tag="l.0")
        yield step(split_iname, f"{run}_outer", height, outer_tag="unr", inner_tag="l.1")
