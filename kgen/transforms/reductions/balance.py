"""Merge-balanced reductions: work-items share the entries of all rows evenly.

D. Merrill, M. Garland: Merge-based Parallel Sparse Matrix-Vector Multiplication, SC 2016.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pymbolic.primitives as p
from pytools.tag import Tag

from kgen.errors import TransformError
from kgen.ir.affine import simplify
from kgen.ir.assignee import assignee_name
from kgen.ir.data import ArrayArg, Iname, TemporaryVariable, ValueArg
from kgen.ir.expr import Expr, Reduction, SubstitutionMapper, TypeCast, minus, substitute, to_text
from kgen.ir.instruction import Assignment, BarrierInstruction, CallInstruction, InstructionBase
from kgen.ir.kernel import LoopKernel
from kgen.ir.reductions import parse_reduction_op
from kgen.ir.sets.dims import BasicSet
from kgen.ir.sets.text import parse_domain
from kgen.ir.tags import GroupInameTag, LocalInameTag, UnrollTag
from kgen.ir.target import WARP_SIZE
from kgen.ir.types import BOOL8, INT32, AddressSpace, NumpyType
from kgen.transforms.loops.inames import remove_unused_inames
from kgen.transforms.loops.split import split_iname
from kgen.transforms.reductions.realize import realize_reduction
from kgen.transforms.reductions.rows import Rows, Total, find_rows
from kgen.transforms.select import new_names, split_names, transform

__all__ = ["balance"]

#: Loops over the steps of a work-item are unrolled if it has at most as many.
_MOST_UNROLLED: Final = 32
#: The largest tile, whose steps are counted in 32 bits and stored in local memory.
_MOST_STEPS: Final = 2**20
#: The maximum number of tile ends that a group searches for: few, so that there are many groups.
_SEARCHING: Final = 128


@transform
def balance(
    kernel: LoopKernel,
    inames: str | Iterable[str],
    *,
    items: int | None = None,
    group_size: int | None = None,
    entries: str | int | None = None,
) -> LoopKernel:
    """Distribute the entries of rows evenly over work-items, whatever the lengths of the rows.

    A row has the entries ``starts[row] <= k < starts[row + 1]``, over which the kernel reduces.
    The ends of the rows are merged with the indices of the entries, and the merge is cut into
    pieces of *items* steps; a step adds an entry or ends a row. All work-items do the same
    amount of work, be it a part of one row or many empty rows.

    :arg inames: the loop over rows and the loop over the entries of a row, ``"row, k"``
    :arg items: the steps of a work-item; 11 by default, and 2048 on targets without work-items
    :arg group_size: the work-items of a group; 256 by default, and 1 without work-items
    :arg entries: an upper bound of the number of entries, as an expression of sizes. By default,
        the length of an array with one element per entry, such as ``values`` below; if that is
        declared without a shape, it becomes a new argument, which calls infer from the array

    ::

        for row                                       # 0 <= row < n
          first = starts[row]
          count = starts[row + 1] - first
          out[row] = sum(k, values[first + k]*x[columns[first + k]])     # 0 <= k < count
        end row

    The result has three launches, shown here without conditions ("if") for the last tile::

        row_at[c] = rows that end before step tile*c        # by a search, for each tile
        ... gbarrier
        for row_tile                                        # g.0
          for row_end: ends[...] = starts[...]              # l.0 and unrolled: neighbours next to
          for k_stage:   part[...] = values[e]*x[columns[e]]   # each other, to local memory, from
                                                               # a multiple of 32 entries on
          done = ...                                        # rows that end before this item's steps
          acc = 0
          for row_step                                      # unrolled
            more = y < ends[done]
            acc = acc + part[y]; y = y + 1     {if=more}
            total[step] = acc; acc = 0; done = done + 1     {if=not more}
          upto[item] = segmented sum of acc over items      # a scan of the group
          carry[row_tile] = upto[last item]
          for row_put: out[row] = upto[...] + total[...]    # rows that end in the tile, neighbours
        ... gbarrier                                        # next to each other
        for row_late                                        # rows that began in another tile
          out[row] = sum(k_late, carry[...]) + head[row_late]

    Each row's instructions run once, in one of two copies, when its total is known; entries
    are combined in a deterministic order. All loops have their tags: groups are on
    ``g.0``, work-items on ``l.0``, and on ``l.1`` in the last launch. Choose the target first,
    because the scan depends on it.

    Reductions may use any commutative operation; a loop may have several, also with several
    operands (``argmax``). ``acc = acc + values[k]`` inside a plain loop ``k`` is a sum, too; so
    are updates with ``*``, ``max`` and ``min``. An operand that depends on the row by more than the
    indices of its entries (``x[columns[k]] - y[row]``) is computed in the steps, not staged.

    It is assumed, not checked, that ``starts`` ascends, and that *entries* is an upper bound.
    :func:`verify` reports this as unknown, as it does the comparison with the original kernel,
    whose loop bounds depend on data.

    Raises :class:`TransformError` for bounds that are not those of consecutive rows, for
    loops around the rows, for tags of either loop, for rows that depend on each other, for
    operations that do not commute, for unknown types, and if the number of entries cannot be
    determined.

    >>> import kgen as lp
    >>> knl = lp.make_kernel(
    ...     ["{ [row]: 0 <= row < n }", "{ [k]: first <= k < last }"],
    ...     '''
    ...     for row
    ...         <> first = starts[row]
    ...         <> last = starts[row + 1]
    ...         out[row] = sum(k, values[k]*x[columns[k]])
    ...     end
    ...     ''',
    ...     [
    ...         lp.GlobalArg("values", "float32", shape="entries"),
    ...         lp.GlobalArg("columns", "int32", shape="entries"),
    ...         lp.GlobalArg("starts", "int32", shape="n + 1"),
    ...         lp.GlobalArg("x", "float32", shape="m"),
    ...         lp.GlobalArg("out", "float32", shape="n"),
    ...         lp.ValueArg("n, m, entries", "int32"),
    ...     ],
    ...     target=lp.CudaTarget(),
    ... )
    >>> knl = balance(knl, "row, k", items=5, group_size=128)
    >>> lp.generate_code_v2(knl).device_code().count("__global__")
    3
    >>> lp.verify(knl).violated
    ()
    """
    names = split_names(inames)
    if len(names) != 2:
        raise TransformError(
            f"balance takes two loops, not {len(names)}",
            hint="the loop over rows and that over their entries: balance(knl, 'row, k')",
        )
    has_items = kernel.target.has_work_items
    size = _positive("group_size", group_size, 256 if has_items else 1)
    steps = _positive("items", items, 11 if has_items else 2048)
    if size * steps > _MOST_STEPS:
        raise TransformError(
            f"a tile of {size} work-items with {steps} steps each is too large",
            hint=f"items={_MOST_STEPS // size}, or less",
        )
    rows = find_rows(kernel, *names, entries)
    return _Balance(kernel, rows, names[1], steps, size).result()


def _positive(name: str, given: int | None, default: int) -> int:
    value = default if given is None else int(given)
    if not 0 < value <= _MOST_STEPS:
        raise TransformError(
            f"'{name}' must be a number from 1 to {_MOST_STEPS}, not {value}",
            hint=f"{name}={default}",
        )
    return value


_INT64: Final = NumpyType(np.dtype(np.int64))


def _call(name: str, *operands: Expr) -> Expr:
    return p.Call(p.Variable(name), operands)


def _all(*conditions: Expr) -> Expr:
    return p.LogicalAnd(conditions)


def _wide(value: Expr) -> Expr:
    """Convert to 64 bits: the number of rows plus entries may exceed 32 bits."""
    return TypeCast(_INT64, value)


@dataclass(frozen=True)
class _Parts:
    """The variables that hold parts of a total, one for each of its results."""

    total: Total
    staged: tuple[Expr, ...]
    acc: tuple[Expr, ...]
    stored: tuple[Expr, ...]
    own: tuple[Expr, ...]
    upto: tuple[Expr, ...]
    carry: tuple[Expr, ...]
    head: tuple[Expr, ...]
    found: tuple[Expr, ...]

    @property
    def neutral(self) -> tuple[Expr, ...]:
        """The neutral element."""
        return self.total.reduction.operation.neutral(self.total.widths)

    def combine(self, one: Sequence[Expr], other: Sequence[Expr]) -> tuple[Expr, ...]:
        """Combine two parts."""
        return self.total.reduction.operation.combine(one, other, self.total.widths)

    def results(self) -> tuple[Expr, ...]:
        """Return the total, in the types of its results."""
        total = self.total
        return tuple(
            value if dtype == width else TypeCast(dtype, value)
            for value, dtype, width in zip(self.found, total.types, total.widths, strict=True)
        )


class _Balance:
    """Makes the loops and instructions of a balanced kernel, one after the other."""

    def __init__(self, kernel: LoopKernel, rows: Rows, k: str, items: int, group_size: int) -> None:
        self.kernel, self.rows, self.k = kernel, rows, k
        self.items, self.group_size, self.tile = items, group_size, items * group_size
        self.lanes = min(WARP_SIZE, 1 << group_size.bit_length() - 1)
        self.late = max(1, group_size // self.lanes)
        self.new_name = new_names(kernel, [rows.entry, to_text(rows.most)])
        self.new_id = kernel.get_instruction_id_generator()
        self.temporaries: dict[str, TemporaryVariable] = {}
        self.domains: list[BasicSet] = []
        self.inames: dict[str, Iname] = {}
        self.instructions: list[InstructionBase] = []
        self.last = rows.waits
        self.around: tuple[Expr, ...] = ()
        self.copies: dict[str, list[str]] = {name: [] for name in rows.gone}
        self.scans: list[str] = []
        #: how many entries before the tile's have a place in local memory
        self.skipped: Expr = 0
        self.index: NumpyType = kernel.index_dtype
        steps = p.Sum((rows.count, rows.most))
        #: the bounds of a loop over steps; none if there are no rows
        self.in_merge = f"< {to_text(steps)} and 0 < {to_text(rows.count)}"
        tiles = p.FloorDiv(p.Sum((steps, self.tile - 1)), self.tile)
        self.of_tile = self._temporary("of_tile", self.index, p.Sum((tiles, self.late)), "GLOBAL")
        self.ends = self._temporary("ends", INT32, self.tile + 1, "LOCAL")
        self.ended = self._temporary("ended", BOOL8, group_size, "LOCAL")
        self.any_ended = self._temporary("any_ended", BOOL8, group_size, "LOCAL")
        self.parts = [self._parts(total, tiles) for total in rows.totals]

    def result(self) -> LoopKernel:
        """Return the kernel, with all launches."""
        self._search()
        self._barrier()
        self._tiles()
        self._barrier()
        self._finish_split_rows()
        return self._finished()

    # -- declarations -------------------------------------------------------------------------

    def _temporary(
        self, what: str, dtype: NumpyType, length: Expr | None = None, space: str = "PRIVATE"
    ) -> p.Variable:
        name = str(self.new_name(f"{self.rows.row}_{what}"))
        self.temporaries[name] = TemporaryVariable(
            name,
            dtype=dtype,
            shape=() if length is None else (length,),
            address_space=getattr(AddressSpace, space),
        )
        return p.Variable(name)

    def _parts(self, total: Total, tiles: Expr) -> _Parts:
        widths = total.widths
        is_staged = not self.rows.depends_on_row(total)

        def variables(what: str, length: Expr | None = None, space: str = "PRIVATE") -> Any:
            return tuple(self._temporary(what, dtype, length, space) for dtype in widths)

        return _Parts(
            total=total,
            staged=variables("part", self.tile + self.lanes, "LOCAL") if is_staged else (),
            acc=variables("acc"),
            stored=variables("total", self.tile, "LOCAL"),
            own=variables("own", self.group_size, "LOCAL"),
            upto=variables("upto", self.group_size, "LOCAL"),
            carry=variables("carry", tiles, "GLOBAL"),
            head=variables("head", tiles, "GLOBAL"),
            found=variables("sum"),
        )

    def _loop(self, what: str, conditions: str, tag: Tag | None = None) -> p.Variable:
        """Make a loop whose variable is ``$`` in the conditions."""
        name = str(self.new_name(what))
        self.domains.append(parse_domain(f"{{ [{name}]: {conditions.replace('$', name)} }}"))
        self.inames[name] = Iname(name, frozenset() if tag is None else frozenset([tag]))
        return p.Variable(name)

    def _row_loop(self, what: str, conditions: str, tag: Tag | None = None) -> p.Variable:
        return self._loop(f"{self.rows.row}_{what}", conditions, tag)

    def _item(self, what: str, count: int) -> p.Variable:
        """Make a loop over *count* work-items."""
        return self._row_loop(what, f"0 <= $ < {count}", LocalInameTag(0))

    def _own_steps(self, what: str, count: int, end: Expr) -> p.Variable:
        """Make a loop over the steps of a work-item in a tile; the last tile may have fewer."""
        if self.items <= _MOST_UNROLLED:
            return self._loop(what, f"0 <= $ < {count}", UnrollTag())
        bound = f" and $ < {to_text(end)}" if self.group_size == 1 else ""
        return self._loop(what, f"0 <= $ < {count}{bound}")

    # -- instructions -------------------------------------------------------------------------

    def _set(self, place: Expr, value: Expr, *loops: Expr, when: Sequence[Expr] = ()) -> str:
        """Append an assignment, inside ``around`` and some loops, after all previous ones."""
        inames = frozenset(loop.name for loop in (*self.around, *loops))
        insn = Assignment(
            place,
            value,
            id=self.new_id(assignee_name(place)),
            within_inames=inames,
            within_inames_is_final=True,
            predicates=tuple(when),
        )
        return self._append(insn)

    def _append(self, insn: InstructionBase) -> str:
        self.instructions.append(insn.copy(depends_on=self.last, depends_on_is_final=True))
        self.last = frozenset([str(insn.id)])
        return str(insn.id)

    def _set_all(
        self,
        places: Sequence[Expr],
        values: Sequence[Expr],
        *loops: Expr,
        when: Sequence[Expr] = (),
    ) -> None:
        for place, value in zip(places, values, strict=True):
            self._set(place, value, *loops, when=when)

    def _private(self, what: str, dtype: NumpyType, value: Expr, *loops: Expr) -> p.Variable:
        variable = self._temporary(what, dtype)
        self._set(variable, value, *loops)
        return variable

    def _barrier(self) -> None:
        kind = {"synchronization_kind": "global", "within_inames_is_final": True}
        self.around = ()
        self._append(BarrierInstruction(self.new_id(f"{self.rows.row}_barrier"), **kind))

    # -- the ends of tiles --------------------------------------------------------------------

    def _ends_early(self, number: Expr, tile: Expr) -> Expr:
        """Return the condition that there are so many rows, and that they end before a tile."""
        before = minus(self.rows.start(number), self.rows.start(0))
        first = p.Product((self.tile, _wide(tile)))
        is_before = p.Comparison(p.Sum((_wide(number), before)), "<=", first)
        return _all(p.Comparison(number, "<=", self.rows.count), is_before)

    def _search(self) -> None:
        """Append the search for the number of rows that end before each tile.

        A round finds two bits by three independent reads; a binary search would wait twice.
        """
        last = f"{self.tile}*($ - {self.late}) {self.in_merge}"
        c = self._loop(f"{self.rows.row}_search", f"0 <= $ and {last}")
        rounds = 16 if self.index.itemsize == INT32.itemsize else 31
        b = self._loop(f"{self.rows.row}_round", f"0 <= $ < {rounds}")
        self.around = (c,)
        found = self._private("found", self.index, 0)
        quarter = p.RightShift(np.int64(4 ** (rounds - 1)), p.Product((2, b)))
        step = self._private("quarter", _INT64, quarter, b)
        early = [
            self._private("early", INT32, p.If(self._ends_early(number, c), 1, 0), b)
            for number in (found + step, found + 2 * step, found + 3 * step)
        ]
        self._set(found, found + step * p.Sum(tuple(early)), b)
        self._set(self.of_tile[c], found)
        self.searching = c.name

    # -- tiles --------------------------------------------------------------------------------

    def _tiles(self) -> None:
        g = self._row_loop("tile", f"0 <= $ and {self.tile}*$ {self.in_merge}", GroupInameTag(0))
        self.g, self.l = g, self._item("item", self.group_size)
        self.around = (g, self.l)
        start, first, count = self.rows.start, self.of_tile[g], self.rows.count
        self.row0 = self._private("first", self.index, first)
        self.ending = self._private("ending", INT32, self.of_tile[g + 1] - self.row0)
        self.entry0 = self._private(
            "entry", self.rows.dtype, p.Product((self.tile, _wide(g))) - self.row0 + start(0)
        )
        left = _wide(count) + start(count) - start(0) - p.Product((self.tile, _wide(g)))
        left = self._private("left", _INT64, left)
        some = p.If(p.Comparison(left, ">", 0), left, 0)
        steps = p.If(p.Comparison(left, ">", self.tile), self.tile, some)
        self.own_entries = self._private("entries", INT32, steps - self.ending)
        self._stage_ends()
        self._stage_operands()
        self._merge()
        self._scan()
        self._put()

    def _stage_ends(self) -> None:
        """Append the copy of row ends to local memory."""
        r = self._own_steps(f"{self.rows.row}_end", self.items + 1, self.ending + 1)
        at = simplify(p.Sum((p.Product((self.group_size, r)), self.l)))
        row = _call("min", self.row0 + at, p.Sum((self.rows.count, -1)))
        is_end = [p.Comparison(at, "<=", self.ending)]
        # past the last row there are no entries
        end = minus(self.rows.start(p.Sum((row, 1))), self.entry0)
        self._set(self.ends[at], end, r, when=is_end)

    def _stage_operands(self) -> None:
        """Append the copies of operands to local memory.

        In groups of 32 or more work-items, reads start at a multiple of 32 entries, at most 31
        before those of the tile. If the size of the group is a multiple of 32, too, each warp reads
        whole cache lines.
        """
        staged = [parts for parts in self.parts if parts.staged]
        if not staged:
            return
        begin, more = self.entry0, self.lanes > 1
        if more:
            before = p.BitwiseAnd((self.entry0, self.lanes - 1))
            self.skipped = self._private("skipped", INT32, before)
            begin = self._private("aligned", self.rows.dtype, self.entry0 - self.skipped)
        s = self._own_steps(f"{self.k}_stage", self.items + more, self.own_entries)
        at = simplify(p.Sum((p.Product((self.group_size, s)), self.l)))
        is_own: list[Expr] = [p.Comparison(at, "<", self.own_entries + self.skipped)]
        if more:
            is_later = p.Comparison(s, ">", 0)
            is_own.append(p.LogicalOr((is_later, p.Comparison(at, ">=", self.skipped))))
        entry = self._temporary("staged", self.rows.dtype)
        self._set(entry, begin + at, s, when=is_own)
        for parts in staged:
            values = [substitute(x, {self.rows.entry: entry}) for x in parts.total.operands]
            self._set_all([x[at] for x in parts.staged], values, s, when=is_own)

    def _merge(self) -> None:
        """Append the steps of each work-item: it adds an entry, or stores the total of a row."""
        steps = self.own_entries + self.ending
        first = _call("min", p.Product((self.items, self.l)), steps)
        step0 = self._private("first_step", INT32, first)
        self.done = done = self._private("done", INT32, 0)
        bits = self.tile.bit_length()
        b = self._loop(f"{self.rows.row}_item_bit", f"0 <= $ < {bits}")
        more = done + p.RightShift(1 << bits - 1, b)
        is_before = p.Comparison(more + self.ends[more + -1], "<=", step0)
        fits = _all(p.Comparison(more, "<=", self.ending), is_before)
        self._set(done, more, b, when=[fits])
        y = self._private("own_entry", INT32, step0 - done)
        ended = self._private("has_ended", BOOL8, False)
        for parts in self.parts:
            self._set_all(parts.acc, parts.neutral)
        v = self._own_steps(f"{self.rows.row}_step", self.items, steps)
        at = simplify(p.Sum((p.Product((self.items, self.l)), v)))
        is_there = p.Comparison(at, "<", steps)
        is_entry = self._private(
            "is_entry", BOOL8, _all(is_there, p.Comparison(y, "<", self.ends[done])), v
        )
        is_end = self._private("is_end", BOOL8, _all(is_there, p.LogicalNot(is_entry)), v)
        place = simplify(y + self.skipped)
        for parts in self.parts:
            added = [x[place] for x in parts.staged] or self._operands(parts, y)
            self._set_new(parts.acc, parts.combine(parts.acc, added), v, when=[is_entry])
        self._set(y, y + 1, v, when=[is_entry])
        for parts in self.parts:
            self._set_all([x[at] for x in parts.stored], parts.acc, v, when=[is_end])
            self._set_all(parts.acc, parts.neutral, v, when=[is_end])
        self._set(done, done + 1, v, when=[is_end])
        self._set(ended, True, v, when=[is_end])
        for parts in self.parts:
            self._set_all([x[self.l] for x in parts.own], parts.acc)
        self._set(self.ended[self.l], ended)

    def _operands(self, parts: _Parts, y: Expr) -> list[Expr]:
        """Return operands that depend on the row, at an entry of the tile."""
        row = simplify(p.Sum((self.rows.first, self.row0, self.done)))
        values = {self.rows.entry: self.entry0 + y, self.rows.row: row}
        return [substitute(operand, values) for operand in parts.total.operands]

    def _set_new(
        self, places: Sequence[Expr], values: Sequence[Expr], *loops: Expr, when: Sequence[Expr]
    ) -> None:
        """Assign several variables simultaneously, from their previous values."""
        if len(places) > 1:
            kept = [self._temporary("new", self._dtype_of(place)) for place in places[:-1]]
            self._set_all(kept, values[:-1], *loops, when=when)
            values = [*kept, values[-1]]
            places, values = [places[-1], *places[:-1]], [values[-1], *values[:-1]]
        self._set_all(places, values, *loops, when=when)

    def _dtype_of(self, place: Expr) -> NumpyType:
        dtype = self.temporaries[assignee_name(place)].dtype
        assert isinstance(dtype, NumpyType)
        return dtype

    def _scan(self) -> None:
        """Append the segmented scan of the partial sums after each work-item's last row end."""
        self.around = (self.g,)
        for parts in self.parts:
            lane = self._item("lane", self.group_size)
            before = self._row_loop("before", f"0 <= $ <= {lane.name}")
            operation = parse_reduction_op(f"segmented({parts.total.reduction.operation.name})")
            operands = tuple(x[before] for x in (*parts.own, self.ended))
            name = self.new_id(f"{self.rows.row}_scan")
            self._append(
                CallInstruction(
                    tuple(x[lane] for x in (*parts.upto, self.any_ended)),
                    Reduction(operation, (before.name,), operands),
                    id=name,
                    within_inames=frozenset([self.g.name, lane.name]),
                    within_inames_is_final=True,
                )
            )
            self.scans.append(str(name))
        one = self._item("carry_item", 1)
        for parts in self.parts:
            last = [x[self.group_size - 1] for x in parts.upto]
            self._set_all([x[self.g] for x in parts.carry], last, one)

    def _put(self) -> None:
        """Append the instructions for each row that begins and ends in the tile."""
        o = self._item("put_item", self.group_size)
        r = self._own_steps(f"{self.rows.row}_put", self.items, self.ending)
        self.around = (self.g, o, r)
        at = simplify(p.Sum((p.Product((self.group_size, r)), o)))
        is_row = p.Comparison(at, "<", self.ending)
        slot, item = self._temporary("slot", INT32), self._temporary("ended_by", INT32)
        begin = self._temporary("begin", INT32)
        self._set(slot, at + self.ends[at], when=[is_row])
        self._set(item, p.FloorDiv(slot, self.items), when=[is_row])
        is_later = p.Comparison(at, ">", 0)
        self._set(begin, p.If(is_later, at + self.ends[at + -1], 0), when=[is_row])
        goes_on = p.Comparison(begin, "<", p.Product((self.items, item)))
        for parts in self.parts:
            own = [x[slot] for x in parts.stored]
            both = parts.combine([x[item + -1] for x in parts.upto], own)
            values = [p.If(goes_on, a, b) for a, b in zip(both, own, strict=True)]
            self._set_all(parts.found, values, when=[is_row])
            is_first = [is_row, p.Comparison(at, "==", 0)]
            self._set_all([x[self.g] for x in parts.head], parts.found, when=is_first)
        began_here = p.Comparison(self.rows.start(self.row0), "==", self.entry0)
        self._finish(self.row0 + at, [is_row, p.LogicalOr((is_later, began_here))])

    # -- rows of several tiles ----------------------------------------------------------------

    def _finish_split_rows(self) -> None:
        """Append the instructions for the row that began in an earlier tile, if it ends here."""
        start, tile = self.rows.start, self.tile
        outer = self._row_loop(
            "late", f"0 <= $ and {tile * self.late}*$ {self.in_merge}", GroupInameTag(0)
        )
        inner = self._row_loop("late_inner", f"0 <= $ < {self.late}", LocalInameTag(1))
        self.around = (outer, inner)
        h = simplify(p.Sum((p.Product((self.late, outer)), inner)))
        row = self._private("late_row", self.index, self.of_tile[h])
        begun = _wide(row) + start(row) - start(0)
        is_late = self._private(
            "is_late",
            BOOL8,
            _all(
                p.Comparison(self.of_tile[h + 1], ">", row),
                p.Comparison(begun, "<", p.Product((tile, _wide(h)))),
            ),
        )
        first = self._private("from", self.index, p.If(is_late, p.FloorDiv(begun, tile), h))
        count = self._private("behind", self.index, h - first)
        turn = str(self.new_name(f"{self.k}_late"))
        lane = str(self.new_name(f"{self.k}_late_item"))
        fits = f"0 <= {turn} and 0 <= {lane} < {self.lanes}"
        each = f"{self.lanes}*{turn} + {lane}"
        self.domains.append(parse_domain(f"{{ [{turn}, {lane}]: {fits} and {each} < {count} }}"))
        self.inames |= {turn: Iname(turn), lane: Iname(lane, frozenset([LocalInameTag(0)]))}
        at = simplify(first + p.Product((self.lanes, p.Variable(turn))) + p.Variable(lane))
        for parts in self.parts:
            carries = tuple(x[at] for x in parts.carry)
            operation = parts.total.reduction.operation
            self._reduce(parts.found, operation, (turn, lane), carries)
        one = self._item("late_one", 1)
        self.around = (outer, inner, one)
        for parts in self.parts:
            found = parts.combine(parts.found, [x[h] for x in parts.head])
            self._set_new(parts.found, found, when=[is_late])
        self._finish(row, [is_late])

    def _reduce(
        self,
        places: Sequence[Expr],
        operation: Any,
        inames: tuple[str, ...],
        operands: tuple[Expr, ...],
    ) -> None:
        if len(places) == 1:
            self._set(places[0], Reduction(operation, inames, operands[0]))
            return
        insn = CallInstruction(
            tuple(places),
            Reduction(operation, inames, operands),
            id=self.new_id(assignee_name(places[0])),
            within_inames=frozenset(loop.name for loop in self.around),
            within_inames_is_final=True,
        )
        self._append(insn)

    # -- the instructions of rows ---------------------------------------------------------------

    def _finish(self, number: Expr, when: Sequence[Expr]) -> None:
        """Append the instructions of a row after its totals are computed."""
        inames = frozenset(loop.name for loop in self.around)
        finished = _Finished(self.rows, self.parts, simplify(p.Sum((self.rows.first, number))))
        for insn in self.rows.results:
            for new in finished.of(insn):
                name = self.new_id(str(insn.id))
                self.copies[str(insn.id)].append(str(name))
                self._append(
                    new.copy(
                        id=name,
                        within_inames=inames,
                        within_inames_is_final=True,
                        predicates=new.predicates | frozenset(when),
                    )
                )

    def _finished(self) -> LoopKernel:
        """Return the kernel with the new instructions instead of the rows."""
        kernel, rows = self.kernel, self.rows
        others = [self._waiting(i) for i in kernel.instructions if i.id not in rows.gone]
        at = next(n for n, insn in enumerate(kernel.instructions) if insn.id in rows.gone)
        before = sum(insn.id not in rows.gone for insn in kernel.instructions[:at])
        silenced = [f"write_race({name})" for names in self.copies.values() for name in names]
        result = kernel.copy(
            args=self._args(),
            instructions=(*others[:before], *self.instructions, *others[before:]),
            domains=(*kernel.domains, *self.domains),
            inames={**kernel.inames, **self.inames},
            temporary_variables={**kernel.temporary_variables, **self.temporaries},
            silenced_warnings=(*kernel.silenced_warnings, *silenced),
        )
        result = _without_unused(result, [self.k, rows.row])
        size = min(self.group_size, _SEARCHING) if self.group_size > 1 else _SEARCHING
        result = split_iname(result, self.searching, size, outer_tag="g.0", inner_tag="l.0")
        # a scan over work-items; targets without work-items run them sequentially
        apart = kernel.target.with_work_items() if not kernel.target.has_work_items else None
        scanned = result.copy(target=apart or kernel.target)
        scanned = realize_reduction(scanned, insn_id_filter=self.scans, force_scan=True)
        return scanned.copy(target=kernel.target)

    def _args(self) -> tuple[ArrayArg | ValueArg, ...]:
        """Return the arguments; the length of an array with an element for each entry is one."""
        args, size = tuple(self.kernel.args), self.rows.most
        if self.rows.sized is None:
            return args
        sized = [arg.copy(shape=(size,)) if arg.name == self.rows.sized else arg for arg in args]
        return (*sized, ValueArg(to_text(size), self.index))

    def _waiting(self, insn: InstructionBase) -> InstructionBase:
        """Make instructions that depended on a row depend on all rows."""
        if insn.depends_on.isdisjoint(self.rows.gone):
            return insn
        return insn.copy(depends_on=insn.depends_on - self.rows.gone | self.last)


