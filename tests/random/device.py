"""Launches executed in Python, on data: all work-items of a group, from barrier to barrier."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

import pymbolic.primitives as p

from kgen.ast.nodes import (
    Barrier,
    Block,
    Comment,
    DeviceFunction,
    For,
    If,
    Let,
    Node,
    Run,
    children_of,
)
from kgen.ir.assignee import assignee_name
from kgen.ir.data import TemporaryVariable
from kgen.ir.expr import (
    GroupHardwareAxisIndex,
    LocalHardwareAxisIndex,
    TruncQuotient,
    TruncRemainder,
)
from kgen.ir.instruction import Assignment
from kgen.ir.kernel import LoopKernel
from kgen.ir.types import AddressSpace
from tests.reference import Evaluator, Memory, Point

__all__ = ["Device"]


class _Evaluator(Evaluator):
    """Evaluate what the code tree has besides the kernel's own expressions."""

    gid: Point
    lid: Point

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

    def launch(self, function: DeviceFunction, memory: dict[str, Memory]) -> None:
        """Run one function on *memory*; work-items of a group go on together at barriers."""
        size = _Item(self, {}, {}, (), ())
        counts = [size.value(count, self.parameters) for count in function.groups]
        groups = list(itertools.product(*map(range, counts)))[:: self.step]
        for gid in groups:
            shared: dict[str, Memory] = {}
            items = [
                _Item(self, memory, shared, gid, lid).run(function.body, self.parameters)
                for lid in itertools.product(*map(range, function.locals))
            ][:: self.step]
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
        gid: Point,
        lid: Point,
    ) -> None:
        self.kernel = device.kernel
        self.own: dict[str, Memory] = {}
        self.memory, self.shared, self.gid, self.lid = memory, shared, gid, lid

    def value(self, expr: Any, names: Mapping[str, int]) -> Any:
        """Evaluate an expression of the code tree."""
        return self._evaluator(names)(expr)

    def _evaluator(self, names: Mapping[str, int]) -> _Evaluator:
        evaluator = _Evaluator(names, lambda name, index: self._home(name)[index], None)
        evaluator.gid, evaluator.lid = self.gid, self.lid
        return evaluator

    def _home(self, name: str) -> Memory:
        array = self.kernel.temporary_variables.get(name)
        if isinstance(array, TemporaryVariable) and array.address_space != AddressSpace.GLOBAL:
            is_local = array.address_space == AddressSpace.LOCAL
            return (self.shared if is_local else self.own).setdefault(name, {})
        return self.memory.setdefault(name, {})

    def run(self, node: Node, names: Mapping[str, int]) -> Iterator[Barrier]:
        """Execute *node*, stopping at each barrier."""
        match node:
            case For():
                counter = self.value(node.first, names)
                while counter < self.value(node.stop, names):
                    yield from self.run(node.body, {**names, node.iname: counter})
                    counter += node.step
            case If():
                taken = node.body if self.value(node.condition, names) else node.orelse
                if taken is not None:
                    yield from self.run(taken, names)
            case Let():
                yield from self.run(node.body, {**names, node.name: self.value(node.value, names)})
            case Block() | Comment():
                for child in children_of(node):
                    yield from self.run(child, names)
            case Run():
                self._execute(node, names)
            case Barrier():
                yield node

    def _execute(self, node: Run, names: Mapping[str, int]) -> None:
        insn = self.kernel.id_to_insn[node.insn_id]
        if isinstance(insn, Assignment):
            bound = {name: self.value(value, names) for name, value in node.values.items()}
            evaluate = self._evaluator({**names, **bound})
            place = insn.assignee
            assert isinstance(place, p.Variable | p.Subscript)
            self._home(assignee_name(place))[evaluate.index(place)] = evaluate(insn.expression)
