"""One pass of a radix sort: elements are moved according to some bits of their keys.

Each work-group counts the keys of its elements by these bits, its *digits*; a scan of all counts,
the digit first and the group second, gives the place of the elements of each digit of each group;
then each group moves its elements, in order. So elements of equal digits keep their order, and
passes from the lowest to the highest digit sort. M. Zagha, G. Blelloch: Radix sort for vector
multiprocessors, Supercomputing 1991.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

import numpy as np

from kgen.errors import KernelError
from kgen.frontend import make_kernel
from kgen.ir.data import GlobalArg, SubstitutionRule, TemporaryVariable, ValueArg
from kgen.ir.expr import Expr
from kgen.ir.language.expressions import parse
from kgen.ir.target import TargetBase
from kgen.ir.types import AddressSpace
from kgen.ir.unit import TranslationUnit
from kgen.ready.c_text import CArgument
from kgen.ready.indices import assumptions
from kgen.ready.structures import declarations
from kgen.ready.tuned import defaults_of
from kgen.transforms.loops.split import split_iname
from kgen.transforms.loops.tag import prioritize_loops, tag_inames
from kgen.transforms.reductions.realize import realize_reduction

__all__ = ["RadixPass", "temporary"]

#: The factor by which a digit is packed above a place of its tile, in one number.
_PLACES: Final = 2**16
#: Parameters of all passes that are not part of a schedule.
_GENERAL: Final = frozenset(("bits", "index_dtype"))
#: A group has fewer elements: their places are signed 16-bit integers.
_LARGEST: Final = 2**15
#: The number of bits by which a group sorts at a time.
_SPLIT_BITS: Final = 4
_SPLIT_ROWS: Final = 2**_SPLIT_BITS
#: The number of counts of a digit that a work-item scans at a time.
_SCANNED: Final = 8
#: Local memory of a group in bytes, and the bytes of scans and tables per work-item.
_LOCAL_MEMORY: Final = 48 * 1024 - 64
_PER_ITEM: Final = 58


@dataclass(frozen=True)
class RadixPass:
    """A pass for keys that are an expression of ``i``, of an unsigned type.

    ``moved`` are the arguments whose elements are moved, to arrays with the suffix ``_out``.
    """

    name: str
    key: Expr
    key_dtype: np.dtype[Any]
    moved: tuple[CArgument, ...]
    declared: tuple[Any, ...] = field(compare=False)
    #: The sort key as an unsigned number: negative keys first.
    bits_of_key: ClassVar[str] = "key(i) ^ flipped"

    def build(self, target: TargetBase, *, is_gpu: bool, **options: Any) -> TranslationUnit:
        """Return the kernel of the pass, for a GPU or a host."""
        make: Callable[..., TranslationUnit] = self.build_on_gpu if is_gpu else self.build_on_host
        known = inspect.signature(make).parameters
        for name in options.keys() - known.keys():
            raise KernelError(
                f"'{name}' is not a parameter of a schedule on a {'GPU' if is_gpu else 'host'}",
                kernel=self.name,
                hint="the parameters are "
                f"{', '.join(sorted(known.keys() - {'target', *_GENERAL}))}",
            )
        return make(target, **options)

    def schedule(self, *, is_gpu: bool) -> dict[str, int]:
        """Return the usual parameters of a schedule."""
        if is_gpu:
            return defaults_of(self.build_on_gpu, "group_size", "items")
        return defaults_of(self.build_on_host, "chunk")

    def build_on_host(
        self, target: TargetBase, *, bits: int, index_dtype: Any, chunk: int = 32768
    ) -> TranslationUnit:
        """Return the pass for a host, where a thread processes *chunk* elements at a time."""
        groups = f"floor((n + {chunk - 1})/{chunk})"
        here, there = f"{chunk}*g + e", f"{chunk}*g_move + e_move"
        knl = make_kernel(
            [
                f"{{ [g]: 0 <= g < {groups} }}",
                f"{{ [e]: 0 <= e < {chunk} and {here} < n }}",
                f"{{ [g_move]: 0 <= g_move < {groups} }}",
                f"{{ [e_move]: 0 <= e_move < {chunk} and {there} < n }}",
                f"{{ [clear, store, fetch, d]: 0 <= clear, store, fetch, d < {2**bits} }}",
                f"{{ [other]: 0 <= other < {groups} }}",
                "{ [alone]: alone = 0 }",
            ],
            f"""
            own[clear] = 0                             {{id=clear, inames=g:clear}}
            at = digit({here})                         {{id=at, inames=g:e, dep=clear}}
            own[at] = own[at] + 1                      {{id=count, inames=g:e, dep=at:clear}}
            counts[store, g] = own[store]              {{id=store, inames=g:store, dep=count}}
            ... gbarrier                               {{id=counted, dep=store}}
            total = 0                                  {{id=zero, inames=alone, dep=counted}}
            old = counts[d, other]                     {{id=old, inames=alone:d:other, dep=zero}}
            counts[d, other] = total                   {{id=before, inames=alone:d:other, dep=old}}
            total = total + old                        {{id=add, inames=alone:d:other, dep=before}}
            ... gbarrier                               {{id=scanned, dep=add}}
            own_move[fetch] = counts[fetch, g_move]  {{id=fetch, inames=g_move:fetch, dep=scanned}}
            at_move = digit({there})                 {{id=at_move, inames=g_move:e_move, dep=fetch}}
            to = own_move[at_move]                     {{id=to, inames=g_move:e_move, dep=at_move}}
            own_move[at_move] = to + 1                 {{id=next, inames=g_move:e_move, dep=to}}
            {self._moves(there, "inames=g_move:e_move, dep=to")}
            """,
            [
                *self._arguments(bits, index_dtype),
                temporary(
                    "counts", index_dtype, (2**bits, f"(n + {chunk - 1})//{chunk}"), "GLOBAL"
                ),
                temporary("own, own_move", index_dtype, (2**bits,)),
                temporary("total, old, to", index_dtype),
                temporary("at, at_move", np.int32),
            ],
            **self._settings(target, bits, index_dtype),
        )
        knl = tag_inames(knl, {"g": "g.0", "g_move": "g.0", "alone": "g.0"})
        return prioritize_loops(knl, "d, other")

    def build_on_gpu(
        self,
        target: TargetBase,
        *,
        bits: int,
        index_dtype: Any,
        group_size: int = 256,
        items: int = 13,
    ) -> TranslationUnit:
        """Return the pass for a GPU, where each work-item has *items* elements.

        In the first launch, each group counts the digits of its elements. In the second one, there
        is a group for each digit, which scans its counts. In the third one, a group sorts the
        places of its elements in local memory, by four bits at a time: each work-item has *items*
        consecutive places, and counts their digits in its own column of a table; a scan of the
        table, the digit first and the work-item second, gives their new places. Then adjacent
        work-items move elements of one digit to adjacent places.
        """
        tile, digits, row = group_size * items, 2**bits, _SPLIT_ROWS
        if group_size % row or not 0 < tile < _LARGEST:
            raise KernelError(
                f"groups of {group_size} work-items have {items} elements each",
                kernel=self.name,
                because=f"a group sorts fewer than {_LARGEST} elements, by multiples of {row} "
                "work-items",
                hint='schedule={"group_size": 256, "items": 13}',
            )
        groups, base = f"floor((n + {tile - 1})/{tile})", f"{tile}*g"
        counted = f"{tile}*g_count + {group_size}*e_count + l_count"
        here, at_out = f"{group_size}*e + l", f"{group_size}*e_out + l"
        at_first = f"{group_size}*e_first + l"
        per_digit = 4 * np.dtype(index_dtype).itemsize
        used = 4 * tile + _PER_ITEM * group_size + per_digit * digits
        staged = self._staged(tile, _LOCAL_MEMORY - used)
        stages = "\n".join(
            f"value_{one.name}[{here}] = {one.name}[{base} + {here}] "
            f"{{id=stage_{one.name}, inames=g:l:e, dep=scanned, if={base} + {here} < n}}"
            for one in staged
        )
        splits = [_Split(k, shift, items) for k, shift in enumerate(range(0, bits, _SPLIT_BITS))]
        sorted_by = splits[-1].last
        behind = f"to:{sorted_by}*" + (":stage_*" if staged else "")
        moves = "\n".join(
            f"{one.name}_out[to] = {self._source(one, staged, base)} "
            f"{{id=move_{one.name}, inames=g:l:e_out, dep={behind}, "
            f"if={base} + {at_out} < n}}"
            for one in self.moved
        )
        knl = make_kernel(
            [
                f"{{ [g_count]: 0 <= g_count < {groups} }}",
                f"{{ [l_count]: 0 <= l_count < {group_size} }}",
                f"{{ [e_count]: 0 <= e_count < {items} }}",
                f"{{ [clear, store, d, d_all]: 0 <= clear, store, d, d_all < {digits} }}",
                "{ [d_before]: 0 <= d_before < d_all }",
                f"{{ [h]: 0 <= h < {groups} }}",
                "{ [h_before]: 0 <= h_before < h }",
                f"{{ [g]: 0 <= g < {groups} }}",
                f"{{ [l]: 0 <= l < {group_size} }}",
                f"{{ [e, e_first, e_out]: 0 <= e, e_first, e_out < {items} }}",
                *(domain for split in splits for domain in split.domains(group_size)),
            ],
            f"""
            own[clear] = 0                         {{id=clear, inames=g_count:clear}}
            if {counted} < n
                at = digit({counted})              {{id=at, inames=g_count:l_count:e_count}}
                own[at] = own[at] + 1 \
                           {{id=count, inames=g_count:l_count:e_count, dep=at:clear, atomic}}
            end
            counts[store, g_count] = own[store]    {{id=store, inames=g_count:store, dep=count}}
            ... gbarrier                           {{id=counted, dep=store}}
            sum_before = sum(h_before, counts[d, h_before]) {{id=upto, inames=d:h, dep=counted}}
            offsets[d, h] = sum_before             {{id=offset, inames=d:h, dep=upto}}
            totals[d] = sum_before + counts[d, h] \
                           {{id=total, inames=d:h, dep=upto, if={tile}*h + {tile} >= n}}
            ... gbarrier                           {{id=scanned, dep=offset:total}}
            bases[d_all] = sum(d_before, totals[d_before]) {{id=base, inames=g:d_all, dep=scanned}}
            {stages}
            here = digit({base} + {here}) if {base} + {here} < n else {digits - 1} \
                                                    {{id=here, inames=g:l:e, dep=scanned}}
            order[{here}] = cast(np.uint32, here)*{_PLACES} + {here} \
                                                    {{id=order, inames=g:l:e, dep=here}}
            {"".join(split.text(group_size) for split in splits)}
            mine = order[{at_first}] // {_PLACES} {{id=mine, inames=g:l:e_first, dep={sorted_by}}}
            before = order[{at_first} - 1] // {_PLACES} if {at_first} > 0 else {digits} \
                                      {{id=before, inames=g:l:e_first, dep={sorted_by}}}
            if mine != before
                start[mine] = offsets[mine, g] + bases[mine] - ({at_first}) \
                                      {{id=start, inames=g:l:e_first, dep=mine:before:base}}
            end
            found = order[{at_out}] {{id=found, inames=g:l:e_out, dep={sorted_by}}}
            to = start[found // {_PLACES}] + {at_out} {{id=to, inames=g:l:e_out, dep=found:start}}
            {moves}
            """,
            [
                *self._arguments(bits, index_dtype),
                temporary("own", np.int32, (digits,), "LOCAL"),
                temporary("at", np.int32),
                temporary(
                    "counts, offsets", index_dtype, (digits, f"(n + {tile - 1})//{tile}"), "GLOBAL"
                ),
                temporary("totals", index_dtype, (digits,), "GLOBAL"),
                temporary("bases, start", index_dtype, (digits,), "LOCAL"),
                temporary("sum_before, to", index_dtype),
                temporary("order", np.uint32, (tile,), "LOCAL"),
                *(temporary(f"value_{x.name}", x.dtype, (tile,), "LOCAL") for x in staged),
                temporary("here", np.int32),
                temporary("mine, before, found", np.uint32),
                # rows are padded by one element to avoid bank conflicts
                temporary("table", np.int16, (row, group_size // row, row + 1), "LOCAL"),
                temporary("all, upto", np.int32, (group_size,), "LOCAL"),
                *(one for split in splits for one in split.temporaries()),
            ],
            **self._settings(
                target,
                bits,
                index_dtype,
                races=["start", "total", *(split.last for split in splits)],
            ),
        )
        for iname in ("clear", "store", "d_all"):
            knl = split_iname(knl, iname, group_size, inner_tag="l.0")
        knl = split_iname(knl, "h", group_size * _SCANNED)
        knl = split_iname(knl, "h_inner", _SCANNED, outer_tag="l.0")
        lanes = [name for split in splits for name in split.lanes]
        knl = tag_inames(knl, dict.fromkeys(["l_count", "l", *lanes], "l.0"))
        knl = tag_inames(knl, {"g_count": "g.0", "d": "g.0", "g": "g.0"})
        scans = ["upto", "base", *(split.scan for split in splits)]
        return realize_reduction(knl, insn_id_filter=scans, force_scan=True)

    def _staged(self, tile: int, room: int) -> tuple[CArgument, ...]:
        """Return the arrays whose elements fit together in a number of bytes of local memory."""
        found = []
        for one in self.moved:
            size = tile * one.dtype.itemsize
            if size <= room:
                found.append(one)
                room -= size
        return tuple(found)

    def _source(self, one: CArgument, staged: Sequence[CArgument], base: str) -> str:
        place = f"cast(np.int32, found % {_PLACES})"
        return f"value_{one.name}[{place}]" if one in staged else f"{one.name}[{base} + {place}]"

    # -- common parts of all kernels -------------------------------------------------------------

    def _moves(self, source: str, options: str) -> str:
        return "\n".join(
            f"{one.name}_out[to] = {one.name}[{source}]    {{id=move_{one.name}, {options}}}"
            for one in self.moved
        )

    def _arguments(self, bits: int, index_dtype: Any) -> list[Any]:
        moved = [
            GlobalArg(f"{one.name}_out", one.dtype, shape="n", is_input=False) for one in self.moved
        ]
        numbers = [ValueArg("shift", self.key_dtype), ValueArg("flipped", self.key_dtype)]
        return [*self.declared, *moved, *numbers, ValueArg("n", index_dtype)]

    def _settings(
        self,
        target: TargetBase,
        bits: int,
        index_dtype: Any,
        races: Sequence[str] = (),
    ) -> dict[str, Any]:
        """Return arguments of make_kernel. No two elements are moved to the same place."""
        rules = {
            "key": self.key,
            "bits": parse(self.bits_of_key),
            "digit": parse(f"cast(np.int32, (bits(i) >> shift) & {2**bits - 1})"),
        }
        return {
            "name": self.name,
            "target": target,
            "index_dtype": index_dtype,
            "assumptions": assumptions(["n"], index_dtype),
            "preambles": declarations(target, [one.dtype.numpy_dtype for one in self.declared]),
            "substitutions": {
                name: SubstitutionRule(name, ("i",), rule) for name, rule in rules.items()
            },
            "silenced_warnings": [
                *(f"write_race(move_{one.name})" for one in self.moved),
                *(f"write_race({name})" for name in races),
            ],
        }


@dataclass(frozen=True)
class _Split:
    """The step of a sort in local memory, by a few bits of digits; *number* ends its names."""

    number: int
    shift: int
    items: int

    @property
    def scan(self) -> str:
        """The instruction that scans."""
        return f"upto_{self.number}"

    @property
    def last(self) -> str:
        """The instruction that stores the places, sorted."""
        return f"put_{self.number}"

    @property
    def lanes(self) -> list[str]:
        """The loops over work-items."""
        return [f"lane_{self.number}"]

    def domains(self, group_size: int) -> list[str]:
        """Return the loops."""
        k, row = self.number, _SPLIT_ROWS
        return [
            f"{{ [clear_{k}, q_{k}, q_own_{k}]: 0 <= clear_{k}, q_{k}, q_own_{k} < {row} }}",
            f"{{ [take_{k}, tally_{k}]: 0 <= take_{k}, tally_{k} < {self.items} }}",
            f"{{ [e_put_{k}]: 0 <= e_put_{k} < {self.items} }}",
            f"{{ [lane_{k}]: 0 <= lane_{k} < {group_size} }}",
            f"{{ [j_{k}]: 0 <= j_{k} <= lane_{k} }}",
        ]

    def temporaries(self) -> list[Any]:
        """Return the temporaries that only the instructions of this step use."""
        k = self.number
        return [
            temporary(f"taken_{k}", np.uint32, (self.items,)),
            temporary(f"at_{k}, at_put_{k}, own_{k}, next_{k}, old_{k}, rank_{k}", np.int32),
        ]

    def text(self, group_size: int) -> str:
        """Return the instructions.

        All places are read before any is counted, so that their latencies overlap.
        """
        k, row = self.number, _SPLIT_ROWS
        mine = f"l // {row}, l % {row}"
        per = group_size // row
        q_own = f"l // {per}, l % {per}, q_own_{k}"
        q_next = f"l // {per}, l % {per}, q_{k}"
        bits = f"// {_PLACES * 2**self.shift} % {row}"
        before = "order" if k == 0 else f"put_{k - 1}"
        return f"""
            table[clear_{k}, {mine}] = 0 {{id=clear_{k}, inames=g:l:clear_{k}, dep={before}}}
            taken_{k}[take_{k}] = order[{self.items}*l + take_{k}] \
                                {{id=take_{k}, inames=g:l:take_{k}, dep={before}}}
            at_{k} = cast(np.int32, taken_{k}[tally_{k}] {bits}) \
                                {{id=at_{k}, inames=g:l:tally_{k}, dep=take_{k}}}
            table[at_{k}, {mine}] = table[at_{k}, {mine}] + 1 \
                                {{id=count_{k}, inames=g:l:tally_{k}, dep=at_{k}:clear_{k}}}
            own_{k} = sum(q_own_{k}, cast(np.int32, table[{q_own}])) \
                                {{id=own_{k}, inames=g:l, dep=count_{k}}}
            all[l] = own_{k} {{id=all_{k}, inames=g:l, dep=own_{k}}}
            upto[lane_{k}] = sum(j_{k}, all[j_{k}]) \
                                {{id=upto_{k}, inames=g:lane_{k}, dep=all_{k}}}
            next_{k} = upto[l] - own_{k} {{id=next_{k}, inames=g:l, dep=upto_{k}}}
            old_{k} = table[{q_next}] {{id=old_{k}, inames=g:l:q_{k}, dep=next_{k}}}
            table[{q_next}] = next_{k} {{id=set_{k}, inames=g:l:q_{k}, dep=old_{k}}}
            next_{k} = next_{k} + old_{k} {{id=add_{k}, inames=g:l:q_{k}, dep=set_{k}}}
            at_put_{k} = cast(np.int32, taken_{k}[e_put_{k}] {bits}) \
                                {{id=at_put_{k}, inames=g:l:e_put_{k}, dep=add_{k}}}
            rank_{k} = table[at_put_{k}, {mine}] \
                                {{id=rank_{k}, inames=g:l:e_put_{k}, dep=at_put_{k}:add_{k}}}
            table[at_put_{k}, {mine}] = rank_{k} + 1 \
                                {{id=step_{k}, inames=g:l:e_put_{k}, dep=rank_{k}}}
            order[rank_{k}] = taken_{k}[e_put_{k}] \
                                {{id=put_{k}, inames=g:l:e_put_{k}, dep=step_{k}}}
            """


def temporary(names: str, dtype: Any, shape: Any = (), space: str = "PRIVATE") -> Any:
    """Declare temporaries of a kernel."""
    return TemporaryVariable(names, dtype, shape=shape, address_space=getattr(AddressSpace, space))
