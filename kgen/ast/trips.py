"""Loops in which work-items take turns: a constant number of trips where there is one.

A compiler cannot tell how often ``for (r = lid(0); r < 18; r += 16)`` goes round, so that each
load waits for the loop's condition. Of two trips with a condition it makes straight code, in
which all loads are under way at once: on an H200 the fetch of an 18 x 18 tile by 16 x 16
work-items and what is made of it take 0.74 of the time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pymbolic.primitives as p
from constantdict import constantdict

from kgen.analysis.signs import Interval, Signs
from kgen.ast.expr import conjunction
from kgen.ast.facts import Facts, without_trunc
from kgen.ast.nodes import Barrier, Block, Comment, For, If, Let, Node, Run, has_barrier
from kgen.ast.verify import differs_in_group
from kgen.ir.affine import move_to_sides, simplify
from kgen.ir.domain import Set
from kgen.ir.expr import Expr
from kgen.ir.kernel import LoopKernel

__all__ = ["count_trips"]

#: Loops of more trips keep their stride, alone or with those around them: nobody wants that
#: much straight code.
MAX_TRIPS, MAX_TRIPS_TOGETHER = 16, 64


def count_trips(node: Node, kernel: LoopKernel, facts: Set) -> Node:
    """Give loops in strides of work-items a constant number of trips, where it is small.

    ::

        for (int r = lid(0); r < min(18, n - 16*gid(0)); r += 16) S(r);

    becomes ::

        #pragma unroll
        for (int r_outer = 0; r_outer < 2; ++r_outer)
        {
          int const r = 16*r_outer + lid(0);
          if (r < 18 && 16*gid(0) + r < n) S(r);
        }

    Conditions that always hold are left out. *facts*: what is known of parameters and hardware
    axes at the root.
    """
    return _TripCounter(Signs(kernel), _names(kernel), Facts(facts, ()), {}).node(node)


def _names(kernel: LoopKernel) -> Callable[[str], str]:
    make, names = kernel.get_var_name_generator(), dict[str, str]()

    def name_of(iname: str) -> str:
        if iname not in names:
            names[iname] = make(f"{iname}_outer")
        return names[iname]

    return name_of


class _TripCounter:
    """Walks down with what is known: conditions around, and values of the loops' variables."""

    def __init__(
        self,
        signs: Signs,
        names: Callable[[str], str],
        facts: Facts,
        scope: Mapping[str, Interval],
        room: int = MAX_TRIPS_TOGETHER,
    ) -> None:
        self.signs = signs
        self.names = names
        self.facts = facts
        self.scope = scope
        self.room = room

    def _below(
        self,
        *conditions: Expr,
        values: Mapping[str, Interval] = constantdict(),
        trips: int = 1,
    ) -> _TripCounter:
        facts = self.facts.with_(*map(without_trunc, conditions))
        scope = {**self.scope, **values}
        return _TripCounter(self.signs, self.names, facts, scope, self.room // trips)

    def _interval(self, expr: Expr) -> Interval:
        self.signs.scope = self.scope
        return self.signs.interval(expr)

    def node(self, node: Node) -> Node:
        match node:
            case For():
                return self._for(node)
            case If():
                body = self._below(node.condition).node(node.body)
                orelse = None if node.orelse is None else self.node(node.orelse)
                return If(node.condition, body, orelse, node.reads_data)
            case Let():
                equal = p.Comparison(p.Variable(node.name), "==", node.value)
                inside = self._below(equal, values={node.name: self._interval(node.value)})
                return Let(node.name, node.dtype, node.value, inside.node(node.body))
            case Block():
                return Block(tuple(self.node(child) for child in node.children))
            case Comment():
                return Comment(node.text, self.node(node.body))
            case Run() | Barrier():
                return node

    def _for(self, loop: For) -> Node:
        index = p.Variable(loop.iname)
        low, high = self._interval(loop.first).low, self._interval(loop.stop).high
        values = {loop.iname: Interval(low, None if high is None else high - 1)}
        below = [p.Comparison(index, "<", top) for top in _tops(loop.stop)]
        count = self._count(loop, low, high)
        if count is None:
            above = p.Comparison(index, ">=", loop.first)
            body = self._below(above, *below, values=values).node(loop.body)
            return For(loop.iname, loop.dtype, loop.first, loop.stop, loop.step, body, loop.comment)
        trip = p.Variable(self.names(loop.iname))
        value = simplify(p.Sum((p.Product((loop.step, trip)), loop.first)))
        inside = self._below(
            p.Comparison(trip, ">=", 0),
            p.Comparison(trip, "<", count),
            p.Comparison(index, "==", value),
            trips=count,
        )
        needed = [c for c in below if not inside.facts.imply(without_trunc(c))]
        body = inside._below(*below, values=values).node(loop.body)
        if needed:
            guard = conjunction([move_to_sides(c.left, "<", c.right) for c in needed])
            body = If(guard, body)
        named = Let(loop.iname, loop.dtype, value, body)
        return For(trip.name, loop.dtype, 0, count, 1, named, loop.comment, is_short=True)

    def _count(self, loop: For, low: int | None, high: int | None) -> int | None:
        """Return how often the loop goes round at most, if it is to be a constant."""
        if loop.step == 1 or low is None or high is None:
            return None
        if not differs_in_group(loop.first) or has_barrier(loop.body):
            return None
        count = -((low - high) // loop.step)
        return count if 1 < count <= min(MAX_TRIPS, self.room) else None


def _tops(stop: Expr) -> tuple[Expr, ...]:
    return stop.children if isinstance(stop, p.Min) else (stop,)
