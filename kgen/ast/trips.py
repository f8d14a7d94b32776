"""Work-item-strided loops: straight-line code if the trip count is small.

A compiler cannot determine the trip count of ``for (r = lid(0); r < 18; r += 16)``, so each
load waits for the loop's condition. In straight-line code, all loads are in flight at once, and
iterations that all work-items run need no condition: on an H200, stencils on such tiles take 0.53
to 0.75 of the time (docs/benchmarks_gpu.md).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pymbolic.primitives as p
from constantdict import constantdict

from kgen.analysis.signs import Signs
from kgen.ast.expr import conjunction, conjuncts, parts_of_bound
from kgen.ast.facts import Facts
from kgen.ast.nodes import Block, Comment, For, If, Let, Node, runs_in
from kgen.ast.unroll import bind
from kgen.ast.verify import differs_in_group
from kgen.ir.affine import move_to_sides, simplify
from kgen.ir.expr import Expr
from kgen.ir.fields import replace
from kgen.ir.sets.dims import Set
from kgen.ir.sets.interval import Interval
from kgen.ir.stages import DeviceKernel
from kgen.ir.tree import has_barrier, map_children, nodes_in

__all__ = ["expand_strided_loops"]

#: Loops with more trips keep their stride, alone or with enclosing ones: there would be too
#: much straight-line code.
MAX_TRIPS, MAX_TRIPS_TOGETHER = 16, 64

#: Larger bodies are not copied for a trip that some work-items do not run.
MAX_COPIED_RUNS = 4


def expand_strided_loops(node: Node, kernel: DeviceKernel, facts: Set) -> Node:
    """Give work-item-strided loops a constant trip count, if it is small.

    ::

        for (int r = lid(0); r < min(18, n - 16*gid(0)); r += 16) S(r);

    becomes, for 16 work-items, ::

        if (16*gid(0) + lid(0) < n) S(lid(0));
        if (lid(0) < 2 && 16*gid(0) + lid(0) + 16 < n) S(lid(0) + 16);

    Trips that all work-items run become a loop, ``for (r_outer = 0; r_outer < 4; ++r_outer)``
    with ``r = 16*r_outer + lid(0)``, which the compiler unrolls.
    Conditions that are always true are omitted. *facts*: the known constraints on parameters and
    hardware axes at the root.
    """
    if not _has_strides(node):
        return node
    return _StridedLoopExpander(
        Signs(kernel).within({}), _names(kernel), Facts(facts.params())
    ).node(node)


def _has_strides(node: Node) -> bool:
    return any(isinstance(part, For) and part.step != 1 for part in nodes_in(node))


def _names(kernel: DeviceKernel) -> Callable[[str], str]:
    make, names = kernel.get_var_name_generator(), dict[str, str]()

    def name_of(iname: str) -> str:
        if iname not in names:
            names[iname] = make(f"{iname}_outer")
        return names[iname]

    return name_of


class _StridedLoopExpander:
    """Visits nodes with the known facts: enclosing conditions, and values of loop variables.

    *is_single*: the tree is one trip of a loop, whose conditions may be known to be true.
    """

    def __init__(
        self,
        signs: Signs,
        names: Callable[[str], str],
        facts: Facts,
        room: int = MAX_TRIPS_TOGETHER,
        *,
        is_single: bool = False,
    ) -> None:
        self.signs = signs
        self.names = names
        self.facts = facts
        self.room = room
        self.is_single = is_single

    def _below(
        self,
        *conditions: Expr,
        values: Mapping[str, Interval] = constantdict(),
        trips: int = 1,
        is_single: bool = False,
    ) -> _StridedLoopExpander:
        facts = self.facts.with_(*conditions)
        signs = self.signs.within({**(self.signs.scope or {}), **values}) if values else self.signs
        room = self.room // trips
        return _StridedLoopExpander(signs, self.names, facts, room, is_single=is_single)

    def node(self, node: Node) -> Node:
        match node:
            case For():
                return self._for(node)
            case If(orelse=None, reads_data=False) if self.is_single:
                return self._guarded(node.condition, node.body)
            case If():
                inside, outside = self._below(node.condition), self._below()
                orelse = None if node.orelse is None else outside.node(node.orelse)
                return replace(node, body=inside.node(node.body), orelse=orelse)
            case Let():
                equal = p.Comparison(p.Variable(node.name), "==", node.value)
                inside = self._below(equal, values={node.name: self.signs.interval(node.value)})
                return replace(node, body=inside.node(node.body))
        inside = self._below() if isinstance(node, Comment) else self
        return map_children(node, inside.node)

    def _for(self, loop: For) -> Node:
        index = p.Variable(loop.iname)
        taken = self.signs.interval(loop.first).until(self.signs.interval(loop.stop))
        values = {loop.iname: taken}
        below = [p.Comparison(index, "<", top) for top in parts_of_bound(p.Min, loop.stop)]
        count = self._count(loop, taken)
        if count is None:
            above = p.Comparison(index, ">=", loop.first)
            body = self._below(above, *below, values=values).node(loop.body)
            return replace(loop, body=body)
        whole = self._whole_trips(loop, below, count)
        if not 0 < whole < count or len(runs_in(loop.body)) > MAX_COPIED_RUNS:
            return self._write_trips(loop, range(count), below, values)
        return Block(
            (
                self._write_trips(loop, range(whole), below, values),
                self._write_trips(loop, range(whole, count), below, values),
            )
        )

    def _whole_trips(self, loop: For, below: list[p.Comparison], count: int) -> int:
        """Return how many trips all work-items run, as far as bounds are constant."""
        last = self.signs.interval(loop.first).high
        tops = [c.right for c in below if isinstance(c.right, int)]
        if last is None or not tops:
            return 0
        return min(count, (min(tops) - 1 - last) // loop.step + 1)

    def _write_trips(
        self,
        loop: For,
        trips: range,
        below: list[p.Comparison],
        values: Mapping[str, Interval],
    ) -> Node:
        """Write some of the trips: a single one directly, several as a loop."""
        if len(trips) == 1:
            return self._trip(loop, trips.start)
        index, trip = p.Variable(loop.iname), p.Variable(self.names(loop.iname))
        value = _value_in(loop, trip)
        counted = (p.Comparison(trip, ">=", trips.start), p.Comparison(trip, "<", trips.stop))
        inside = self._below(p.Comparison(index, "==", value), *counted, trips=len(trips))
        needed = [c for c in below if not inside.facts.imply(c)]
        body = inside._below(*needed, values=values).node(loop.body)
        if needed:
            guard = conjunction([move_to_sides(c.left, "<", c.right) for c in needed])
            body = If(guard, body)
        named = Let(loop.iname, loop.dtype, value, body)
        first, stop = trips.start, trips.stop
        return For(trip.name, loop.dtype, first, stop, 1, named, loop.comment, is_short=True)

    def _trip(self, loop: For, number: int) -> Node:
        """Write one trip: the body with the value of the variable."""
        value = _value_in(loop, number)
        tops = parts_of_bound(p.Min, loop.stop)
        guard = conjunction([move_to_sides(value, "<", top) for top in tops])
        body = bind(loop.body, loop.iname, value)
        single = self._below(is_single=True)
        if isinstance(guard, bool):
            return single.node(body) if guard else Block(())
        return single._guarded(guard, body)

    def _guarded(self, condition: Expr, node: Node) -> Node:
        """Write the contents of a condition, without the parts that are known to be true."""
        needed = [part for part in conjuncts(condition) if not self.facts.imply(part)]
        inside = self._below(*needed, is_single=True)
        if needed and inside.facts.are_contradictory():
            return Block(())
        body = inside.node(node)
        return If(conjunction(needed), body) if needed else body

    def _count(self, loop: For, taken: Interval) -> int | None:
        """Return an upper bound of the trip count, if it should be constant."""
        if loop.step == 1 or taken.count is None:
            return None
        if not differs_in_group(loop.first) or has_barrier(loop.body):
            return None
        count = -(-taken.count // loop.step)
        return count if 0 < count <= min(MAX_TRIPS, self.room) else None


def _value_in(loop: For, trip: Expr) -> Expr:
    """Return the value of the variable of *loop* in a trip, counted from 0."""
    return simplify(p.Sum((p.Product((loop.step, trip)), loop.first)))
