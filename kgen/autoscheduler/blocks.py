"""Schedules for batches of small matrices on GPUs: contiguous blocks in local memory."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pymbolic.primitives as p

from kgen.analysis.access import Access
from kgen.autoscheduler.machine import Machine
from kgen.autoscheduler.nests import Nest
from kgen.autoscheduler.steps import Step, step
from kgen.ir.expr import is_constant, variable_names
from kgen.ir.types import AddressSpace
from kgen.transforms.loops.split import join_inames, split_iname
from kgen.transforms.loops.tag import tag_inames
from kgen.transforms.storage.aliasing import alias_temporaries
from kgen.transforms.storage.buffer import buffer_array
from kgen.transforms.storage.declarations import align_temporaries
from kgen.transforms.storage.prefetch import add_prefetch

__all__ = ["batch_in_blocks"]

#: The maximum trip count of loops over a block.
_SHORT = 64
#: The maximum number of copies of an instruction.
_COPIES = 4096
#: The maximum number of sums that a work-item keeps in registers.
_SUMS = 32
#: The maximum number of work-items that wait for a bank of local memory.
_CONFLICTS = 4
#: The maximum bytes of blocks with which several work-groups fit on a multiprocessor.
_ROOM = 32768
_VECTOR = 16


def batch_in_blocks(machine: Machine, nest: Nest, loops: Sequence[str]) -> Iterator[Sequence[Step]]:
    """Yield schedules of sums within small blocks of memory, one block for each iteration.

    Work-groups copy the blocks of several iterations in the order of memory, adjacent vectors by
    adjacent work-items; the result is stored likewise. A work-item computes a row of a block, or a
    whole block if constant arrays can become operands.
    """
    long = [name for name in loops if (nest.trips(name) or _SHORT + 1) > _SHORT]
    if len(long) != 1 or not nest.reduced.intersection(nest.inner):
        return
    for vector in (_VECTOR, 1):
        batch = _Batch(machine, nest, tuple(loops), long[0], vector)
        if not batch.is_fit:
            return
        yield batch.steps()


@dataclass(frozen=True)
class _Run:
    """The elements of an array that consecutive iterations access: adjacent, block after block."""

    access: Access
    #: the axes of the run, outermost first: that of the batch, then those of a block
    axes: tuple[int, ...]
    #: the loops along the axes of a block
    loops: tuple[str, ...]
    length: int
    dtype: np.dtype[Any]

    @property
    def array(self) -> str:
        """The name of the array."""
        return self.access.array

    @property
    def itemsize(self) -> int:
        """The bytes of an element."""
        return self.dtype.itemsize


@dataclass(frozen=True)
class _Batch:
    machine: Machine
    nest: Nest
    loops: tuple[str, ...]
    #: the loop over blocks
    over: str
    #: the bytes of a vector, at most
    vector: int

    # -- accesses ---------------------------------------------------------------------------

    @cached_property
    def is_fit(self) -> bool:
        """Whether accesses to blocks are worth copying these."""
        nest = self.nest
        short = [name for name in nest.inames if name != self.over]
        if not all(map(nest.is_free, nest.inames)) or set(nest.inner) - nest.reduced:
            return False
        if any((nest.trips(name) or _SHORT + 1) > _SHORT for name in short):
            return False
        moving = [a for a in nest.accesses if not nest.is_uniform(a, self.over)]
        alone = len({a.array for a in moving}) == len(moving)
        if not alone or not all(map(self._run, moving)):
            return False
        is_read = all(a.is_write or nest.is_only_read(a.array) for a in moving)
        rows = math.prod(nest.trips(n) or 1 for n in self.inside)
        has_room = self.items >= self.machine.warp and rows <= _COPIES
        return is_read and has_room and any(not run.access.is_write for run in self.staged)

    def _run(self, access: Access) -> _Run | None:
        """Return the run of an access, if blocks are adjacent."""
        nest, index = self.nest, access.index or ()
        names = [variable_names(one) for one in index]
        strides = {n: nest.stride(access, n) for n in nest.inames}
        used = {n: abs(s) for n, s in strides.items() if is_constant(s) and s > 0}
        if any(s is None or (is_constant(s) and s < 0) for s in strides.values()):
            return None
        if self.over not in used:
            return None
        block = sorted((n for n in used if used[n] < used[self.over]), key=lambda n: -used[n])
        length, axes = 1, list[int]()
        for name in reversed([self.over, *block]):
            at = [axis for axis, found in enumerate(names) if name in found]
            if used[name] != length or len(at) != 1 or index[at[0]] != p.Variable(name):
                return None
            axes.insert(0, at[0])
            length *= nest.trips(name) or 1 if name != self.over else 1
        if axes != sorted(axes):
            return None
        dtype = nest.kernel.array_vars[access.array].dtype.dtype
        return _Run(access, tuple(axes), tuple(block), length, dtype)

    @cached_property
    def runs(self) -> tuple[_Run, ...]:
        """The runs of all arrays with blocks."""
        found = map(self._run, (a for a in self.nest.accesses))
        return tuple(run for run in found if run is not None)

    @cached_property
    def staged(self) -> tuple[_Run, ...]:
        """The runs in which adjacent work-items do not access adjacent elements."""
        lanes = (self.row,) if self.row is not None else ()
        return tuple(run for run in self.runs if run.loops not in (lanes, ()))

    # -- who computes what ------------------------------------------------------------------

    @cached_property
    def planes(self) -> list[str]:
        """Loops over independent blocks."""
        runs = self.runs
        return [
            name
            for name in self.loops
            if name != self.over
            and all(name not in run.loops for run in runs)
            and not any(self.nest.is_uniform(run.access, name) for run in runs)
        ]

    @cached_property
    def row(self) -> str | None:
        """The loop whose iterations are work-items; ``None`` if they all use the same numbers.

        Constants become operands; other numbers are read once for a warp, if the blocks of its
        work-items are in different banks.
        """
        known = self.nest.kernel.temporary_variables
        tables = [a.array for a in self.nest.accesses if self.nest.is_uniform(a, self.over)]
        are_known = any(n in known and known[n].initializer is not None for n in tables)
        in_way = max(math.gcd(run.length, self.machine.warp) for run in self.runs)
        if are_known or (tables and in_way <= _CONFLICTS):
            return None
        taken = (self.over, *self.planes)
        return next((n for n in self.loops if n not in taken), None)

    @cached_property
    def inside(self) -> list[str]:
        """The loops that a work-item executes."""
        taken = (self.over, self.row, *self.planes)
        return [name for name in self.nest.inames if name not in taken]

    @cached_property
    def height(self) -> int:
        """The number of blocks of a work-group, which divides that of all blocks if possible."""
        width = 1 if self.row is None else self.nest.trips(self.row) or 1
        sizes = [run.length * run.itemsize for run in self.staged]
        bytes_of_blocks = max(sizes) if self.is_storage_shared else sum(sizes)
        most = min(self.machine.most_items // width, _ROOM // max(1, bytes_of_blocks))
        warp, step_size = self.machine.warp, _VECTOR // 4
        counts = [n for n in range(most // step_size * step_size, 0, -step_size) if 2 * n > most]
        if self.row is None:
            counts = [n for n in counts if n % warp == 0]
        return max(
            counts,
            default=0,
            key=lambda n: (self._busy(n * width), self.nest.divides(n, self.over)),
        )

    def _busy(self, items: int) -> float:
        """Return the fraction of warps' lanes that work-items occupy."""
        return items / (-(-items // self.machine.warp) * self.machine.warp)

    @property
    def is_storage_shared(self) -> bool:
        """Whether results reuse the local memory of operands that are in registers by then."""
        written = sum(run.access.is_write for run in self.staged)
        return self.row is None and written > 0 and len(self.staged) - written == 1

    @cached_property
    def items(self) -> int:
        """The number of work-items of a work-group; 0 if the blocks are too large."""
        width = 1 if self.row is None else self.nest.trips(self.row) or 1
        return self.height * width or 1

    # -- steps ------------------------------------------------------------------------------

    def steps(self) -> Sequence[Step]:
        """Return the steps."""
        axis = "l.0" if self.row is None else "l.1"
        sums = [name for name in self.inside if name not in self.nest.reduced]
        are_few = math.prod(self.nest.trips(n) or 1 for n in sums) <= _SUMS
        tags = {n: f"g.{k}" for k, n in enumerate(reversed(self.planes), start=1) if k < 3}
        tags |= {n: "ilp" if n in sums and are_few else "unr" for n in self.inside}
        tags |= {} if self.row is None else {self.row: "l.0"}
        result = [
            step(split_iname, self.over, self.height, outer_tag="g.0", inner_tag=axis),
            step(tag_inames, tags),
        ]
        read = [run for run in self.staged if not run.access.is_write]
        written = [run for run in self.staged if run.access.is_write]
        for run in read:
            result += self._fetch(run)
        for run in read:
            result += self._hold(run)
        for run in written:
            result += self._buffer(run)
        if self.is_storage_shared:
            tiles = [
                f"{run.array}_{'buf' if run.access.is_write else 'tile'}" for run in self.staged
            ]
            result.append(step(alias_temporaries, ", ".join(tiles), "blocks"))
        return result

    @property
    def _outer(self) -> list[str]:
        return [*self.nest.around, f"{self.over}_outer", *self.planes]

    @property
    def _own(self) -> list[str]:
        return [*self._outer, f"{self.over}_inner", *([] if self.row is None else [self.row])]

    def _fetch(self, run: _Run) -> Iterator[Step]:
        """Yield the steps that copy blocks to local memory."""
        axes = [f"{run.array}_{axis}" for axis in range(len(run.access.index or ()))]
        yield step(
            add_prefetch,
            run.array,
            [f"{self.over}_inner", *run.loops],
            axes,
            default_tag=None,
            fetch_outer_inames=",".join(self._outer),
            temporary_name=f"{run.array}_tile",
            temporary_address_space=AddressSpace.LOCAL,
        )
        yield from self._as_one_run(run, f"{run.array}_tile", [axes[axis] for axis in run.axes])

    def _as_one_run(self, run: _Run, tile: str, axes: Sequence[str]) -> Iterator[Step]:
        """Yield the steps by which all work-items copy adjacent vectors."""
        flat, vector = f"{run.array}_flat", self._lanes(run)
        yield step(join_inames, axes, flat)
        while run.length * self.height % vector or not self._are_aligned(run, vector):
            vector //= 2
        if vector > 1:
            yield step(align_temporaries, tile, vector * run.itemsize)
            yield step(split_iname, flat, vector, inner_tag="vec")
            flat = f"{flat}_outer"
        if self.row is None:
            yield step(split_iname, flat, self.items, outer_tag="unr", inner_tag="l.0")
            return
        yield step(split_iname, flat, self.items, outer_tag="unr")
        width = self.nest.trips(self.row)
        yield step(split_iname, f"{flat}_inner", width, outer_tag="l.1", inner_tag="l.0")

    def _lanes(self, run: _Run) -> int:
        """Return the number of elements of a vector; 1 for types without vectors."""
        is_real = run.dtype.kind in "iuf" and run.dtype.itemsize in (4, 8)
        return max(1, self.vector // run.itemsize) if is_real else 1

    def _are_aligned(self, run: _Run, vector: int) -> bool:
        """Tell whether the runs of all planes begin at multiples of a number of elements."""
        strides = (self.nest.stride(run.access, name) for name in self.planes)
        return all(
            one % vector == 0 if is_constant(one) else self.nest.divides(vector, self.over)
            for one in strides
        )

    def _hold(self, run: _Run) -> Iterator[Step]:
        """Yield the steps that read a row of a block to registers, as vectors."""
        last = run.loops[-1]
        if last not in self.inside:
            return
        outer = [*self._own, *(n for n in run.loops[:-1] if n in self.inside)]
        axes = [f"{run.array}_held_{axis}" for axis in range(len(run.axes))]
        yield step(
            add_prefetch,
            f"{run.array}_tile",
            [last],
            axes,
            default_tag=None,
            fetch_outer_inames=",".join(outer),
            temporary_name=f"{run.array}_held",
        )
        vector = math.gcd(self.nest.trips(last) or 1, self._lanes(run))
        if vector > 1:
            yield step(split_iname, axes[-1], vector, outer_tag="unr", inner_tag="vec")
        else:
            yield step(tag_inames, f"{axes[-1]}:unr")

    def _buffer(self, run: _Run) -> Iterator[Step]:
        """Yield the steps that collect results in local memory."""
        yield step(
            buffer_array,
            run.array,
            [f"{self.over}_inner", *run.loops],
            init_expression=False,
            default_tag=None,
            temporary_address_space=AddressSpace.LOCAL,
        )
        axes = [f"{run.array}_store_{axis}" for axis in run.axes]
        yield from self._as_one_run(run, f"{run.array}_buf", axes)
