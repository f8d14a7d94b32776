"""Schedules for GPUs: adjacent work-items access adjacent elements, and share what they read."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import pymbolic.primitives as p

from kgen.analysis.access import Access
from kgen.autoscheduler.blocks import batch_in_blocks
from kgen.autoscheduler.choices import Choices, next_power
from kgen.autoscheduler.machine import Machine
from kgen.autoscheduler.nests import Nest
from kgen.autoscheduler.planner import Planner
from kgen.autoscheduler.products import has_whole_tiles, product_on_items
from kgen.autoscheduler.rows import balanced_rows, lanes_of_sums, terms_at_once
from kgen.autoscheduler.steps import InVectors, Step, step
from kgen.autoscheduler.tensors import product_on_tensor_cores
from kgen.autoscheduler.vectors import lanes_of, stencil_in_vectors
from kgen.ir.expr import Expr, variable_names
from kgen.ir.types import AddressSpace
from kgen.transforms.loops.split import split_iname
from kgen.transforms.loops.tag import tag_inames
from kgen.transforms.reductions.realize import realize_reduction
from kgen.transforms.storage.async_copies import async_copy
from kgen.transforms.storage.buffer import buffer_array
from kgen.transforms.storage.declarations import align_temporaries
from kgen.transforms.storage.padding import add_padding
from kgen.transforms.storage.prefetch import add_prefetch

__all__ = ["OnItems"]

#: The number of work-groups that compute a sum over all elements.
GROUPS = 1024
#: The bytes of a vector, which one instruction loads.
VECTOR = 16
#: The maximum trip count of a loop over vectors of a row that is unrolled.
COPIES = 16
#: The approximate number of 32-bit elements of a work-item in a tile of a scan.
RUN = 16
#: The same in tiles that are copied asynchronously, for twice as many work-items.
COPIED = 12
#: The number of work-groups that occupy a device, so that one work-item per sum suffices.
MANY = 32
#: Adjacent elements of a scan that a work-item adds up.
EACH = 4
#: Sums of a work-item whose terms share the elements that they read.
SUMS = 4
#: The terms of a part of such sums, several of which keep a device busy where the sums are few.
PART = 2048
#: The elements of its own that a work-item with several sums keeps in registers.
OWN = 64
#: The maximum trip count of a loop over components, which is unrolled.
COMPONENTS = 8
#: Rows of a stencil that a work-item computes.
ROWS = 8
#: The number of warps along such a row.
WARPS = 4
#: The sides of a matrix product with enough tiles of sums in registers for a device.
WIDE = 512
#: The sides of a tile of a matrix product.
BLOCK = 16


class OnItems:
    """The recipes for a device whose work-items run in lockstep."""

    def __init__(self, machine: Machine) -> None:
        self.machine, self.warp = machine, machine.warp
        self.items = machine.most_items
        self.rows = max(1, self.items // self.warp)

    def __call__(self, planner: Planner, nest: Nest) -> Iterator[Sequence[Step]]:
        """Yield schedules of a nest, the best first."""
        loops = planner.parallel_loops(nest)
        if not loops:
            yield from self.sum_in_groups(nest)
            return
        yield from balanced_rows(self.machine, planner.stated, nest, loops)
        for recipe in (
            self.running_sums,
            self.batches,
            partial(self.product_in_tiles, planner.stated.precision),
            self.transposition_in_tiles,
            self.terms_in_tiles,
            self.sums_of_rows,
            self.rows_of_groups,
        ):
            yield from recipe(nest, loops)
        if not planner.prover.types:
            yield from stencil_in_vectors(self.machine, nest, loops)
        yield from self.rows_of_items(nest, loops)
        if not planner.prover.types:
            yield from self.vectors_of_items(nest, loops)
        yield self.spread_out(nest, loops)
        yield (step(split_iname, loops[0], self.warp, outer_tag="g.0", inner_tag="l.0"),)

    # -- independent iterations -------------------------------------------------------------

    def rows_of_items(self, nest: Nest, loops: Sequence[str]) -> Iterator[Sequence[Step]]:
        """Yield the schedule of a stencil: work-items compute rows that share what they read."""
        lane = nest.lane(loops)
        found = [name for name in loops if name != lane and nest.are_neighbours_read(name)]
        if lane is None or nest.inner or not found or not nest.are_long(lane, found[-1]):
            return
        rows, width = found[-1], min(self.items, WARPS * self.warp)
        others = [name for name in loops if name not in (lane, rows)]
        yield (
            step(split_iname, lane, width, outer_tag="g.0", inner_tag="l.0"),
            step(split_iname, rows, ROWS * (self.items // width), outer_tag="g.1"),
            step(split_iname, f"{rows}_inner", ROWS, outer_tag="l.1", inner_tag="ilp"),
            *(step(tag_inames, f"{name}:g.2") for name in others[-1:]),
        )

    def vectors_of_items(self, nest: Nest, loops: Sequence[str]) -> Iterator[Sequence[Step]]:
        """Yield the schedule of elementwise operations: a vector for each work-item."""
        lanes = lanes_of(nest, loops)
        known = [nest.trips(name) for name in loops]
        counts = [trips for trips in known if trips is not None]
        if len(counts) == len(known) and math.prod(counts) < MANY * self.items * lanes:
            return
        if lanes > 1 and nest.are_long(nest.lane(loops) or loops[-1]):
            yield InVectors(self.spread_out(nest, loops, lanes))

    def spread_out(self, nest: Nest, loops: Sequence[str], lanes: int = 1) -> tuple[Step, ...]:
        """Map adjacent elements to adjacent work-items, and rows to the other axes.

        The *lanes* of a work-item are a vector.
        """
        lane = nest.lane(loops) or loops[-1]
        others = [name for name in reversed(loops) if name != lane]
        others.sort(key=lambda name: nest.trips(name) is not None)  # long loops first
        rows = next((n for n in others if (nest.trips(n) or self.rows) >= self.rows), None)
        width = self.items if rows is None else self.warp
        steps = list(self._on_lanes(nest, lane, width, lanes))
        rest = [name for name in others if name != rows]
        if rows is not None:
            trips = nest.trips(lane)
            across = width if trips is None else min(width, next_power(-(-trips // lanes)))
            height = self.items // across
            axis = steps[0].options.get("outer_tag") == "g.0"
            steps.append(step(split_iname, rows, height, outer_tag=f"g.{axis:d}", inner_tag="l.1"))
        if rest and (nest.trips(rest[0]) or self.items) > BLOCK:
            steps.append(step(tag_inames, f"{rest[0]}:g.2"))
        return tuple(steps)

    def _on_lanes(self, nest: Nest, iname: str, width: int, lanes: int) -> Iterator[Step]:
        """Yield the steps that put adjacent elements, or vectors of them, on work-items."""
        trips = nest.trips(iname)
        is_short = trips is not None and trips <= width * lanes
        if lanes > 1:
            if not is_short:
                yield step(split_iname, iname, width * lanes, outer_tag="g.0")
                iname = f"{iname}_inner"
            yield step(split_iname, iname, lanes, outer_tag="l.0", inner_tag="vec")
        elif is_short:
            yield step(tag_inames, f"{iname}:l.0")
        else:
            yield step(split_iname, iname, width, outer_tag="g.0", inner_tag="l.0")

    def batches(self, nest: Nest, loops: Sequence[str]) -> Iterator[Sequence[Step]]:
        """Yield the schedules of sums within many small blocks of memory."""
        yield from batch_in_blocks(self.machine, nest, loops)

    # -- sums -------------------------------------------------------------------------------

    def sum_in_groups(self, nest: Nest) -> Iterator[Sequence[Step]]:
        """Yield the schedule of a sum over all elements: of work-items, then of work-groups."""
        (iname, *others), inner = nest.band, nest.inner
        if iname in nest.reduced and not others and not inner and nest.is_free(iname):
            yield (
                step(split_iname, iname, self.items, inner_tag="l.0"),
                step(split_iname, f"{iname}_outer", GROUPS, inner_tag="g.0"),
            )

    def sums_of_rows(self, nest: Nest, loops: Sequence[str]) -> Iterator[Sequence[Step]]:
        """Yield the schedule of sums of rows: each row is summed by work-items in lockstep.

        Rows of known length are contiguous; the lengths of others depend on data.
        """
        lanes = lanes_of_sums(self.machine, nest, loops)
        if lanes == 0:
            return
        *outer, rows = sorted(loops, key=lambda name: (nest.trips(name) is None, name))
        size, on = self.items // lanes, "l.1" if lanes > 1 else "l.0"
        steps = [step(split_iname, rows, size, outer_tag="g.0", inner_tag=on)]
        split = nest.inside if lanes > 1 else ()
        steps += [step(split_iname, k, lanes, inner_tag="l.0") for k in split]
        tags = [f"{name}:g.{axis}" for axis, name in enumerate(outer[:2], start=1)]
        steps += [step(tag_inames, tag) for tag in tags]
        for k in nest.inside:
            if (terms := terms_at_once(nest, k)) > 1:
                rest = f"{k}_outer" if lanes > 1 else k
                steps.append(step(split_iname, rest, terms, inner_tag="unr"))
        yield steps

    def rows_of_groups(self, nest: Nest, loops: Sequence[str]) -> Iterator[Sequence[Step]]:
        """Yield the schedule of sums over rows and of computations with them, as in a softmax.

        All work-items of a group process a row, in several consecutive loops.
        """
        inner = nest.inner
        if len(inner) < 2 or not all(map(nest.is_free, inner)) or not nest.are_long(*inner):
            return
        along = all(any(nest.is_unit(a, k) for a in nest.accesses) for k in inner)
        if not along or any(nest.is_unit(a, n) for a in nest.accesses for n in loops):
            return
        *others, rows = loops
        tags = [f"{rows}:g.0", *(f"{n}:g.{axis}" for axis, n in enumerate(others[-2:], start=1))]
        for array in nest.read_again(inner):
            bytes_of_row = (nest.trips(inner[0]) or 1) * nest.itemsize()
            if bytes_of_row + self.items * nest.itemsize() > self.machine.local_memory:
                continue
            yield step(tag_inames, ", ".join(tags)), *self._row_in_tile(nest, array, loops)
        yield (
            step(tag_inames, ", ".join(tags)),
            *(step(split_iname, k, self.items, inner_tag="l.0") for k in inner),
        )

    def _row_in_tile(self, nest: Nest, array: str, loops: Sequence[str]) -> Iterator[Step]:
        """Yield the steps that keep a row in local memory from one loop along it to the next."""
        inner = nest.inner
        length = nest.trips(inner[0]) or 1
        lanes = self._lanes_of_rows(nest)
        outer = "unr" if length <= COPIES * lanes * self.items else None
        vectors = "_outer" if lanes > 1 else ""
        for k in inner:
            if vectors:
                tag = "unr" if k in nest.reduced else "vec"
                yield step(split_iname, k, lanes, inner_tag=tag)
            whole = f"{k}{vectors}"
            yield step(split_iname, whole, self.items, outer_tag=outer, inner_tag="l.0")
        parts = [f"{vectors}_outer", f"{vectors}_inner", *(["_inner"] if vectors else [])]
        count = next(len(a.index or ()) for a in nest.accesses if a.array == array)
        axes = [f"{array}_{axis}" for axis in range(count)]
        yield step(
            add_prefetch,
            array,
            [f"{k}{part}" for k in inner for part in parts],
            axes,
            default_tag=None,
            fetch_outer_inames=",".join((*nest.around, *loops)),
            temporary_name=f"{array}_row",
            temporary_address_space=AddressSpace.LOCAL,
        )
        if vectors:
            yield step(align_temporaries, f"{array}_row", VECTOR)
            yield step(split_iname, axes[-1], lanes, inner_tag="vec")
        along = f"{axes[-1]}{vectors}"
        yield step(split_iname, along, self.items, outer_tag=outer, inner_tag="l.0")

    def _lanes_of_rows(self, nest: Nest) -> int:
        """Return the number of elements of aligned vectors in all rows."""
        length = nest.trips(nest.inner[0]) or 1
        lanes = math.gcd(length, max(1, VECTOR // nest.itemsize()))
        while lanes > 1 and (length < lanes * self.items or not nest.are_vectors(lanes)):
            lanes //= 2
        return lanes

    def running_sums(self, nest: Nest, loops: Sequence[str]) -> Iterator[Sequence[Step]]:
        """Yield the schedules of scans: across work-groups, or of a row for each work-item."""
        found = nest.find_scan()
        if found is None:
            return
        along, reducing = found
        scan = step(realize_reduction, reducing, force_scan=True)
        rows = [name for name in loops if name != along]
        if not rows:
            yield from self._scan_through_tiles(nest, along, scan)
            groups = step(split_iname, along, EACH * self.items, outer_tag="g.0")
            yield groups, step(split_iname, f"{along}_inner", EACH, outer_tag="l.0"), scan
        else:
            yield step(split_iname, rows[0], self.warp, outer_tag="g.0", inner_tag="l.0"), scan

    def _scan_through_tiles(self, nest: Nest, along: str, scan: Step) -> Iterator[Sequence[Step]]:
        """Yield the schedule in which tiles are processed in order, and work-items have runs.

        If tiles can be copied asynchronously, as vectors, they are larger.
        """
        (k,) = nest.inner
        loops = {a: along if a.is_write else k for a in nest.accesses}
        lanes = VECTOR // nest.itemsize()
        copies = (
            bool(nest.kernel.target.async_copies)
            and all(map(nest.begins_at_zero, (along, k)))
            and all(a.index == (p.Variable(loop),) for a, loop in loops.items())
            and nest.are_in_vectors()
        )
        items = 2 * self.items if copies else self.items
        each = (COPIED if copies else RUN) * 4 // nest.itemsize() - 1
        length = each * items
        are_along = all(nest.is_unit(a, loop) for a, loop in loops.items())
        if not are_along or each < EACH or (nest.trips(along) or length) < length:
            return
        tile: dict[str, Any] = {"temporary_address_space": AddressSpace.LOCAL}
        if copies:
            tile["default_tag"] = None
        outer = ",".join((*nest.around, f"{along}_outer"))
        steps = [
            step(split_iname, along, length, outer_tag="g.0", slabs=(0, 1)),
            step(split_iname, f"{along}_inner", each, outer_tag="l.0", inner_tag="unr"),
            scan,
        ]
        runs = [f"{along}_inner_outer", f"{along}_inner_inner"]
        for array in sorted({a.array for a in loops if not a.is_write}):
            swept, name = [f"{k}_0", f"{k}_1"], f"{array}_run"
            options = {"fetch_outer_inames": outer, "prefetch_insn_id": f"{array}_copy", **tile}
            steps.append(step(add_prefetch, array, swept, name, **options))
            if copies:
                steps += self._run_of_vectors(name, f"{array}_fetch", lanes, items)
                steps.append(step(async_copy, f"{array}_copy"))
        for array in sorted({a.array for a in loops if a.is_write}):
            steps.append(step(buffer_array, array, runs, init_expression=False, **tile))
            if copies:
                steps += self._run_of_vectors(f"{array}_store_0", f"{array}_buf", lanes, items)
        yield steps

    @staticmethod
    def _run_of_vectors(run: str, array: str, lanes: int, items: int) -> Iterator[Step]:
        """Yield the steps by which *items* work-items copy a run as vectors."""
        yield step(align_temporaries, array, VECTOR)
        yield step(split_iname, run, lanes, inner_tag="vec")
        yield step(split_iname, f"{run}_outer", items, outer_tag="unr", inner_tag="l.0")

    # -- tiles in local memory --------------------------------------------------------------

    def terms_in_tiles(self, nest: Nest, loops: Sequence[str]) -> Iterator[Sequence[Step]]:
        """Yield the schedule of sums whose terms share elements among work-items: in tiles."""
        long = [name for name in nest.inner if nest.are_long(name) and nest.is_free(name)]
        most = MANY * self.items
        if len(loops) != 1 or len(long) != 1 or (nest.trips(loops[0]) or most) < most:
            return
        (i,), (j,) = loops, long
        moving = [a for a in nest.accesses if not nest.is_uniform(a, j)]
        if not moving or not all(nest.is_uniform(a, i) and a.index for a in moving):
            return
        if not all(not a.is_write and nest.is_only_read(a.array) for a in moving):
            return
        short = {n for n in nest.inside if (nest.trips(n) or COMPONENTS + 1) <= COMPONENTS}
        texts = {
            a.array: [":" if short.issuperset(variable_names(n)) else str(n) for n in a.index or ()]
            for a in moving
        }
        if any(text.count(j) != 1 or {*text} - {j, ":"} for text in texts.values()):
            return
        tags = _tags_of_short(nest, short, j)
        outer = ",".join((*nest.around, f"{i}_outer"))
        if self._has_parts(nest, i, j, short):
            tiles = self._tiles(nest, texts, f"{j}_inner", j, f"{outer},{j}_outer")
            yield (
                step(split_iname, i, SUMS * self.items, outer_tag="g.0"),
                step(split_iname, f"{i}_inner", self.items, outer_tag="ilp", inner_tag="l.0"),
                step(split_iname, j, PART, outer_tag="g.1"),
                *tiles,
                *tags,
            )
        yield (
            step(split_iname, i, self.items, outer_tag="g.0", inner_tag="l.0"),
            *self._tiles(nest, texts, j, j, outer),
            *tags,
        )

    def _has_parts(self, nest: Nest, i: str, j: str, short: Collection[str]) -> bool:
        """Tell whether groups have parts of sums, which are known to be few and long.

        Work-items then have several sums, and keep all elements that the terms read besides.
        """
        count, length = nest.trips(i), nest.trips(j)
        is_few = count is not None and count < GROUPS * SUMS * self.items
        own = sum(
            nest.expected_trips(n for n in short if not nest.is_uniform(a, n))
            for a in nest.accesses
            if not a.is_write and not nest.is_uniform(a, i)
        )
        is_long = j in nest.reduced and length is not None and length > PART
        return is_few and is_long and own * SUMS <= OWN

    def _tiles(
        self, nest: Nest, texts: Mapping[str, Sequence[str]], terms: str, j: str, around: str
    ) -> Iterator[Step]:
        """Yield the steps that cut *terms*, a part of the loop *j*, into tiles, and fetch them."""
        yield step(split_iname, terms, self.items)
        around = f"{around},{terms}_outer"
        for array, text in texts.items():
            yield from self._tile(nest, array, text, j, f"{terms}_inner", around)
        yield step(split_iname, f"{terms}_inner", COPIES, inner_tag="unr")

    def _tile(
        self, nest: Nest, array: str, text: Sequence[str], j: str, swept: str, around: str
    ) -> Iterator[Step]:
        """Yield the steps that fetch a row of an array for each work-item."""
        axes = [f"{array}_{axis}" for axis in range(len(text))]
        yield step(
            add_prefetch,
            f"{array}[{', '.join(text)}]",
            [swept],
            axes,
            default_tag=None,
            fetch_outer_inames=around,
            temporary_name=f"{array}_tile",
            temporary_address_space=AddressSpace.LOCAL,
        )
        yield step(align_temporaries, f"{array}_tile", VECTOR)
        tags = {n: "l.0" if one == j else "unr" for n, one in zip(axes, text, strict=True)}
        variable = nest.kernel.array_vars[array]
        if text[-1] != j and variable.dtype.itemsize * variable.shape[-1] in (8, VECTOR):
            is_real = variable.dtype.dtype.kind in "iuf" and variable.dtype.itemsize in (4, 8)
            tags[axes[-1]] = "vec" if is_real and variable.shape[-1] > 1 else "unr"
        yield step(tag_inames, tags)

    def transposition_in_tiles(self, nest: Nest, loops: Sequence[str]) -> Iterator[Sequence[Step]]:
        """Yield the schedule in which work-groups fetch by rows the elements read along columns."""
        j = nest.lane(loops)
        if j is None or nest.inner:
            return
        for access in nest.accesses:
            across = [n for n in loops if n != j and nest.is_unit(access, n)]
            is_far = not nest.is_unit(access, j) and not nest.is_uniform(access, j)
            if is_far and across and nest.is_only_read(access.array):
                steps = self._through_tile(nest, access, across[0], j)
                width = (self.warp + 1) * nest.kernel.array_vars[access.array].dtype.itemsize
                yield *steps, step(add_padding, f"{access.array}_tile", 0, width)
                yield steps
                return

    def _through_tile(self, nest: Nest, access: Access, i: str, j: str) -> Sequence[Step]:
        side, array = self.warp, access.array
        others = [name for name in nest.band if name not in (i, j)]
        names = {i: f"{array}_column", j: f"{array}_row"}
        inner = {"outer_tag": "unr", "inner_tag": "l.1"}
        return (
            *(step(tag_inames, f"{name}:g.2") for name in others[:1]),
            step(split_iname, i, side, outer_tag="g.1"),
            step(split_iname, j, side, outer_tag="g.0", inner_tag="l.0"),
            step(
                add_prefetch,
                array,
                [f"{j}_inner", f"{i}_inner"],
                [_axis_name(names, index, array) for index in access.index or ()],
                default_tag=None,
                fetch_outer_inames=",".join((*others, f"{i}_outer", f"{j}_outer")),
                temporary_name=f"{array}_tile",
                temporary_address_space=AddressSpace.LOCAL,
            ),
            step(tag_inames, f"{names[i]}:l.0"),
            step(split_iname, names[j], self.rows, **inner),
            step(split_iname, f"{i}_inner", self.rows, **inner),
        )

    def product_in_tiles(
        self, precision: str | None, nest: Nest, loops: Sequence[str]
    ) -> Iterator[Sequence[Step]]:
        """Yield the schedule of a matrix product: work-groups fetch a tile of both factors."""
        found = nest.find_product(loops)
        if found is None:
            return
        i, j, k, _ = found
        families: list[Callable[..., Choices | None]] = []
        if has_whole_tiles(nest, i, j, k):
            families = [partial(product_on_tensor_cores, precision=precision), product_on_items]
        elif _is_wide(nest, i, j):
            families = [product_on_items]
        for family in families:
            choices = family(self.machine, nest, *found)
            if choices is not None:
                yield choices.steps(choices.first)
        steps = [
            step(split_iname, i, BLOCK, outer_tag="g.1", inner_tag="l.1"),
            step(split_iname, j, BLOCK, outer_tag="g.0", inner_tag="l.0"),
            step(split_iname, k, BLOCK),
        ]
        others = [name for name in loops if name not in (i, j)]
        steps += [step(tag_inames, f"{others[0]}:g.2")] if others else []
        for factor in nest.factors(i, j, k).values():
            steps.append(factor.fetch([f"{name}_inner" for name in factor.axes]))
        yield steps


def _tags_of_short(nest: Nest, short: Collection[str], j: str) -> Sequence[Step]:
    """Return the step that unrolls *short* loops: those around sums along *j* have sums each."""
    summing = [insn for insn in nest.instructions if j in insn.reduction_inames()]
    around = frozenset[str]().union(*(insn.within_inames for insn in summing))
    tags = {
        n: "ilp" if n in around else "unr" for n in nest.inside if n in short and nest.is_free(n)
    }
    return (step(tag_inames, tags),) if tags else ()


def _is_wide(nest: Nest, i: str, j: str) -> bool:
    """Tell whether a matrix product may have many tiles in both directions."""
    return all((nest.trips(name) or WIDE) >= WIDE for name in (i, j))


def _axis_name(names: Mapping[str, str], index: Expr, array: str) -> str:
    """Return the loop of a fetch along one axis: by the loop variable of the subscript."""
    return next((names[n] for n in variable_names(index) if n in names), f"{array}_plane")
