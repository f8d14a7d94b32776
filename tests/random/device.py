"""Launches executed in Python, on data: all work-items of a group, from barrier to barrier."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import pymbolic.primitives as p

from kgen.ast.nodes import Block, Comment, DeviceFunction, For, If, Let, Node, Run
from kgen.ir.assignee import assignee_name
from kgen.ir.data import TemporaryVariable
from kgen.ir.expr import (
    GroupHardwareAxisIndex,
    LocalHardwareAxisIndex,
    TruncQuotient,
    TruncRemainder,
    walk,
)
from kgen.ir.functions import LANE_BEFORE, LANES_OF_ROW, is_of_lane
from kgen.ir.instruction import Assignment
from kgen.ir.kernel import LoopKernel
from kgen.ir.tree import Barrier, children_of
from kgen.ir.types import AddressSpace
from tests.reference import Evaluator, Memory, Point

__all__ = ["Device"]

WARP = 32
#: Where a work-item waits: a barrier; or an exchange, whether it is done, and its mask.
_Stop = Barrier | tuple[Run, bool, Any]


class _Evaluator(Evaluator):
    """Evaluate what the code tree has besides the kernel's own expressions."""

    gid: Point
    lid: Point
    #: what another lane computes: by its number in the group, and an expression
    exchange: Callable[[int, Any], Any]
    lane: int

    def map_call(self, expr: p.Call) -> Any:
        if not is_of_lane(expr):
            return super().map_call(expr)
        mask, value, distance = expr.parameters
        apart = int(self.rec(distance))
        is_before = expr.function == p.Variable(LANE_BEFORE.name)
        other = self.lane - apart if is_before else self.lane ^ apart
        in_warp = other // WARP == self.lane // WARP
        if not in_warp or not lanes_of(mask, self.lane) >> other % WARP & 1:
            assert is_before, "reads beside the mask"
            return self.exchange(self.lane, value) if not in_warp else None  # which nobody may use
        return self.exchange(other, value)

    def map_group_hardware_axis_index(self, expr: GroupHardwareAxisIndex) -> int:
        return self.gid[expr.axis]

    def map_local_hardware_axis_index(self, expr: LocalHardwareAxisIndex) -> int:
        return self.lid[expr.axis]

    def map_trunc_quotient(self, expr: TruncQuotient) -> int:
        return _quotient(self.rec(expr.numerator), self.rec(expr.denominator))

    def map_trunc_remainder(self, expr: TruncRemainder) -> int:
        a, b = int(self.rec(expr.numerator)), int(self.rec(expr.denominator))
        return a - b * _quotient(a, b)


def lanes_of(mask: Any, number: int) -> int:
    """Return the mask that the work-item of a number passes."""
    if isinstance(mask, int):
        return mask
    assert mask.function == p.Variable(LANES_OF_ROW.name)
    first_row, others = mask.parameters
    return int(first_row) << (number % WARP & int(others))


