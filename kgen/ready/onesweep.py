"""Radix sorts with one launch per pass, in which work-groups look back at preceding ones.

One kernel counts all digits of all keys, and computes where the elements of each digit begin. In a
pass, each work-group ranks its elements by a digit in local memory, and looks back at the counts of
each digit in preceding groups. A pass reads and writes each element once. A. Adinets, D. Merrill:
Onesweep, a faster least significant digit radix sort for GPUs, arXiv:2206.01784, 2022. If there are
few elements, one group sorts them by all digits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np
import pymbolic.primitives as p

from kgen.errors import KernelError
from kgen.frontend import make_kernel
from kgen.ir.callables import ScalarCallable
from kgen.ir.data import GlobalArg, SubstitutionRule, ValueArg
from kgen.ir.expr import substitute, walk
from kgen.ir.language.expressions import parse
from kgen.ir.tags import LookBackTag, PublishTag
from kgen.ir.target import WARP_SIZE, TargetBase
from kgen.ir.types import NumpyType
from kgen.ir.unit import TranslationUnit
from kgen.ready.radix import RadixPass, temporary
from kgen.transforms.loops.split import split_iname
from kgen.transforms.loops.tag import tag_inames
from kgen.transforms.programs.callables import register_callable
from kgen.transforms.reductions.look_back import entries_of
from kgen.transforms.reductions.realize import realize_reduction
from kgen.transforms.statements import tag_instructions

__all__ = ["MOST_BITS", "OneSweepPass", "group_alone"]

#: The bits of the largest digits.
MOST_BITS: Final = 8
#: The work-items of groups that sort alone, and the elements of each work-item.
_ALONE: Final = (512, 1024)
_ITEMS_ALONE: Final = 8
#: Local memory for the elements of a tile, in bytes, and the maximum number per work-item.
_ROOM: Final = 80 * 1024
_MOST_ITEMS: Final = 23
#: Registers of a multiprocessor, and of a work-item in addition to those for its elements.
_REGISTERS: Final = 2**16
_OTHER_REGISTERS: Final = 34

_RANK: Final = """\
// The rank of each lane's key among those with its digit: lanes in their order, behind what counts
// has of earlier ones. All lanes of a warp are here.
static __device__ inline int kgen_rank(int digit, int const *, int *counts)
{
  unsigned int const lane = threadIdx.x & 31;
  unsigned int same = 0xffffffffu;
  #pragma unroll
  for (int bit = 0; bit < %d; ++bit)
  {
    unsigned int const own = -(digit >> bit & 1);
    same &= ~(__ballot_sync(0xffffffffu, own) ^ own);
  }
  int const before = __popc(same & ((1u << lane) - 1));
  int old = 0;
  if (before == 0)
    old = atomicAdd(&counts[digit], __popc(same));
  return __shfl_sync(0xffffffffu, old, __ffs(same) - 1) + before;
}"""


#: The tags of the instructions that publish and read the counts of each digit.
_SHARED: Final = {
    "publish": PublishTag("before", is_total=True),
    "publish_upto": PublishTag("before", is_total=False),
    "other": LookBackTag("before", 1),
    "join": LookBackTag("before", 1),
}


@dataclass(frozen=True)
class _Rank(ScalarCallable):
    """Ranks the keys of a warp: ``rank, [b]: counts[b] = kgen_rank(digit, [b]: counts[b])``."""

    bits: int = MOST_BITS

    def with_types(
        self, arg_id_to_dtype: Mapping[int | str, Any], clbl_inf_ctx: Any
    ) -> tuple[ScalarCallable, Any]:
        """Return the function itself: all its types are ``int``."""
        integer = NumpyType(np.dtype(np.int32))
        return self.copy(arg_id_to_dtype=dict.fromkeys((0, 1, -1, -2), integer)), clbl_inf_ctx

    def generate_preambles(self, target: Any) -> Iterator[tuple[str, str]]:
        """Yield the function in CUDA C++."""
        yield self.name, _RANK % self.bits


def group_alone(size: int, key_bytes: int, local_memory: int) -> int | None:
    """Return the work-items of the group that sorts so few elements alone, if there is one.

    *local_memory*: the bytes of local memory that a group may have.

    >>> [group_alone(size, 4, 2**17) for size in (1000, 8192, 8193)]
    [512, 1024, None]
    """
    for group_size in _ALONE:
        tile = group_size * _ITEMS_ALONE
        tables = 4 * 2**MOST_BITS * (group_size // WARP_SIZE + 3)
        if size <= tile and tile * (key_bytes + 2) + tables <= local_memory:
            return group_size
    return None


def _first_places(loop: str) -> str:
    """Return instructions in a loop that turn the counts of warps into the places of their keys.

    *own* is the sum of the counts of a digit; *start* becomes the first place of its keys.
    """
    return f"""
            all[d] = own                           {{id=all, inames={loop}:d, dep=own}}
            first = sum(d_before, all[d_before])   {{id=first, inames={loop}:d, dep=all}}
            start = first - own                    {{id=start, inames={loop}:d, dep=first}}
            next = start                           {{id=next, inames={loop}:d, dep=start}}
            old = table[w_put, d]                  {{id=old, inames={loop}:d:w_put, dep=next}}
            table[w_put, d] = next                 {{id=set, inames={loop}:d:w_put, dep=old}}
            next = next + old                      {{id=step, inames={loop}:d:w_put, dep=set}}
            """


class OneSweepPass(RadixPass):
    """A pass for keys that are an expression of ``i``, in one launch on a GPU.

    *starts*, an argument, has the first place of the elements of each digit: a row of the result of
    :meth:`build_counts`.
    """

    #: Without the bits above those by which a call sorts.
    bits_of_key: ClassVar[str] = "(key(i) ^ flipped) & valid"

    def schedule(self, *, is_gpu: bool) -> dict[str, int]:
        """Return the usual parameters: as many elements as fit in local memory."""
        found = super().schedule(is_gpu=is_gpu)
        if not is_gpu:
            return found
        group_size = found["group_size"]
        items = self.items(group_size)
        return {**found, "items": items, "min_groups": self.min_groups(group_size, items)}

    def turns(self, bits: int) -> int:
        """Return the maximum number of digits of *bits* bits in a key."""
        return -(-8 * self.key_dtype.itemsize // bits)

    def build_counts(
        self,
        target: TargetBase,
        *,
        bits: int,
        index_dtype: Any,
        group_size: int = 256,
        groups: int = 1024,
    ) -> TranslationUnit:
        """Return the kernel that computes where the elements of each value of each digit begin.

        The first launch sets the counts to zero; in the second one, each group counts the digits of
        its keys in local memory; the third one scans the counts of each digit. The number of
        *groups* does not depend on the number of keys.
        """
        digits, turns, key_type = 2**bits, self.turns(bits), f"np.{self.key_dtype}"
        here = f"{group_size * groups}*e + {group_size}*g + l"
        digit_loops = "p_zero, p_clear, p, p_add, p_scan"
        knl = make_kernel(
            [
                f"{{ [{digit_loops}]: 0 <= {digit_loops} < {turns} }}",
                f"{{ [zero, clear, add, d]: 0 <= zero, clear, add, d < {digits} }}",
                "{ [before]: 0 <= before < d }",
                f"{{ [g, l]: 0 <= g < {groups} and 0 <= l < {group_size} }}",
                f"{{ [e]: 0 <= e and {here} < n }}",
            ],
            f"""
            counts[p_zero, zero] = 0           {{id=zero, inames=p_zero:zero}}
            ... gbarrier                       {{id=zeroed, dep=zero}}
            own[p_clear, clear] = 0            {{id=clear, inames=g:p_clear:clear, dep=zeroed}}
            found = bits({here})             {{id=found, inames=g:l:e, dep=zeroed}}
            at = cast(np.int32, found >> cast({key_type}, {bits}*p) & {digits - 1}) \
                                               {{id=at, inames=g:l:e:p, dep=found}}
            own[p, at] = own[p, at] + 1        {{id=count, inames=g:l:e:p, dep=at:clear, atomic}}
            mine = own[p_add, add]             {{id=mine, inames=g:p_add:add, dep=count}}
            if mine > 0
                counts[p_add, add] = counts[p_add, add] + mine \
                                               {{id=add, inames=g:p_add:add, dep=mine, atomic}}
            end
            ... gbarrier                       {{id=counted, dep=add}}
            starts[p_scan, d] = sum(before, counts[p_scan, before]) \
                                               {{id=scan, inames=p_scan:d, dep=counted}}
            """,
            [
                *self.declared,
                GlobalArg("starts", index_dtype, shape=(turns, digits), is_input=False),
                *(ValueArg(name, self.key_dtype) for name in ("flipped", "valid")),
                ValueArg("n", index_dtype),
                temporary("counts", index_dtype, (turns, digits), "GLOBAL"),
                temporary("own", np.int32, (turns, digits), "LOCAL"),
                temporary("found", self.key_dtype),
                temporary("at, mine", np.int32),
            ],
            **{**self._settings(target, bits, index_dtype), "name": f"{self.name}_counts"},
        )
        for iname in ("zero", "clear", "add"):
            knl = split_iname(knl, iname, group_size, inner_tag="l.0")
        tags = {"p_zero": "g.0", "p_scan": "g.0", "d": "l.0", "g": "g.0", "l": "l.0", "p": "unr"}
        return realize_reduction(tag_inames(knl, tags), insn_id_filter=["scan"], force_scan=True)

    def build_in_one_group(
        self, target: TargetBase, *, bits: int, index_dtype: Any, group_size: int = _ALONE[0]
    ) -> TranslationUnit:
        """Return the sort by *turns* digits, by one group, whose work-items have 8 elements each.

        Keys and the places that they come from stay in local memory; ranks are those of a pass.
        Keys that fill the tile up have the largest value, and are last.
        """
        tile, digits, warps = group_size * _ITEMS_ALONE, 2**bits, group_size // WARP_SIZE
        key_type, warp = f"np.{self.key_dtype}", f"l // {WARP_SIZE}"
        places = f"{WARP_SIZE * _ITEMS_ALONE}*({warp}) + {WARP_SIZE}*e + l % {WARP_SIZE}"
        here, first, out = places, places.replace("e ", "e_0 "), f"{group_size}*e_out + l"
        settings = self._settings(target, bits, index_dtype, races=["put", "put_from"])
        digit = f"cast(np.int32, (value >> cast({key_type}, {bits}*turn)) & {digits - 1})"
        settings["substitutions"]["digit"] = SubstitutionRule("digit", ("value",), parse(digit))
        settings["assumptions"] += f" and n <= {tile} and 1 <= turns <= {self.turns(bits)}"
        moves = "\n".join(
            f"{one.name}_out[{out}] = {one.name}[source[{out}]] "
            f"{{id=move_{one.name}, inames=l:e_out, dep=put_from, if={out} < n}}"
            for one in self.moved
        )
        knl = make_kernel(
            [
                "{ [turn]: 0 <= turn < turns }",
                f"{{ [l]: 0 <= l < {group_size} }}",
                f"{{ [e_0, e, r, e_put, e_out]: 0 <= e_0, e, r, e_put, e_out < {_ITEMS_ALONE} }}",
                f"{{ [d, clear, b]: 0 <= d, clear, b < {digits} }}",
                "{ [d_before]: 0 <= d_before <= d }",
                f"{{ [w_clear, w, w_put]: 0 <= w_clear, w, w_put < {warps} }}",
            ],
            f"""
            keys[{first}] = bits({first}) if {first} < n else valid {{id=key, inames=l:e_0}}
            source[{first}] = {first}              {{id=source, inames=l:e_0}}
            table[w_clear, clear] = 0              {{id=clear, inames=turn:clear:w_clear}}
            mine[e] = keys[{here}]                 {{id=mine, inames=turn:l:e, dep=key}}
            from[e] = source[{here}]               {{id=from, inames=turn:l:e, dep=source}}
            rank, [b]: table[{warp}, b] = kgen_rank(digit(mine[r]), [b]: table[{warp}, b]) \
                                                {{id=rank, inames=turn:l:r, dep=mine:clear, \
                                                nosync=rank}}
            spot[r] = rank                         {{id=spot, inames=turn:l:r, dep=rank}}
            own = sum(w, table[w, d])              {{id=own, inames=turn:d, dep=rank}}
            {_first_places("turn")}
            place = spot[e_put] + table[{warp}, digit(mine[e_put])] \
                                                {{id=place, inames=turn:l:e_put, dep=step:spot}}
            keys[place] = mine[e_put]       {{id=put, inames=turn:l:e_put, dep=place:mine}}
            source[place] = from[e_put]     {{id=put_from, inames=turn:l:e_put, dep=place:from}}
            {moves}
            """,
            [
                *self.declared,
                *(
                    GlobalArg(f"{one.name}_out", one.dtype, shape="n", is_input=False)
                    for one in self.moved
                ),
                *(ValueArg(name, self.key_dtype) for name in ("flipped", "valid")),
                ValueArg("turns", np.int32),
                ValueArg("n", index_dtype),
                temporary("keys", self.key_dtype, (tile,), "LOCAL"),
                temporary("source", np.int16, (tile,), "LOCAL"),
                temporary("table", np.int32, (warps, digits), "LOCAL"),
                temporary("all", np.int32, (digits,), "LOCAL"),
                temporary("mine", self.key_dtype, (_ITEMS_ALONE,)),
                temporary("from, spot", np.int32, (_ITEMS_ALONE,)),
                temporary("rank, own, first, start, next, old, place", np.int32),
            ],
            **settings,
        )
        knl = register_callable(knl, "kgen_rank", _Rank("kgen_rank", bits=bits))
        tags = {"l": "l.0", "clear": "l.0", "d": "l.0"}
        loops = ["e_0", "e", "r", "e_put", "e_out", "w_clear", "w_put"]
        knl = tag_inames(knl, tags | dict.fromkeys(loops, "unr_hint"))
        return realize_reduction(knl, insn_id_filter=["first"], force_scan=True)

    def build_on_gpu(
        self,
        target: TargetBase,
        *,
        bits: int,
        index_dtype: Any,
        group_size: int = 512,
        items: int | None = None,
        min_groups: int | None = None,
    ) -> TranslationUnit:
        """Return a pass: groups of *group_size* work-items, each of which has *items* elements.

        *min_groups* of them fit in the registers of a multiprocessor at once.

        Each warp has a part of the tile of its group, in which adjacent lanes have adjacent
        elements. A lane ranks its key among those of the warp with the same digit; their count so
        far is in a table in local memory. One work-item per digit adds up the counts of the warps,
        and publishes the sum. Then elements move to their places in the tile, in local memory. Only
        then do the work-items of digits look back at the counts of other groups, which are
        available by then. Adjacent work-items move elements of one digit to adjacent places.
        """
        items = self.items(group_size) if items is None else items
        tile, digits, warps = group_size * items, 2**bits, group_size // WARP_SIZE
        if group_size % WARP_SIZE or group_size < digits or items < 1:
            raise KernelError(
                f"groups of {group_size} work-items have {items} elements each",
                kernel=self.name,
                because=f"groups have whole warps of {WARP_SIZE} work-items, one or more for each "
                f"of {digits} digits",
                hint='schedule={"group_size": 256, "items": 15}',
            )
        groups = f"(n + {tile - 1})//{tile}"
        entries = entries_of(NumpyType(np.dtype(index_dtype)))
        warp = f"l // {WARP_SIZE}"
        here = f"{WARP_SIZE * items}*({warp}) + {WARP_SIZE}*e + l % {WARP_SIZE}"
        put = here.replace("e ", "e_put ")
        out = f"{group_size}*e_out + l"
        staged = [(f"value_{x.name}", f"{x.name}[{tile}*g + {put}]", x.dtype) for x in self.moved]
        digit_there = self._digit_in_tile(bits)
        if digit_there is None:
            staged.append(("digit_there", "spot[e_put] >> 16", np.dtype(np.uint8)))
        stages = "\n".join(
            f"{name}[place] = {source} "
            f"{{id=stage_{name}, inames=g:l:e_put, dep=place, if={tile}*g + {put} < n}}"
            for name, source, _ in staged
        )
        found = f"digit_there[{out}]" if digit_there is None else f"digit_there({out})"
        moves = "\n".join(
            f"{one.name}_out[to] = value_{one.name}[{out}] "
            f"{{id=move_{one.name}, inames=g:l:e_out, dep=to:stage_value_{one.name}, "
            f"if={tile}*g + {out} < n}}"
            for one in self.moved
        )
        races = [f"stage_{name}" for name, _, _ in staged]
        min_groups = self.min_groups(group_size, items) if min_groups is None else min_groups
        settings = self._settings(
            target.having(min_groups=min_groups), bits, index_dtype, races=races
        )
        settings["substitutions"] |= digit_there or {}
        settings["assumptions"] += f" and 0 <= shift < {bits * self.turns(bits)}"
        knl = make_kernel(
            [
                f"{{ [g]: 0 <= g < floor((n + {tile - 1})/{tile}) }}",
                "{ [h]: 0 <= h < g }",
                f"{{ [l]: 0 <= l < {group_size} }}",
                f"{{ [e, r, e_put, e_out]: 0 <= e, r, e_put, e_out < {items} }}",
                f"{{ [d, clear, b]: 0 <= d, clear, b < {digits} }}",
                "{ [d_before]: 0 <= d_before <= d }",
                f"{{ [w_clear, w, w_put]: 0 <= w_clear, w, w_put < {warps} }}",
            ],
            f"""
            table[w_clear, clear] = 0              {{id=clear, inames=g:clear:w_clear}}
            mine[e] = {digits - 1}                 {{id=outside, inames=g:l:e}}
            mine[e] = digit({tile}*g + {here}) \
                                                {{id=mine, inames=g:l:e, dep=outside, \
                                                if={tile}*g + {here} < n}}
            rank, [b]: table[{warp}, b] = kgen_rank(mine[r], [b]: table[{warp}, b]) \
                                                {{id=rank, inames=g:l:r, dep=mine:clear, \
                                                nosync=rank}}
            spot[r] = mine[r] << 16 | rank         {{id=spot, inames=g:l:r, dep=rank}}
            own = sum(w, table[w, d])              {{id=own, inames=g:d, dep=rank}}
            part[g + 1, d, 0] = own                {{id=publish, inames=g:d, dep=own}}
            {_first_places("g")}
            place = (spot[e_put] & 65535) + table[{warp}, spot[e_put] >> 16] \
                                                {{id=place, inames=g:l:e_put, dep=step:spot}}
            {stages}
            before = 0                             {{id=before, inames=g:d, dep=stage_*}}
            other = part[h + 1, d, 0]              {{id=other, inames=g:d:h, dep=before:publish}}
            before = before + other                {{id=join, inames=g:d:h, dep=other}}
            part[g + 1, d, 1] = before + own       {{id=publish_upto, inames=g:d, dep=join:publish}}
            begin[d] = starts[shift // {bits}, d] + before - start \
                                                {{id=begin, inames=g:d, dep=join:start}}
            to = begin[{found}] + {out} \
                                                {{id=to, inames=g:l:e_out, dep=begin:stage_*}}
            {moves}
            """,
            [
                *self._arguments(bits, index_dtype),
                temporary("table", np.int32, (warps, digits), "LOCAL"),
                temporary("mine, spot", np.int32, (items,)),
                temporary("rank, own, first, start, next, old, place", np.int32),
                temporary("part", index_dtype, (f"{groups} + 1", digits, entries), "GLOBAL"),
                temporary("all", np.int32, (digits,), "LOCAL"),
                temporary("begin", index_dtype, (digits,), "LOCAL"),
                temporary("before, other, to", index_dtype),
                *(temporary(name, dtype, (tile,), "LOCAL") for name, _, dtype in staged),
            ],
            iname_slab_increments={"g": (0, 1)},  # all tiles but the last one are full
            **settings,
        )
        knl = register_callable(knl, "kgen_rank", _Rank("kgen_rank", bits=bits))
        for insn_id, tag in _SHARED.items():
            knl = tag_instructions(knl, tag, f"id:{insn_id}")
        tags = {"g": "g.0", "l": "l.0", "clear": "l.0", "d": "l.0"}
        tags |= dict.fromkeys(["e", "r", "e_put", "e_out", "w_clear", "w_put"], "unr_hint")
        knl = tag_inames(knl, tags)
        return realize_reduction(knl, insn_id_filter=["first"], force_scan=True)

    def _digit_in_tile(self, bits: int) -> dict[str, SubstitutionRule] | None:
        """Return rules for the digit of an element in the tile; none if keys do not use it."""
        i, nodes = p.Variable("i"), list(walk(self.key))
        own = [p.Variable(one.name)[i] for one in self.moved]
        if any(isinstance(node, p.Subscript) and node not in own for node in nodes):
            return None
        if nodes.count(i) > sum(map(nodes.count, own)):
            return None
        there = {one.name: p.Variable(f"value_{one.name}") for one in self.moved}
        key = self.bits_of_key.replace("key", "key_there")
        digit = parse(f"cast(np.int32, (({key}) >> shift) & {2**bits - 1})")
        rules = {"key_there": substitute(self.key, there), "digit_there": digit}
        return {name: SubstitutionRule(name, ("i",), rule) for name, rule in rules.items()}

    def items(self, group_size: int) -> int:
        """Return how many elements per work-item fit in local memory."""
        size = sum(one.dtype.itemsize for one in self.moved) + 1
        return max(1, min(_MOST_ITEMS, _ROOM // (group_size * size)))

    def min_groups(self, group_size: int, items: int) -> int:
        """Return how many groups fit in the registers of a multiprocessor, with their elements."""
        return max(1, _REGISTERS // (group_size * (_OTHER_REGISTERS + items)))

    def _arguments(self, bits: int, index_dtype: Any) -> list[Any]:
        starts = GlobalArg("starts", index_dtype, shape=(self.turns(bits), 2**bits))
        return [*super()._arguments(bits, index_dtype), starts, ValueArg("valid", self.key_dtype)]
