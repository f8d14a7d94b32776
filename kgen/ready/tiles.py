"""Scans on GPUs: groups keep tiles of elements in local memory, in one or two launches.

If groups can wait for each other, each has one tile: it publishes the total of its tile, looks
back at the totals that preceding groups published, and scans its elements. Elements are read once
(:func:`kgen.transforms.reductions.look_back.look_back`). Elsewhere there are two launches.

In the first launch, each work-group combines its elements; in the second one, it combines the
totals of preceding groups, and scans its elements. A group processes its elements tile by tile. All
work-items copy a tile to local memory, coalesced; then each has some consecutive elements of the
tile. Elements are read twice and results are written once. D. Merrill, A. Grimshaw: Parallel scan
for stream architectures, University of Virginia, CS2009-14, 2009.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import pymbolic.primitives as p
from pytools.tag import Tag

from kgen.ir.assignee import assignee_name
from kgen.ir.data import TemporaryVariable
from kgen.ir.expr import Expr, Reduction, variable_names
from kgen.ir.instruction import (
    Assignment,
    BarrierInstruction,
    CallInstruction,
    InstructionBase,
)
from kgen.ir.reductions import ReductionOperation
from kgen.ir.tags import LookBackTag, PublishTag
from kgen.ir.target import TargetBase
from kgen.ir.types import AddressSpace, NumpyType
from kgen.ready.c_functions import Value
from kgen.ready.expressions import to_index
from kgen.ready.indices import Indices, wide
from kgen.ready.operations import Combination, FlaggedOperation, operation_of
from kgen.ready.structures import is_structure
from kgen.transforms.reductions.look_back import can_publish, entries_of, widest

__all__ = ["TileIndices", "TiledScan", "Tiling", "looks_back", "tiling_for"]

_BOOL: Final = np.dtype(np.bool_)
_LONG: Final = np.dtype(np.int64)
#: The number of large elements per work-item in local memory, by their size.
_ITEMS: Final = {8: 9, 16: 5}
#: The same in groups of one tile that look back, each of which has two tiles at a time: a
#: multiprocessor has local memory for four such groups of 256 work-items.
_ITEMS_OF_ONE_TILE: Final = {1: 47, 2: 23, 4: 21, 8: 11, 16: 5}


#: The bytes of local memory that all devices have, and how many values of a work-item are there
#: besides its items.
_LOCAL_MEMORY: Final = 48 * 1024
_COPIES: Final = 8


@dataclass(frozen=True)
class Tiling:
    """The elements of a work-group: *turns* tiles, in which each work-item has *items*.

    *items* is best an odd number, which avoids bank conflicts in local memory.
    A group that is *alone* has all tiles; a group that *looks_back* has one.
    """

    group_size: int = 256
    items: int = 15
    turns: int = 1
    alone: bool = False
    looks_back: bool = False

    @property
    def tile(self) -> int:
        """The number of elements of a tile."""
        return self.group_size * self.items

    @property
    def chunk(self) -> int:
        """The number of elements of a group."""
        return self.tile * self.turns

    @property
    def most_groups(self) -> int:
        """The maximum number of groups: each work-item combines *items* of their totals."""
        return self.group_size * (self.items + 1)


def looks_back(target: TargetBase, dtype: Any, schedule: Iterable[str]) -> bool:
    """Tell whether groups look back: if they can, and a schedule does not set *turns*."""
    is_number = can_publish(NumpyType(np.dtype(dtype)))
    return target.looks_back and is_number and "turns" not in schedule


def tiling_for(
    size: int, dtype: Any, *, is_one_tile: bool = False, **schedule: int
) -> dict[str, int]:
    """Return the parameters of a :class:`Tiling` for a number of elements of some type.

    Groups have enough tiles to limit the number of groups: a power of two, so that few
    kernels serve all sizes. Groups that look back have one tile.

    >>> tiling_for(10**6, np.int32), tiling_for(10**9, np.float64)
    ({'items': 15, 'turns': 1}, {'items': 9, 'turns': 256})
    >>> tiling_for(10**9, np.float32, is_one_tile=True)
    {'items': 21}
    >>> tiling_for(10**6, np.dtype("f8,f8,f8,f8"))  # structures may be large
    {'items': 1, 'group_size': 128, 'turns': 32}
    """
    items = _ITEMS_OF_ONE_TILE if is_one_tile else _ITEMS
    chosen = {"items": items.get(np.dtype(dtype).itemsize, _most_items(dtype)), **schedule}
    if is_one_tile:
        return chosen
    if is_structure(np.dtype(dtype)):
        chosen.setdefault("group_size", _group_size_for(dtype, chosen["items"]))
    chosen.setdefault("turns", 1)
    tiling = Tiling(**chosen, alone=False, looks_back=False)
    while size > chosen["turns"] * tiling.tile * tiling.most_groups:
        chosen["turns"] *= 2
    return chosen


def _most_items(dtype: Any) -> int:
    """Return an odd number of elements of any type for which local memory has room."""
    size = int(np.dtype(dtype).itemsize)
    return min(15, max(1, 72 // size - 1) | 1)


def _group_size_for(dtype: Any, items: int) -> int:
    """Return how many work-items' elements, with flags, local memory has room for."""
    size = (int(np.dtype(dtype).itemsize) + 1) * (items + _COPIES)
    most = max(32, _LOCAL_MEMORY // size)
    return min(Tiling.group_size, 1 << most.bit_length() - 1)


@dataclass(frozen=True)
class TileIndices(Indices):
    """The elements of tiles in the order of memory; *suffix* ends the names of the loops.

    *element_loop* is the loop over the elements that a work-item copies.
    """

    tiling: Tiling = Tiling()
    suffix: str = ""
    element_loop: str = "in"

    @cached_property
    def inames(self) -> tuple[str, ...]:
        """The loops over groups, tiles, work-items, and the elements that each copies."""
        found = tuple(f"kgen_{name}{self.suffix}" for name in ("g", "t", "l", self.element_loop))
        if self.tiling.looks_back:
            return (found[0], *found[2:])
        return found[1:] if self.tiling.alone else found

    @cached_property
    def index(self) -> Value:
        """The value of ``i``."""
        *outer, item, element = (wide(name) for name in self.inames)
        steps = (self.tiling.chunk, self.tiling.tile)[-len(outer) :]  # of one tile, both are equal
        parts = [p.Product((np.int64(k), name)) for k, name in zip(steps, outer, strict=True)]
        column = p.Product((np.int64(self.tiling.group_size), element))
        return Value(p.Sum((*parts, column, item)), _LONG)

    @property
    def condition(self) -> Expr:
        """The condition that the element exists."""
        return p.Comparison(to_index(self.index.expr), "<", p.Variable(self.size))


class TiledScan:
    """The instructions and loops of a scan up to its results, which are in the tile.

    :arg operands: returns the scanned operands at given indices: the values, and the flags if any
    """

    def __init__(
        self,
        combination: Combination,
        operands: Callable[[Indices], tuple[Expr, ...]],
        size: str,
        tiling: Tiling,
    ) -> None:
        self.combination = combination
        self.operands = operands
        self.tiling = tiling
        self.step = TileIndices(size, tiling=tiling, element_loop="out")
        self.first = TileIndices(size, tiling=tiling, suffix="_1")
        self.dtypes = (*combination.dtypes, _BOOL)[: len(operands(self.step))]
        self.temporaries: dict[str, TemporaryVariable] = {}
        self.domains: list[str] = []
        self.items: list[str] = []

    @property
    def operation(self) -> ReductionOperation:
        """The operation that combines operands in reductions."""
        if self.has_flags:
            return FlaggedOperation(self.combination)
        return operation_of(self.combination)

    @property
    def has_flags(self) -> bool:
        """Tell whether a flag is scanned with each value."""
        return len(self.dtypes) > len(self.combination.dtypes)

    @property
    def neutral(self) -> tuple[Expr, ...]:
        """The neutral operands."""
        return (*self.combination.start, False)[: len(self.dtypes)]

    @property
    def assumption(self) -> str:
        """The assumption on the number of elements."""
        if self.tiling.alone or self.tiling.looks_back or self.has_any_order:
            return ""
        return f" and {self.step.size} <= {self.tiling.chunk * self.tiling.most_groups}"

    @property
    def has_any_order(self) -> bool:
        """Tell whether totals can be combined in any order."""
        return self.combination.is_commutative and len(self.dtypes) == 1

    def instructions(self) -> Iterator[InstructionBase]:
        """Yield the instructions that scan the tiles of a group."""
        carry = self._names("carry")
        if self.tiling.looks_back:
            yield from self._stage(TileIndices(self.step.size, tiling=self.tiling), "")
            yield from self._look_back(carry)
            yield from self._scan_tile(carry)
            return
        if self.tiling.alone:
            yield from self._assign(carry, self.neutral, ["kgen_l"])
        else:
            yield from self._totals()
            yield BarrierInstruction("kgen_totals", synchronization_kind="global")
            yield from self._totals_before(carry)
        yield from self._stage(TileIndices(self.step.size, tiling=self.tiling), "")
        yield from self._scan_tile(carry)

    def carry_on(self) -> Iterator[InstructionBase]:
        """Yield the instructions that end the work on a tile."""
        if not self.tiling.looks_back:
            yield from self._add_tile("carry", "", self.step.inames[:-1])

    def item(self, at: Expr) -> tuple[Expr, ...]:
        """Return the numbers of the result at a place in the tile, subscripts."""
        count = len(self.combination.dtypes)
        return tuple(p.Variable(f"kgen_tile_{k}")[at] for k in range(count))

    @property
    def place(self) -> Expr:
        """The place in the tile of the element of ``step``."""
        item, element = map(p.Variable, self.step.inames[-2:])
        return p.Sum((p.Product((self.tiling.group_size, element)), item))

    # -- the first launch -----------------------------------------------------------------

    def _totals(self) -> Iterator[InstructionBase]:
        """Yield the instructions that combine the elements of each group."""
        tiling, size = self.tiling, self.step.size
        parts = self._names("part", (f"({size} + {tiling.chunk - 1})//{tiling.chunk}",), "GLOBAL")
        group = self.first.inames[0]
        at = [name[p.Variable(group)] for name in parts]
        if self.has_any_order:
            yield from self._sum_of_group(at, group)
            return
        total = self._names("total")
        yield from self._assign(total, self.neutral, [group, "kgen_l_1"])
        yield from self._stage(self.first, "_1")
        yield from self._add_tile("total", "_1", self.first.inames[:-1])
        is_first = p.Comparison(p.Variable("kgen_l_1"), "==", 0)
        for insn in self._assign(at, total, [group, "kgen_l_1"]):
            yield insn.copy(predicates=frozenset([is_first]))

    def _sum_of_group(self, at: Sequence[Expr], group: str) -> Iterator[InstructionBase]:
        """Yield the instructions that combine elements in any order."""
        tiling = self.tiling
        within = _InGroup(self.step.size, tiling=tiling, suffix="_1")
        _, _, item, element = within.inames
        first = f"{tiling.chunk}*{group} + {tiling.group_size}*{element} + {item}"
        self._loops(
            self._groups(group),
            f"[{item}, {element}]: 0 <= {item} < {tiling.group_size} and 0 <= {element} and "
            f"{element} < {tiling.items * tiling.turns} and {first} < {within.size}",
        )
        self.items.append(item)
        yield from self._reduce(at, (element, item), self.operands(within), [group])

    def _groups(self, group: str) -> str:
        """Return the values of a loop over groups."""
        size, chunk = self.step.size, self.tiling.chunk
        return f"[{group}]: 0 <= {group} < floor(({size} + {chunk - 1})/{chunk})"

    # -- the second launch ----------------------------------------------------------------

    def _totals_before(self, carry: Sequence[Expr]) -> Iterator[InstructionBase]:
        """Yield the instructions that combine the totals of preceding groups."""
        tiling, group = self.tiling, self.step.inames[0]
        row, lane = "kgen_r", "kgen_l_before"
        parts = [p.Variable(f"kgen_part_{k}") for k in range(len(self.dtypes))]
        if self.has_any_order:
            self._loops(
                f"[{row}, {lane}]: 0 <= {row} and 0 <= {lane} < {tiling.group_size} and "
                f"{tiling.group_size}*{row} + {lane} < {group}"
            )
            self.items.append(lane)
            at = p.Sum((p.Product((tiling.group_size, p.Variable(row))), p.Variable(lane)))
            yield from self._reduce(carry, (row, lane), [x[at] for x in parts], [group])
            return
        rows = tiling.items + 1
        self._loops(
            f"[{lane}]: 0 <= {lane} < {tiling.group_size}",
            f"[{row}]: 0 <= {row} < {rows} and {rows}*{lane} + {row} < {group}",
        )
        self.items.append(lane)
        at = p.Sum((p.Product((rows, p.Variable(lane))), p.Variable(row)))
        found = self._names("own_before")
        yield from self._reduce(found, (row,), [x[at] for x in parts], [group, lane])
        yield from self._scan_items("_before", found, [group], lane)
        last = [p.Variable(f"kgen_upto_before_{k}") for k in range(len(parts))]
        yield from self._assign(carry, [x[tiling.group_size - 1] for x in last], [group, "kgen_l"])

    # -- in one launch --------------------------------------------------------------------

    def _look_back(self, carry: Sequence[Expr]) -> Iterator[InstructionBase]:
        """Yield the instructions that combine the published totals of preceding groups."""
        tiling, group = self.tiling, self.step.inames[0]
        other, lane, one = "kgen_g_before", "kgen_l_before", "kgen_l_first"
        width = widest(tiling.group_size)
        self._loops(
            f"[{other}]: 0 <= {other} < {group}",
            f"[{lane}]: 0 <= {lane} < {width}",
            f"[{one}]: 0 <= {one} < 1",
        )
        self.items += [lane, one]
        size, chunk = self.step.size, tiling.chunk
        parts = self._names("part", (f"({size} + {chunk - 1})//{chunk} + 1",), "GLOBAL", rows=True)
        total, before, more, upto = map(self._names, ("total", "before", "other", "upto_group"))

        def row(index: str, entry: int) -> list[Expr]:
            return [part[p.Sum((p.Variable(index), 1)), entry] for part in parts]

        def tagged(insns: Iterable[InstructionBase], tag: Tag) -> Iterator[InstructionBase]:
            return (insn.copy(tags=insn.tags | {tag}) for insn in insns)

        last = [p.Variable(f"kgen_upto_{k}") for k in range(len(parts))]
        yield from self._assign(total, [x[tiling.group_size - 1] for x in last], [group, lane])
        mine = self._assign(row(group, 0), total, [group, one])
        yield from tagged(mine, PublishTag("kgen_scan", is_total=True))
        yield from self._assign(before, self.neutral, [group, lane])
        read = self._assign(more, row(other, 0), [group, lane, other])
        joined = self._assign(before, self._combined(before, more), [group, lane, other])
        yield from tagged((*read, *joined), LookBackTag("kgen_scan", width))
        yield from self._assign(upto, self._combined(before, total), [group, lane])
        all_of_them = self._assign(row(group, 1), upto, [group, one])
        yield from tagged(all_of_them, PublishTag("kgen_scan", is_total=False))
        if width < tiling.group_size:  # others do not know it
            start = self._names("start", (), "LOCAL")
            yield from self._assign(start, before, [group, one])
            before = start
        yield from self._assign(carry, before, [group, "kgen_l"])

    # -- tiles ----------------------------------------------------------------------------

    def _stage(self, indices: TileIndices, suffix: str) -> Iterator[InstructionBase]:
        """Yield the instructions that copy a tile, and scan each work-item's part of it."""
        tiling = self.tiling
        *outer, item, element = indices.inames
        start = f"{tiling.tile}*{outer[-1]}"
        if tiling.looks_back:
            self._loops(self._groups(outer[0]))
            turns = ""
        elif not tiling.alone:
            start = f"{tiling.chunk}*{outer[0]} + {start}"
            self._loops(self._groups(outer[0]))
            turns = f" < {tiling.turns}"
        else:
            turns = ""
        own = f"kgen_own_e{suffix}"
        if not tiling.looks_back:
            self._loops(f"[{outer[-1]}]: 0 <= {outer[-1]}{turns} and {start} < {self.step.size}")
        self._loops(
            f"[{item}]: 0 <= {item} < {tiling.group_size}",
            f"[{element}]: 0 <= {element} < {tiling.items}",
            f"[{own}]: 0 <= {own} < {tiling.items}",
        )
        self.items.append(item)
        tile = self._names("tile", (tiling.tile,), "LOCAL")
        place = p.Sum((p.Product((tiling.group_size, p.Variable(element))), p.Variable(item)))
        values = [
            p.If(indices.condition, operand, fill)
            for operand, fill in zip(self.operands(indices), self.neutral, strict=True)
        ]
        yield from self._assign([x[place] for x in tile], values, indices.inames)
        found = self._names(f"own{suffix}")
        at = p.Sum((p.Product((tiling.items, p.Variable(item))), p.Variable(own)))
        yield from self._reduce(found, (own,), [x[at] for x in tile], [*outer, item])
        yield from self._scan_items(suffix, found, outer, item)

    def _scan_items(
        self, suffix: str, own: Sequence[Expr], outer: Sequence[str], item: str
    ) -> Iterator[InstructionBase]:
        """Yield the instructions that scan one value per work-item."""
        size = self.tiling.group_size
        lane, before = f"kgen_lane{suffix}", f"kgen_j{suffix}"
        self._loops(f"[{lane}]: 0 <= {lane} < {size}", f"[{before}]: 0 <= {before} <= {lane}")
        self.items.append(lane)
        totals = self._names(f"all{suffix}", (size,), "LOCAL")
        upto = self._names(f"upto{suffix}", (size,), "LOCAL")
        yield from self._assign([x[p.Variable(item)] for x in totals], own, [*outer, item])
        yield from self._reduce(
            [x[p.Variable(lane)] for x in upto],
            (before,),
            [x[p.Variable(before)] for x in totals],
            [*outer, lane],
            name=f"kgen_scan{suffix}",
        )

    def _scan_tile(self, carry: Sequence[Expr]) -> Iterator[InstructionBase]:
        """Yield the instructions that replace the elements of a tile by the results."""
        tiling = self.tiling
        *outer, item, _ = self.step.inames
        element = "kgen_e_scan"
        stored = self.step.inames[-1]
        self._loops(*(f"[{name}]: 0 <= {name} < {tiling.items}" for name in (element, stored)))
        mine = p.Variable(item)
        result = self._names("result")
        previous = [
            p.Variable(f"kgen_upto_{k}")[p.Sum((mine, -1))] for k in range(len(self.dtypes))
        ]
        start = [
            p.If(p.Comparison(mine, ">", 0), both, alone)
            for both, alone in zip(self._combined(carry, previous), carry, strict=True)
        ]
        yield from self._assign(result, start, [*outer, item])
        at = p.Sum((p.Product((tiling.items, mine)), p.Variable(element)))
        here = [p.Variable(f"kgen_tile_{k}")[at] for k in range(len(self.dtypes))]
        inames = [*outer, item, element]
        yield from self._assign(result, self._combined(result, here), inames)
        count = len(self.combination.dtypes)
        yield from self._assign(here[:count], result[:count], inames)

    def _add_tile(self, name: str, suffix: str, inames: Sequence[str]) -> Iterator[InstructionBase]:
        """Yield the instructions that combine a value with all elements of a tile."""
        count, last = len(self.dtypes), self.tiling.group_size - 1
        total = [p.Variable(f"kgen_{name}_{k}") for k in range(count)]
        tile = [p.Variable(f"kgen_upto{suffix}_{k}")[last] for k in range(count)]
        yield from self._assign(total, self._combined(total, tile), inames)

    # -- parts of instructions ------------------------------------------------------------

    def _combined(self, left: Sequence[Expr], right: Sequence[Expr]) -> Sequence[Expr]:
        if not self.has_flags:
            return self.combination.of(left, right)
        found, _ = FlaggedOperation(self.combination)((), left, right, {}, None)
        return list(found)

    def _loops(self, *domains: str) -> None:
        self.domains += [f"{{ {domain} }}" for domain in domains]

    def _names(
        self,
        name: str,
        shape: tuple[Any, ...] = (),
        space: str = "PRIVATE",
        *,
        rows: bool = False,
    ) -> list[p.Variable]:
        """Declare a temporary for the values, and one for the flags if there are any.

        Each of the published *rows* has room for several entries.
        """
        names = [f"kgen_{name}_{k}" for k in range(len(self.dtypes))]
        for one, dtype in zip(names, self.dtypes, strict=True):
            own = (*shape, entries_of(NumpyType(dtype))) if rows else shape
            self.temporaries[one] = TemporaryVariable(
                one, dtype, shape=own, address_space=getattr(AddressSpace, space)
            )
        return [p.Variable(one) for one in names]

    def _assign(
        self, places: Sequence[Expr], values: Sequence[Expr], inames: Sequence[str]
    ) -> Iterator[InstructionBase]:
        """Yield the instructions that assign all values at once."""
        written = [assignee_name(place) for place in places]
        if any(set(written[:k]) & {*variable_names(v)} for k, v in enumerate(values)):
            new = self._names(f"new_{len(self.temporaries)}")
            yield from self._assign(new, values, inames)
            values = new
        for place, value in zip(places, values, strict=True):
            yield Assignment(
                place, value, within_inames=frozenset(inames), within_inames_is_final=True
            )

    def _reduce(
        self,
        places: Sequence[Expr],
        over: tuple[str, ...],
        operands: Sequence[Expr],
        inames: Sequence[str],
        **options: Any,
    ) -> Iterator[InstructionBase]:
        inside = {"within_inames": frozenset(inames), "within_inames_is_final": True}
        name = options.get("name")
        if len(places) == 1:
            value = Reduction(self.operation, over, operands[0])
            yield Assignment(places[0], value, id=name, **inside)
        else:
            both = Reduction(self.operation, over, tuple(operands))
            yield CallInstruction(tuple(places), both, id=name, **inside)


class _InGroup(TileIndices):
    """All elements of a group, without tiles."""

    @cached_property
    def index(self) -> Value:
        group, _, item, element = (wide(name) for name in self.inames)
        first = p.Product((np.int64(self.tiling.chunk), group))
        column = p.Product((np.int64(self.tiling.group_size), element))
        return Value(p.Sum((first, column, item)), _LONG)