class _Finished(SubstitutionMapper):
    """Replaces totals by their accumulators, and the loop over rows by a row number."""

    def __init__(self, rows: Rows, parts: Sequence[_Parts], row: Expr) -> None:
        super().__init__({rows.row: row})
        self.values = {part.total.reduction: part.results() for part in parts}

    def map_reduction(self, expr: Reduction, *args: Any, **kwargs: Any) -> Expr:
        found = self.values.get(expr)
        return super().map_reduction(expr, *args, **kwargs) if found is None else found[0]

    def of(self, insn: InstructionBase) -> list[InstructionBase]:
        """Return an instruction of a row; one for each result where a total has several."""
        if not isinstance(insn, CallInstruction) or insn.expression not in self.values:
            return [insn.with_transformed_expressions(self)]
        pairs = zip(insn.assignees, self.values[insn.expression], strict=True)
        return [Assignment(self(place), value, id=insn.id) for place, value in pairs]


def _without_unused(kernel: LoopKernel, inames: Sequence[str]) -> LoopKernel:
    """Remove loops and temporaries that are not used any more."""
    for name in inames:
        if name in kernel.inames:
            kernel = remove_unused_inames(kernel, [name])
    used = {*kernel.writers, *kernel.readers, *kernel.bounding_names}
    temporaries = {n: t for n, t in kernel.temporary_variables.items() if n in used}
    return kernel.copy(temporary_variables=temporaries)
