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
from kgen.ir.functions import EXCHANGE
from kgen.ir.instruction import Assignment
from kgen.ir.kernel import LoopKernel
from kgen.ir.tree import Barrier, children_of
from kgen.ir.types import AddressSpace
from tests.reference import Evaluator, Memory, Point

__all__ = ["Device"]


class _Evaluator(Evaluator):
    """Evaluate what the code tree has besides the kernel's own expressions."""

    gid: Point
    lid: Point
    #: what another lane computes: by its distance, and an expression
    exchange: Callable[[int, Any], Any]

    def map_call(self, expr: p.Call) -> Any:
        if expr.function != p.Variable(EXCHANGE.name):
            return super().map_call(expr)
        _, value, distance = expr.parameters
        return self.exchange(int(self.rec(distance)), value)

    def map_group_hardware_axis_index(self, expr: GroupHardwareAxisIndex) -> int:
        return self.gid[expr.axis]

    def map_local_hardware_axis_index(self, expr: LocalHardwareAxisIndex) -> int:
        return self.lid[expr.axis]

    def map_trunc_quotient(self, expr: TruncQuotient) -> int:
        return _quotient(self.rec(expr.numerator), self.rec(expr.denominator))

    def map_trunc_remainder(self, expr: TruncRemainder) -> int:
        a, b = int(self.rec(expr.numerator)), int(self.rec(expr.denominator))
        return a - b * _quotient(a, b)


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
            items = [item.run(function.body, names) for item in group][:: self.step]
            while items:
                going = [item for item in items if next(item, None) is not None]
                assert going in ([], items), "work-items part at a barrier"
                items = going


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
        evaluator.exchange = lambda distance, expr: self._lane(distance).value(expr, names)
        return evaluator

    def _load(self, name: str, index: Point) -> Any:
        home = self._home(name)
        assert index in home, f"reads {name}{index}, not there"
        return home[index]

    def _lane(self, distance: int) -> _Item:
        return self.group[self.number ^ distance]

    def _home(self, name: str) -> Memory:
        array = self.kernel.temporary_variables.get(name)
        if isinstance(array, TemporaryVariable) and array.address_space != AddressSpace.GLOBAL:
            is_local = array.address_space == AddressSpace.LOCAL
            return (self.shared if is_local else self.own).setdefault(name, {})
        return self.memory.setdefault(name, {})

    def run(self, node: Node, names: Mapping[str, int]) -> Iterator[Run | Barrier]:
        """Execute *node*, stopping at barriers, and before and after lanes exchange values."""
        for step, values in self.walk(node, names):
            waits = isinstance(step, Barrier) or self._exchanges(step)
            if waits:
                yield step
            if isinstance(step, Run):
                self._execute(step, values)
                if waits:
                    yield step

    def _exchanges(self, run: Run) -> bool:
        exchange = p.Variable(EXCHANGE.name)
        read = walk(*self.kernel.id_to_insn[run.insn_id].read_exprs())
        return any(isinstance(expr, p.Call) and expr.function == exchange for expr in read)

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
