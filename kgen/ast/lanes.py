"""Loops over lanes: separation of full tiles, and values kept in scalars."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import product
from typing import Any, Final

import pymbolic.primitives as p

from kgen.analysis.access import collect_accesses_to
from kgen.ast.expr import bound_by, compare_with_bound, conjunction, minimum, parts_of_bound
from kgen.ast.facts import Facts
from kgen.ast.nodes import Block, For, If, Let, Node, Run, runs_in, simd_loops_in
from kgen.ast.streams import is_contiguous
from kgen.ast.verify import differs_in_group
from kgen.ir.affine import move_to_sides
from kgen.ir.expr import Expr, TruncQuotient, substitute, variable_names
from kgen.ir.fields import replace
from kgen.ir.instruction import Assignment
from kgen.ir.kernel import LoopKernel
from kgen.ir.sets.dims import Set
from kgen.ir.stages import DeviceKernel, PreparedKernel
from kgen.ir.tags import ItemLoopTag, LocalInameTag, LoopedIlpTag, UnrolledIlpTag
from kgen.ir.tree import has_barrier, map_children, nodes_in
from kgen.ir.types import AddressSpace
from kgen.schedule.lanes import dependence_in, draws_random, has_lanes, is_simd
from kgen.schedule.tree import LoopKind, Schedule, insn_ids, loops_in
from kgen.transforms.storage.unprivatize import (
    is_shifted,
    unprivatize_temporaries_with_inames,
)

__all__ = [
    "lanes_in_scalars",
    "mark_simd_loops",
    "separate_tiles_of",
    "separate_whole_tiles",
    "why_not_in_lanes",
]


# -- temporaries ---------------------------------------------------------------------------------


def lanes_in_scalars(kernel: PreparedKernel, schedule: Schedule) -> PreparedKernel:
    """Turn temporaries that only one loop over lanes uses into one scalar for all lanes.

    ::

        simd v                 simd v
          t[v] = 2*a[v]   =>     t = 2*a[v]
          b[v] = t[v]            b[v] = t
    """
    loops = [
        (loop.iname, insn_ids(loop.body))
        for launch in schedule.launches
        for loop in loops_in(launch.body)
        if loop.kind is LoopKind.SIMD
    ]
    found: dict[str, list[str]] = {}
    for iname, ids in loops:
        for name in _only_in(kernel, iname, ids):
            found.setdefault(iname, []).append(name)
    changed: LoopKernel = kernel
    for iname, names in found.items():
        changed = unprivatize_temporaries_with_inames(changed, iname, names)
    return PreparedKernel(changed)


def _only_in(kernel: PreparedKernel, iname: str, ids: Sequence[str]) -> Iterator[str]:
    """Yield the temporaries of one axis, *iname*, that only the loop uses, and sets first."""
    written: dict[str, str] = {}
    for insn_id in ids:
        for name in kernel.id_to_insn[insn_id].assignee_var_names():
            written.setdefault(name, insn_id)
    for name, first in written.items():
        temporary = kernel.temporary_variables.get(name)
        insn = kernel.id_to_insn[first]
        if (
            temporary is not None
            and temporary.address_space == AddressSpace.PRIVATE
            and temporary.base_storage is None
            and isinstance(temporary.shape, tuple)
            and len(temporary.shape) == 1
            and (isinstance(insn, Assignment) or draws_random(kernel, insn))
            and not insn.predicates
            and name not in insn.read_dependency_names()
            and _is_local_to(kernel, name, iname, ids)
        ):
            yield name


def _is_local_to(kernel: PreparedKernel, name: str, iname: str, ids: Sequence[str]) -> bool:
    accesses = collect_accesses_to(kernel, name)
    users = {insn.id for insn in kernel.instructions if name in insn.dependency_names()}
    indices = {access.index for access in accesses}
    if not users <= set(ids) or len(indices) != 1:
        return False
    (index,) = indices
    return index is not None and is_shifted(index[0], (iname,))


# -- full tiles ------------------------------------------------------------------------------------


def separate_whole_tiles(node: Node, kernel: DeviceKernel, facts: Set) -> Node:
    """Separate full tiles, in which all lanes run, from partial ones, outside the inner loops.

    Lanes are iterations of loops tagged ``vec``, which stay loops, and ``ilp``. *facts*: the
    known constraints on parameters and hardware axes at the root.

    ::

        for k                                  if 16*t + 16 <= n
          for v = 0 .. min(16, n - 16*t)  =>     for k
            S                                      for v = 0 .. 16
                                                     S
                                               else
                                                 for k
                                                   for v = 0 .. n - 16*t
                                                     S
    """
    if not kernel.target.has_simd_loops:
        return node
    inames = frozenset(
        name
        for name in kernel.inames
        if is_simd(kernel, name)
        or (kernel.has_tag(name, UnrolledIlpTag) and not kernel.has_tag(name, LoopedIlpTag))
    )
    return separate_tiles_of(inames, node, kernel, Facts(facts.params()))


def separate_tiles_of(
    inames: frozenset[str], node: Node, kernel: DeviceKernel, facts: Facts
) -> Node:
    """Separate full tiles of some loops, whose domains are constant, from partial ones."""
    return _Separator(kernel, inames).at_top(node, facts)


class _Separator:
    """Duplicates the contents of the loop that the lengths of tiles depend on."""

    def __init__(self, kernel: DeviceKernel, inames: frozenset[str]) -> None:
        self.kernel = kernel
        self.inames = inames
        #: computed variables, which conditions must not read before their computation
        self.computed = kernel.get_written_variables()

    def at_top(self, node: Node, facts: Facts) -> Node:
        return self._separated(node, facts, None) if self.inames else node

    def _node(self, node: Node, facts: Facts) -> Node:
        match node:
            case For():
                body = self._separated(node.body, facts.inside(node), node.iname)
                return _split(node, body, facts) or replace(node, body=body)
            case Let():
                body = self._separated(node.body, facts.inside(node), node.name)
                return replace(node, body=body)
            case If(orelse=None):
                return replace(node, body=self._node(node.body, facts.inside(node)))
        return map_children(node, lambda child: self._node(child, facts))

    def _separated(self, body: Node, facts: Facts, variable: str | None) -> Node:
        """Separate the tiles whose lengths depend on *variable*, but on none inside *body*."""
        inside = {part.name for part in nodes_in(body) if isinstance(part, For | Let)}
        tiles: dict[int, For] = {}
        nested: set[str] = set()
        found: dict[Expr, None] = {}
        has_barriers = has_barrier(body)
        for loop in nodes_in(body):
            own = self._conditions(loop)
            conditions = self._in_all_tiles(own, inside, facts)
            names = variable_names(*conditions)
            if has_barriers and any(map(differs_in_group, conditions)):
                continue  # all work-items must reach a barrier
            if not self.computed.isdisjoint(names):
                continue
            if conditions and inside.isdisjoint(names) and variable in (None, *names):
                tiles[id(loop)] = loop
                found.update(dict.fromkeys(conditions))
                if conditions != own:
                    nested.add(tiles[id(loop)].iname)
        if not tiles:
            return self._node(body, facts)
        unknown = [part for part in found if not facts.imply(part)]
        if nested:
            unknown = _strongest(unknown, facts)
        in_whole = facts.with_(*unknown)
        if in_whole.are_contradictory():
            return self._node(body, facts)
        whole = self._node(self._whole(body, tiles), in_whole)
        if not unknown:
            return whole
        edge = self._edge(body, tiles, unknown[0]) if len(unknown) == 1 else body
        at_edge = _Separator(self.kernel, self.inames - nested) if nested else self
        return If(conjunction(unknown), whole, at_edge._node(edge, facts))

    def _in_all_tiles(
        self, conditions: list[Expr], inside: Collection[str], facts: Facts
    ) -> list[Expr]:
        """Return when *conditions* are true in the first and last iterations of enclosing tiles.

        If this does not prove them for all iterations, they are returned unchanged.
        """
        around = sorted(self.inames.intersection(inside, variable_names(*conditions)))
        if not around:
            return conditions
        ends = {name: self._first_and_last(name) for name in around}
        corners = [dict(zip(around, c, strict=True)) for c in product(*ends.values())]
        found = [_with_values(part, corner) for corner in corners for part in conditions]
        if not found or False in found:
            return conditions
        tiles = [
            p.Comparison(p.Variable(name), op, end)
            for name, (first, last) in ends.items()
            for op, end in ((">=", first), ("<=", last))
        ]
        found = [part for part in found if part is not True]
        anywhere = facts.with_(*tiles, *found)
        return found if all(map(anywhere.imply, conditions)) else conditions

    def _first_and_last(self, iname: str) -> tuple[int, ...]:
        """Return the first and last value of a loop variable, if these are numbers."""
        values = self.kernel.get_iname_bounds(iname).interval
        return () if values.low is None or values.high is None else (values.low, values.high)

    def _conditions(self, loop: Node) -> list[Expr]:
        """Return when all lanes of a loop run, if that depends on anything."""
        if not isinstance(loop, For) or loop.iname not in self.inames:
            return []
        ends = self._ends(loop)
        if ends is None:
            return []
        first, stop = ends
        found = [compare_with_bound(first, ">=", e) for e in _open(p.Max, loop.first)]
        found += [compare_with_bound(stop - 1, "<", e) for e in _open(p.Min, loop.stop)]
        return [part for part in found if part is not True]

    def _ends(self, loop: For) -> tuple[int, int] | None:
        """Return the first lane of a tile, and the end of its last one, as far as constant."""
        values = self.kernel.get_iname_bounds(loop.iname).interval
        if values.low is None or values.high is None or loop.step != 1:
            return None
        first = max([values.low, *_numbers(p.Max, loop.first)])
        return first, min([values.high + 1, *_numbers(p.Min, loop.stop)])

    def _whole(self, node: Node, tiles: Mapping[int, For]) -> Node:
        inside = map_children(node, lambda child: self._whole(child, tiles))
        if id(node) not in tiles:
            return inside
        ends = self._ends(tiles[id(node)])
        assert ends is not None
        return replace(inside, first=ends[0], stop=ends[1])

    def _edge(self, node: Node, tiles: Mapping[int, For], missed: Expr) -> Node:
        """Remove full tiles from the bounds of tiles, where *missed* is never true."""
        inside = map_children(node, lambda child: self._edge(child, tiles, missed))
        if id(node) not in tiles:
            return inside
        loop = tiles[id(node)]
        ends = self._ends(loop)
        assert ends is not None
        first, stop = loop.first, loop.stop
        if any(compare_with_bound(ends[0], ">=", e) == missed for e in _open(p.Max, first)):
            first = _without_numbers(p.Max, first)
        if any(compare_with_bound(ends[1] - 1, "<", e) == missed for e in _open(p.Min, stop)):
            stop = _without_numbers(p.Min, stop)
        return replace(inside, first=first, stop=stop)


def _split(loop: For, body: Node, facts: Facts) -> Node | None:
    """Split a loop over tiles after the full ones; ``None`` if these do not come first.

    ::

        for t = 0 .. (n + 15) // 16  =>  for t = 0 .. n // 16
          if 16*t + 16 <= n                S
            S                            for t = n // 16 .. (n + 15) // 16
          else                             T
            T
    """
    if not isinstance(body, If) or body.orelse is None or loop.step != 1:
        return None
    bound = bound_by(body.condition, loop.iname)
    if bound is None:
        return None
    total, factor = bound
    index = p.Variable(loop.iname)
    inside = facts.with_(p.Comparison(index, ">=", loop.first), body.condition)
    tops = parts_of_bound(p.Min, loop.stop)
    behind = [inside.with_(p.Comparison(index, ">=", top)) for top in _open(p.Min, loop.stop)]
    if loop.first != 0 or not all(place.are_contradictory() for place in behind):
        return None
    end = start = total if factor == 1 else TruncQuotient(total, factor)
    if not facts.imply(p.Comparison(total, ">=", 0)):
        start = p.Max((0, end))
    stop = minimum([*(top for top in tops if isinstance(top, int)), end])
    whole = replace(loop, stop=stop, body=body.body)
    return Block((whole, replace(loop, first=start, body=body.orelse)))


def _with_values(condition: Expr, values: Mapping[str, Any]) -> Expr:
    """Return a comparison with the values of loop variables substituted."""
    assert isinstance(condition, p.Comparison)
    left, right = (substitute(side, values) for side in (condition.left, condition.right))
    return move_to_sides(left, condition.operator, right)


def _strongest(conditions: list[Expr], facts: Facts) -> list[Expr]:
    """Return the conditions that do not follow from the others."""
    kept = conditions
    for part in conditions:
        others = [other for other in kept if other is not part]
        if facts.with_(*others).imply(part):
            kept = others
    return kept


def _numbers(kind: type[p.Min] | type[p.Max], bound: Expr) -> list[int]:
    """Return the constant parts of a bound."""
    return [part for part in parts_of_bound(kind, bound) if isinstance(part, int)]


def _open(kind: type[p.Min] | type[p.Max], bound: Expr) -> tuple[Expr, ...]:
    """Return the non-constant parts of a bound."""
    return tuple(part for part in parts_of_bound(kind, bound) if not isinstance(part, int))


def _without_numbers(kind: type[p.Min] | type[p.Max], bound: Expr) -> Expr:
    """Return a bound without its constant parts; it has others."""
    parts = _open(kind, bound)
    return kind(parts) if len(parts) > 1 else parts[0]


# -- marks ---------------------------------------------------------------------------------------


_OF_ITEMS: Final = (ItemLoopTag(), LocalInameTag(0))


def mark_simd_loops(node: Node, kernel: DeviceKernel) -> Node:
    """Mark the loops over lanes whose iterations are proved to be independent.

    These are tagged ``vec``, or are innermost loops over the work-items along ``l.0``. Of nested
    loops, only the innermost one is marked: with two, gcc 12 generates programs that crash, with
    AVX-512.
    """
    has_any = has_lanes(kernel) or any(_is_of_items(kernel, name) for name in kernel.inames)
    return _marked(node, kernel) if has_any and kernel.target.has_simd_loops else node


def _marked(node: Node, kernel: DeviceKernel) -> Node:
    node = map_children(node, lambda child: _marked(child, kernel))
    is_marked = isinstance(node, For) and why_not_in_lanes(node, kernel) is None
    return replace(node, is_simd=True) if is_marked else node


def why_not_in_lanes(loop: For, kernel: DeviceKernel) -> str | None:
    """Return why a loop cannot be vectorized; ``None`` if it can."""
    if not is_simd(kernel, loop.iname) and (reason := _why_not_items(loop, kernel)) is not None:
        return reason
    if inner := simd_loops_in(loop.body):
        return f"'{inner[0].iname}' inside it is vectorized"
    ids = tuple(dict.fromkeys(run.insn_id for run in runs_in(loop.body)))
    return dependence_in(kernel, loop.iname, ids)


def _why_not_items(loop: For, kernel: DeviceKernel) -> str | None:
    """Return why it is not a work-item loop that sets adjacent elements and its own scalars."""
    if not (loop.iname in kernel.inames and _is_of_items(kernel, loop.iname)):
        return "lanes are work-items along 'l.0', or iterations of a loop tagged 'vec'"
    inside = [part.name for part in nodes_in(loop.body) if isinstance(part, For | Let)]
    if inside:
        return f"'{inside[0]}' is inside it"
    runs = runs_in(loop.body)
    for run in runs:
        for name in kernel.id_to_insn[run.insn_id].assignee_var_names():
            is_scalar = kernel.array_vars[name].shape == ()
            if is_scalar and not _is_own_scalar(kernel, loop, runs, name):
                return f"'{name}' is the same for several work-items"
            if not is_scalar and not is_contiguous(kernel, loop.iname, run):
                return f"adjacent iterations do not assign to adjacent elements of '{name}'"
    return None


def _is_of_items(kernel: DeviceKernel, iname: str) -> bool:
    """Tell whether a loop is over the work-items along ``l.0``."""
    return not kernel.inames[iname].tags.isdisjoint(_OF_ITEMS)


def _is_own_scalar(kernel: DeviceKernel, loop: For, runs: Sequence[Run], name: str) -> bool:
    """Tell whether iterations set a scalar first, and nothing outside the loop uses it."""
    users = {insn.id for insn in kernel.instructions if name in insn.dependency_names()}
    using = [run for run in runs if run.insn_id in users]
    first = kernel.id_to_insn[using[0].insn_id]
    direct = loop.body.children if isinstance(loop.body, Block) else (loop.body,)
    is_first = using[0] in direct and name not in first.read_dependency_names()
    return is_first and users == {run.insn_id for run in using}
