"""Guard-free copies of loops, for the iterations in which all unrolled copies run.

A matrix product of any size computes many sums in each iteration, and checks for each of them
whether it is inside the matrix. Nearly all groups and iterations are whole: one condition for the
group and one bound of the loop decide that for all copies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import pymbolic.primitives as p

from kgen.ast.expr import (
    bound_by,
    compare_with_bound,
    conjunction,
    conjuncts,
    minimum,
    parts_of_bound,
    slack_of,
)
from kgen.ast.facts import Facts
from kgen.ast.nodes import Block, For, If, Let, Node, Run, runs_in
from kgen.ast.unroll import unrolled_inames
from kgen.ast.verify import differs_in_group
from kgen.ir.affine import linear_form, move_to_sides
from kgen.ir.expr import (
    Expr,
    LinearSubscript,
    LocalHardwareAxisIndex,
    TruncQuotient,
    substitute,
    variable_names,
    walk,
)
from kgen.ir.fields import replace
from kgen.ir.grid import Grid
from kgen.ir.instruction import Assignment
from kgen.ir.layout import FixedStrideArrayDimTag
from kgen.ir.sets.dims import Set
from kgen.ir.sets.interval import ANYTHING, Interval
from kgen.ir.stages import DeviceKernel
from kgen.ir.tags import ItemLoopTag, LocalInameTag, UnrollTag, VectorizeTag
from kgen.ir.tree import children_of, map_children, nodes_in
from kgen.ir.types import AddressSpace

__all__ = ["MAX_COPIES", "MIN_GUARDED", "separate_whole_iterations"]

#: Fewer guarded copies per iteration do not justify a separate loop.
MIN_GUARDED: Final = 8
#: More copies per iteration are not duplicated, because the code would be too large.
MAX_COPIES: Final = 4096

#: The values of the variables inside a loop; others have no entry.
_Scope = Mapping[str, Interval]


def separate_whole_iterations(node: Node, kernel: DeviceKernel, grid: Grid, facts: Set) -> Node:
    """Separate the iterations of loops in which all unrolled copies run, as loops without guards.

    *facts*: the known constraints on parameters and hardware axes at the root.

    ::

        for k = 0 .. (n + 15) // 16
          barrier
          for ii = 0 .. min(8, (n - lid(0) + 15) // 16 - 8*gid(0))   # unrolled
            for kk = 0 .. min(16, n - 16*k)                          # unrolled
              S

    becomes, for 16 work-items in a group, ::

        let k_whole = n // 16 if 128*gid(0) + 127 < n else 0
        for k = 0 .. k_whole
          barrier
          for ii = 0 .. 8
            for kk = 0 .. 16
              S
        for k = k_whole .. (n + 15) // 16
          ... as before

    This is done for the outermost sequential loop that all work-items of a group run uniformly and
    at which the guards of the copies inside can be evaluated, if there are at least
    ``MIN_GUARDED`` guarded copies per iteration, and at most ``MAX_COPIES`` copies in all, unless
    whole iterations do not reach the loops of these copies, such as one for the last rows. The
    second loop has the iterations that are not whole, and all those of groups that are not; loops
    tagged ``unr`` stay loops there, unless their variable selects a variable in the code.
    """
    unrolled = unrolled_inames(kernel)
    copied = frozenset(name for name in unrolled if not kernel.has_tag(name, VectorizeTag))
    if not copied:
        return node
    return _Separator(kernel, grid, unrolled, copied).node(node, Facts(facts.params()))


@dataclass
class _Guards:
    """The guards in a loop: all *needed* conditions must be true for its guarded copies."""

    needed: dict[Expr, None] = field(default_factory=dict)
    n_guarded: int = 0
    n_copies: int = 0
    is_open: bool = False


class _Separator:
    def __init__(
        self, kernel: DeviceKernel, grid: Grid, unrolled: frozenset[str], copied: frozenset[str]
    ) -> None:
        self.kernel = kernel
        self.grid = grid
        self.unrolled = unrolled
        self.copied = copied

    @cached_property
    def computed(self) -> frozenset[str]:
        """The variables that instructions assign."""
        return self.kernel.get_written_variables()

    @cached_property
    def chosen(self) -> frozenset[str]:
        """The arrays whose elements are variables, possible registers, or components."""
        return frozenset(
            name
            for name, array in self.kernel.array_vars.items()
            if array.address_space == AddressSpace.PRIVATE
            or not isinstance(array.dim_tags, tuple)
            or not all(isinstance(tag, FixedStrideArrayDimTag) for tag in array.dim_tags)
        )

    @cached_property
    def make_name(self) -> Callable[[str], str]:
        """A generator of unused names."""
        return self.kernel.get_var_name_generator()

    def node(self, node: Node, facts: Facts) -> Node:
        match node:
            case For():
                found = self._separated(node, facts) if self._is_sequential(node) else None
                return found or replace(node, body=self.node(node.body, facts.inside(node)))
            case Let() | If(orelse=None):
                return replace(node, body=self.node(node.body, facts.inside(node)))
        return map_children(node, lambda child: self.node(child, facts))

    def _is_sequential(self, loop: Node) -> bool:
        """Tell whether *loop* has many iterations, which all work-items run uniformly."""
        return (
            isinstance(loop, For)
            and loop.step == 1
            and loop.iname in self.kernel.inames
            and loop.iname not in self.unrolled
            and not self.kernel.has_tag(loop.iname, (ItemLoopTag, LocalInameTag))
            and not differs_in_group(loop.first)
            and not differs_in_group(loop.stop)
        )

    def _separated(self, loop: For, facts: Facts) -> Node | None:
        """Return both loops; ``None`` if there is nothing to separate at this loop."""
        if not any(isinstance(part, For) and part.iname in self.copied for part in nodes_in(loop)):
            return None
        guards = _Guards()
        self._collect(loop.body, {}, guards, 1, is_copied=False, is_guarded=False)
        if not MIN_GUARDED <= guards.n_guarded <= guards.n_copies <= MAX_COPIES:
            return None
        if guards.is_open and any(map(self._is_sequential, nodes_in(loop.body))):
            return None
        needed = _Known(guards.needed)
        of_group: list[Expr] = []
        ends: list[tuple[Expr, int]] = []
        for condition in needed.conditions:
            if loop.iname not in variable_names(condition):
                of_group.append(condition)
            elif (end := bound_by(condition, loop.iname)) is not None:
                ends.append(end)
            else:
                return None
        unknown = [condition for condition in of_group if not facts.imply(condition)]
        whole = self._whole(loop.body, {}, needed)
        if not unknown and not ends:
            return replace(loop, body=whole)
        index = p.Variable(loop.iname)
        last = [p.Comparison(p.Sum((p.Product((f, index)), f)), "<=", total) for total, f in ends]
        inside = facts.with_(*unknown)
        if not self._has_guards(_without_idle(loop.body, inside)):
            return None
        iterations = inside.with_(p.Comparison(index, ">=", loop.first), *last)
        tops = parts_of_bound(p.Min, loop.stop)
        if iterations.with_(*(p.Comparison(index, "<", top) for top in tops)).are_contradictory():
            return None
        whole = _without_idle(whole, inside)
        behind = [iterations.with_(p.Comparison(index, ">=", top)) for top in tops]
        kept = [t for t, place in zip(tops, behind, strict=True) if not place.are_contradictory()]
        return self._both(loop, whole, conjunction(unknown), _end(loop, ends, kept, inside))

    def _has_guards(self, node: Node) -> bool:
        """Tell whether copies are guarded in the part that whole iterations run."""
        guards = _Guards()
        self._collect(node, {}, guards, 1, is_copied=False, is_guarded=False)
        return guards.n_guarded > 0

    def _both(self, loop: For, whole: Node, condition: Expr, end: Expr) -> Node:
        """Write the whole iterations, up to *end* if *condition* is true, and the others."""
        name = self.make_name(f"{loop.iname}_whole")
        value = end if condition is True else p.If(condition, end, loop.first)
        stop = p.Variable(name)
        rest = replace(loop, first=stop, body=self._rare(loop.body))
        return Let(name, loop.dtype, value, Block((replace(loop, stop=stop, body=whole), rest)))

    def _rare(self, node: Node) -> Node:
        """Keep loops that are unrolled only for speed: those that select no variable."""
        inside = map_children(node, self._rare)
        if not isinstance(node, For) or not self.kernel.has_tag(node.iname, UnrollTag):
            return inside
        is_choice = any(self._chooses(run, node.iname) for run in runs_in(node.body))
        return inside if is_choice else replace(inside, is_rare=True)

    def _chooses(self, run: Run, iname: str) -> bool:
        """Tell whether the iname's value must, or should, be constant: for variables, in calls."""
        insn = self.kernel.id_to_insn[run.insn_id]
        if not isinstance(insn, Assignment):
            return True
        return any(
            iname in variable_names(substitute(part, run.values))
            for part in walk(insn.assignee, insn.expression)
            if isinstance(part, p.Call)
            or (
                isinstance(part, p.Subscript | LinearSubscript)
                and not self.chosen.isdisjoint(variable_names(part.aggregate))
            )
        )

    # -- guards ------------------------------------------------------------------------------

    def _collect(
        self,
        node: Node,
        scope: _Scope,
        guards: _Guards,
        copies: int,
        *,
        is_copied: bool,
        is_guarded: bool,
    ) -> None:
        """Find the guards of copies at *node* and below."""
        conditions: list[Expr] = []
        match node:
            case Run():
                guards.n_copies += copies
                guards.n_guarded += copies * is_guarded
            case For():
                is_unrolled = node.iname in self.copied
                scope = {**scope, node.iname: self._values(node)}
                if is_unrolled:
                    conditions = [condition for _, condition in self._open(node)]
                    is_copied, copies = True, copies * (scope[node.iname].count or 1)
            case Let():
                scope = {**scope, node.name: ANYTHING}
            case If(reads_data=False, orelse=None) if is_copied:
                conditions = list(conjuncts(node.condition))
        found = [self._worst(condition, scope) for condition in conditions]
        guards.is_open = guards.is_open or any(part in (None, False) for part in found)
        decided = [part for part in found if part is not None and not isinstance(part, bool)]
        guards.needed.update(dict.fromkeys(decided))
        for child in children_of(node):
            self._collect(
                child,
                scope,
                guards,
                copies,
                is_copied=is_copied,
                is_guarded=is_guarded or bool(decided),
            )

    def _values(self, loop: For) -> Interval:
        """Return the constant bounds of a loop's variable."""
        if loop.iname not in self.kernel.inames:
            return ANYTHING
        values = self.kernel.get_iname_bounds(loop.iname).interval
        first, stop = parts_of_bound(p.Max, loop.first), parts_of_bound(p.Min, loop.stop)
        lows = [part for part in (*first, values.low) if isinstance(part, int)]
        highs = [part - 1 for part in stop if isinstance(part, int)]
        highs += [] if values.high is None else [values.high]
        return Interval(max(lows, default=None), min(highs, default=None))

    def _open(self, loop: For) -> Iterator[tuple[Expr, Expr]]:
        """Yield the non-constant parts of a loop's bounds, and when each has no effect."""
        values = self._values(loop)
        if values.low is not None and loop.step == 1:
            for part in parts_of_bound(p.Max, loop.first):
                if not isinstance(part, int):
                    yield part, compare_with_bound(values.low, ">=", part)
        if values.high is not None:
            for part in parts_of_bound(p.Min, loop.stop):
                if not isinstance(part, int):
                    yield part, compare_with_bound(values.high, "<", part)

    def _worst(self, condition: Expr, scope: _Scope) -> Expr | None:
        """Return when an inequality is true for all work-items and values of inner variables."""
        if isinstance(condition, bool):
            return condition
        slack = slack_of(condition)
        if slack is None or not self.computed.isdisjoint(variable_names(slack)):
            return None
        form = linear_form(slack)
        rest: list[Expr] = [form.constant]
        for factor, atom in form.terms:
            if isinstance(atom, LocalHardwareAxisIndex):
                values = Interval(0, self.grid.locals[atom.axis] - 1)
            elif isinstance(atom, p.Variable) and atom.name in scope:
                values = scope[atom.name]
            elif differs_in_group(atom) or not scope.keys().isdisjoint(variable_names(atom)):
                return None
            else:
                rest.append(p.Product((factor, atom)))
                continue
            least = values.scaled(factor).low
            if least is None:
                return None
            rest.append(least)
        return move_to_sides(p.Sum(tuple(rest)), ">=", 0)

    # -- whole iterations --------------------------------------------------------------------

    def _whole(self, node: Node, scope: _Scope, known: _Known) -> Node:
        """Remove guards that follow from *known* conditions."""

        def holds(condition: Expr, scope: _Scope) -> bool:
            worst = self._worst(condition, scope)
            return worst is True or (worst is not None and known.imply(worst))

        match node:
            case For():
                inside = {**scope, node.iname: self._values(node)}
                idle = {part for part, condition in self._open(node) if holds(condition, scope)}
                body = self._whole(node.body, inside, known)
                return (
                    self._within(replace(node, body=body), idle)
                    if idle
                    else replace(node, body=body)
                )
            case Let():
                inside = {**scope, node.name: ANYTHING}
                return replace(node, body=self._whole(node.body, inside, known))
            case If(reads_data=False, orelse=None):
                body = self._whole(node.body, scope, known)
                parts = conjuncts(node.condition)
                needed = [part for part in parts if not holds(part, scope)]
                return replace(node, condition=conjunction(needed), body=body) if needed else body
        return map_children(node, lambda child: self._whole(child, scope, known))

    def _within(self, loop: For, idle: set[Expr]) -> For:
        """Remove parts of a loop's bounds."""
        values = self._values(loop)
        firsts = [part for part in parts_of_bound(p.Max, loop.first) if part not in idle]
        stops = [part for part in parts_of_bound(p.Min, loop.stop) if part not in idle]
        stop = loop.stop if values.high is None else minimum([values.high + 1, *stops])
        if len(firsts) == len(parts_of_bound(p.Max, loop.first)):
            return replace(loop, stop=stop)
        assert values.low is not None
        lows = [values.low, *(part for part in firsts if not isinstance(part, int))]
        return replace(loop, first=lows[0] if len(lows) == 1 else p.Max(tuple(lows)), stop=stop)


def _without_idle(node: Node, facts: Facts) -> Node:
    """Remove loops that have no iteration under the *facts*."""
    match node:
        case For() if facts.imply(p.Comparison(node.first, ">=", node.stop)):
            return Block(())
        case Block() | For() | Let():
            left = map_children(node, lambda child: _without_idle(child, facts))
            return left if any(runs_in(left)) or not any(runs_in(node)) else Block(())
    return node


class _Known:
    """A conjunction of inequalities, without those that follow from others."""

    def __init__(self, conditions: Mapping[Expr, None]) -> None:
        self._least: dict[frozenset[tuple[int, Expr]], tuple[int, Expr]] = {}
        for condition in conditions:
            key, constant = _key(condition)
            if key not in self._least or constant < self._least[key][0]:
                self._least[key] = constant, condition

    @property
    def conditions(self) -> list[Expr]:
        """The inequalities, in the order of the code."""
        return [condition for _, condition in self._least.values()]

    def imply(self, condition: Expr) -> bool:
        """Tell whether *condition* is one of them, or a weaker one of the same variables."""
        if isinstance(condition, bool):
            return condition
        key, constant = _key(condition)
        return key in self._least and self._least[key][0] <= constant


def _key(condition: Expr) -> tuple[frozenset[tuple[int, Expr]], int]:
    """Return the terms and the constant of the sum that *condition* states to be non-negative."""
    form = linear_form(slack_of(condition))
    return frozenset(form.terms), form.constant


def _end(loop: For, ends: list[tuple[Expr, int]], tops: list[Expr], facts: Facts) -> Expr:
    """Return the end of the iterations that all of *ends* allow, each ``total // factor``."""
    is_natural = facts.imply(p.Comparison(loop.first, ">=", 0))
    quotient = TruncQuotient if is_natural else p.FloorDiv  # from 0 on, both end there
    stops = [total if factor == 1 else quotient(total, factor) for total, factor in ends]
    firsts = parts_of_bound(p.Max, loop.first)
    ahead = [p.Comparison(stop, ">=", first) for stop in (*tops, *stops) for first in firsts]
    end = minimum([*tops, *stops])
    return end if all(map(facts.imply, ahead)) else p.Max((*firsts, end))