def _quotient(a: Any, b: Any) -> int:
    """Divide as C does."""
    return int(abs(a) // b if a >= 0 else -(abs(a) // b))


class Device:
    """Runs launches; *reverse* turns the order of work-groups and work-items around."""

    def __init__(
        self, kernel: LoopKernel, parameters: Mapping[str, int], *, reverse: bool = False
    ) -> None:
        self.kernel = kernel
        self.parameters = parameters
        self.step = -1 if reverse else 1

    def run(
        self, host: Node, functions: Iterable[DeviceFunction], memory: dict[str, Memory]
    ) -> None:
        """Do what the host does: launches, and the loops around them."""
        of_name = {function.name: function for function in functions}
        for launch, names in _Item(self, {}, {}).walk(host, self.parameters):
            assert isinstance(launch, Run)
            self.launch(of_name[launch.insn_id], memory, names)

    def launch(
        self,
        function: DeviceFunction,
        memory: dict[str, Memory],
        names: Mapping[str, int] | None = None,
    ) -> None:
        """Run one function on *memory*; work-items of a group go on together at barriers."""
        names = self.parameters if names is None else names
        size = _Item(self, {}, {})
        counts = [size.value(count, names) for count in function.groups]
        groups = list(itertools.product(*map(range, counts)))[:: self.step]
        for gid in groups:
            shared: dict[str, Memory] = {}
            group: list[_Item] = []
            for lid in itertools.product(*map(range, reversed(function.locals))):
                group.append(_Item(self, memory, shared, gid, lid[::-1], group))
            self._run_together(group, function, names)

    def _run_together(
        self, group: list[_Item], function: DeviceFunction, names: Mapping[str, int]
    ) -> None:
        """Run all work-items: from barrier to barrier, or until those of a mask exchange values."""
        items = {item.number: item.run(function.body, names) for item in group[:: self.step]}
        stops = {number: next(item, None) for number, item in items.items()}
        while any(stop is not None for stop in stops.values()):
            going = {n for n, stop in stops.items() if self._is_met(n, stop, stops)}
            assert going, "work-items part at a barrier, or where they exchange values"
            stops.update({number: next(items[number], None) for number in stops if number in going})

    def _is_met(self, number: int, stop: _Stop | None, stops: Mapping[int, _Stop | None]) -> bool:
        """Tell whether all that have to meet a work-item are where it is."""
        if stop is None or isinstance(stop, Barrier):
            return stop is not None and all(other is stop for other in stops.values())
        lanes, warp = lanes_of(stop[2], number), number - number % WARP
        others = {warp + bit for bit in range(WARP) if lanes >> bit & 1}
        assert number in others, "is not in its own mask"
        return all(stops.get(other) == stop for other in others)


class _Item:
    """One work-item."""

    def __init__(
        self,
        device: Device,
        memory: dict[str, Memory],
        shared: dict[str, Memory],
        gid: Point = (),
        lid: Point = (),
        group: Sequence[_Item] = (),
    ) -> None:
        self.kernel = device.kernel
        #: all work-items of its group, in the order in which lanes count them
        self.group, self.number = group, len(group)
        self.own: dict[str, Memory] = {}
        self.memory, self.shared, self.gid, self.lid = memory, shared, gid, lid

    def value(self, expr: Any, names: Mapping[str, int]) -> Any:
        """Evaluate an expression of the code tree."""
        return self._evaluator(names)(expr)

    def _evaluator(self, names: Mapping[str, int]) -> _Evaluator:
        evaluator = _Evaluator(names, self._load, None)
        evaluator.gid, evaluator.lid = self.gid, self.lid
        evaluator.lane = self.number
        evaluator.exchange = lambda other, expr: self.group[other].value(expr, names)
        return evaluator

    def _load(self, name: str, index: Point) -> Any:
        home = self._home(name)
        assert index in home, f"reads {name}{index}, not there"
        return home[index]

    def _home(self, name: str) -> Memory:
        array = self.kernel.temporary_variables.get(name)
        if isinstance(array, TemporaryVariable) and array.address_space != AddressSpace.GLOBAL:
            is_local = array.address_space == AddressSpace.LOCAL
            return (self.shared if is_local else self.own).setdefault(name, {})
        return self.memory.setdefault(name, {})

    def run(self, node: Node, names: Mapping[str, int]) -> Iterator[_Stop]:
        """Execute *node*, stopping at barriers, and before and after lanes exchange values."""
        for step, values in self.walk(node, names):
            if isinstance(step, Barrier):
                yield step
                continue
            masks = list(self._masks(step))
            yield from ((step, False, mask) for mask in masks)
            self._execute(step, values)
            yield from ((step, True, mask) for mask in masks)

    def _masks(self, run: Run) -> Iterator[Any]:
        read = walk(*self.kernel.id_to_insn[run.insn_id].read_exprs())
        return (expr.parameters[0] for expr in read if is_of_lane(expr))

    def walk(
        self, node: Node, names: Mapping[str, int]
    ) -> Iterator[tuple[Run | Barrier, Mapping[str, int]]]:
        """Find what runs, in order, and the names that it knows."""
        match node:
            case For():
                counter = self.value(node.first, names)
                while counter < self.value(node.stop, names):
                    yield from self.walk(node.body, {**names, node.iname: counter})
                    counter += node.step
            case If():
                taken = node.body if self.value(node.condition, names) else node.orelse
                if taken is not None:
                    yield from self.walk(taken, names)
            case Let():
                yield from self.walk(node.body, {**names, node.name: self.value(node.value, names)})
            case Block() | Comment():
                for child in children_of(node):
                    yield from self.walk(child, names)
            case Run():
                bound = {name: self.value(value, names) for name, value in node.values.items()}
                yield node, {**names, **bound}
            case Barrier():
                yield node, names

    def _execute(self, run: Run, names: Mapping[str, int]) -> None:
        insn = self.kernel.id_to_insn[run.insn_id]
        if isinstance(insn, Assignment):
            evaluate = self._evaluator(names)
            place = insn.assignee
            assert isinstance(place, p.Variable | p.Subscript)
            self._home(assignee_name(place))[evaluate.index(place)] = evaluate(insn.expression)
