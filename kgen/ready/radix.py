"""One pass of a radix sort: elements are moved by the value of some bits of their keys.

Each work-group counts the keys of its elements by these bits, its *digits*; a scan of all counts,
the digit first and the group second, says where each group puts the elements of each digit; then
each group moves its elements, in their order. So elements of equal digits keep their order, and
passes from the lowest to the highest digit sort. M. Zagha, G. Blelloch: Radix sort for vector
multiprocessors, Supercomputing 1991.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kgen.frontend import make_kernel
from kgen.ir.data import GlobalArg, SubstitutionRule, TemporaryVariable, ValueArg
from kgen.ir.expr import Expr
from kgen.ir.language.expressions import parse
from kgen.ir.target import TargetBase
from kgen.ir.types import AddressSpace
from kgen.ir.unit import TranslationUnit
from kgen.ready.c_text import CArgument
from kgen.ready.indices import assumptions
from kgen.transforms.loops.tag import prioritize_loops, tag_inames
from kgen.transforms.reductions.realize import realize_reduction

__all__ = ["RadixPass"]


@dataclass(frozen=True)
class RadixPass:
    """A pass for keys that are an expression of ``i``, of an unsigned type.

    ``moved`` are the arguments whose elements are moved, to arrays of their names with ``_out``.
    """

    name: str
    key: Expr
    key_dtype: np.dtype[Any]
    moved: tuple[CArgument, ...]
    declared: tuple[Any, ...] = field(compare=False)

    def build_on_host(
        self, target: TargetBase, *, bits: int, index_dtype: Any, chunk: int = 32768
    ) -> TranslationUnit:
        """Return all of the pass for a host, where a thread has *chunk* elements at a time."""
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
                *self._arguments(index_dtype),
                _temporary(
                    "counts", index_dtype, (2**bits, f"(n + {chunk - 1})//{chunk}"), "GLOBAL"
                ),
                _temporary("own, own_move", index_dtype, (2**bits,)),
                _temporary("total, old, to", index_dtype),
                _temporary("at, at_move", np.int32),
            ],
            **self._settings(target, bits, index_dtype),
        )
        knl = tag_inames(knl, {"g": "g.0", "g_move": "g.0", "alone": "g.0"})
        return prioritize_loops(knl, "d, other")

    def build_count(
        self,
        target: TargetBase,
        *,
        bits: int,
        index_dtype: Any,
        group_size: int = 128,
        items: int = 16,
    ) -> TranslationUnit:
        """Return what counts the digits of the groups of a GPU, digit by digit."""
        tile = group_size * items
        groups = f"floor((n + {tile - 1})/{tile})"
        here = f"{tile}*g + {group_size}*e + l"
        knl = make_kernel(
            [
                f"{{ [g]: 0 <= g < {groups} }}",
                f"{{ [l]: 0 <= l < {group_size} }}",
                f"{{ [e]: 0 <= e < {items} and {here} < n }}",
                f"{{ [clear]: 0 <= clear < {2**bits} }}",
                f"{{ [store]: 0 <= store < {2**bits} }}",
            ],
            f"""
            own[clear] = 0                          {{id=clear, inames=g:clear}}
            at = digit({here})                      {{id=at, inames=g:l:e}}
            own[at] = own[at] + 1                   {{id=count, inames=g:l:e, dep=at:clear, atomic}}
            counts[store*n_groups + g] = own[store] {{id=store, inames=g:store, dep=count}}
            """,
            [
                *self._arguments(index_dtype, is_moved=False),
                ValueArg("n_groups", index_dtype),
                GlobalArg("counts", index_dtype, shape=None),
                _temporary("own", np.int32, (2**bits,), "LOCAL"),
                _temporary("at", np.int32),
            ],
            **self._settings(target, bits, index_dtype, "_count", races=["store"]),
        )
        tags = {"g": "g.0", "l": "l.0", "clear": "l.0", "store": "l.0"}
        return tag_inames(knl, tags)

    def build_move(
        self,
        target: TargetBase,
        *,
        bits: int,
        index_dtype: Any,
        group_size: int = 128,
        items: int = 16,
    ) -> TranslationUnit:
        """Return what moves the elements of the groups of a GPU, by the scanned counts.

        A work-item has *items* consecutive elements. It counts their digits in a column of its own
        of a table in local memory; a scan of the table, the digit first and the work-item second,
        says where it puts them in the group.
        """
        tile, digits = group_size * items, 2**bits
        groups = f"floor((n + {tile - 1})/{tile})"
        here = f"{tile}*g + {items}*l + e"
        at_source = f"source // {group_size}, source % {group_size}"
        step = f"({digits}*lane + q)"
        knl = make_kernel(
            [
                f"{{ [g]: 0 <= g < {groups} }}",
                f"{{ [l, lane]: 0 <= l, lane < {group_size} }}",
                f"{{ [e]: 0 <= e < {items} and {here} < n }}",
                f"{{ [e_move]: 0 <= e_move < {items} and {here.replace('+ e', '+ e_move')} < n }}",
                f"{{ [clear, q]: 0 <= clear, q < {digits} }}",
                f"{{ [source]: 0 <= source < {digits}*lane + q }}",
                f"{{ [first]: 0 <= first < {digits} }}",
            ],
            f"""
            table[clear, l] = 0                    {{id=clear, inames=g:l:clear}}
            at = digit({here})                     {{id=at, inames=g:l:e, dep=clear}}
            table[at, l] = table[at, l] + 1        {{id=count, inames=g:l:e, dep=at:clear}}
            place[{step} // {group_size}, {step} % {group_size}] = \
                sum(source, table[{at_source}])    {{id=scan, inames=g:lane:q, dep=count}}
            start[first] = offsets[first*n_groups + g] - place[first, 0] \
                                                   {{id=start, inames=g:first, dep=scan}}
            at_move = digit({here.replace("+ e", "+ e_move")}) \
                                                   {{id=at_move, inames=g:l:e_move, dep=start}}
            rank = place[at_move, l]               {{id=rank, inames=g:l:e_move, dep=at_move:scan}}
            place[at_move, l] = rank + 1           {{id=next, inames=g:l:e_move, dep=rank:start}}
            to = start[at_move] + rank             {{id=to, inames=g:l:e_move, dep=rank:start}}
            {self._moves(here.replace("+ e", "+ e_move"), "inames=g:l:e_move, dep=to")}
            """,
            [
                *self._arguments(index_dtype),
                ValueArg("n_groups", index_dtype),
                GlobalArg("offsets", index_dtype, shape=None),
                _temporary("table, place", np.int32, (digits, group_size), "LOCAL"),
                _temporary("start", index_dtype, (digits,), "LOCAL"),
                _temporary("to", index_dtype),
                _temporary("at, at_move, rank", np.int32),
            ],
            **self._settings(target, bits, index_dtype, "_move"),
        )
        tags = {"g": "g.0", "l": "l.0", "lane": "l.0", "first": "l.0"}
        return realize_reduction(tag_inames(knl, tags), force_scan=True)

    # -- what all kernels have ----------------------------------------------------------------

    def _moves(self, source: str, options: str) -> str:
        return "\n".join(
            f"{one.name}_out[to] = {one.name}[{source}]    {{id=move_{one.name}, {options}}}"
            for one in self.moved
        )

    def _arguments(self, index_dtype: Any, *, is_moved: bool = True) -> list[Any]:
        moved = [
            GlobalArg(f"{one.name}_out", one.dtype, shape="n", is_input=False)
            for one in self.moved
            if is_moved
        ]
        numbers = [ValueArg("shift", self.key_dtype), ValueArg("flipped", self.key_dtype)]
        return [*self.declared, *moved, *numbers, ValueArg("n", index_dtype)]

    def _settings(
        self,
        target: TargetBase,
        bits: int,
        index_dtype: Any,
        suffix: str = "",
        races: Sequence[str] = (),
    ) -> dict[str, Any]:
        """Return arguments of make_kernel. No two elements are moved to one place."""
        key = SubstitutionRule("key", ("i",), self.key)
        digit = f"cast(np.int32, ((key(i) ^ flipped) >> shift) & {2**bits - 1})"
        return {
            "name": f"{self.name}{suffix}",
            "target": target,
            "index_dtype": index_dtype,
            "assumptions": assumptions(["n"], index_dtype),
            "substitutions": {
                "key": key,
                "digit": SubstitutionRule("digit", ("i",), parse(digit)),
            },
            "silenced_warnings": [
                *(f"write_race(move_{one.name})" for one in self.moved),
                *(f"write_race({name})" for name in races),
            ],
        }


def _temporary(names: str, dtype: Any, shape: Any = (), space: str = "PRIVATE") -> Any:
    return TemporaryVariable(names, dtype, shape=shape, address_space=getattr(AddressSpace, space))
