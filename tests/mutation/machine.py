"""Run the code tree of a kernel in Python, work-items in an order that brings out races."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

import pymbolic.primitives as p
from pymbolic.mapper.evaluator import EvaluationMapper

from kgen.ast.nodes import DeviceFunction
from kgen.ir.assignee import assignee_name, index_of
from kgen.ir.instruction import Assignment, NoOpInstruction
from kgen.ir.kernel import LoopKernel
from kgen.ir.tags import AsyncCopyTag, CopyCommitTag, CopyWaitTag
from kgen.ir.types import AddressSpace, Reach
from tests.oracle import BARRIERS, Instance, Oracle, Point

#: Memory by array and element; an element that nobody wrote is not a number.
Memory = dict[str, dict[Point, Any]]
#: Copies that go on: where they write, and what.
Copies = list[tuple[dict[Point, Any], Point, Any]]
#: Puts the work-items of a group, or the groups, in the order in which they run.
Order = Callable[[list[Any]], list[Any]]

ORDERS: Mapping[str, Order] = {
    "forwards": list,
    "backwards": lambda items: list(reversed(items)),
    "odd ones first": lambda items: items[1::2] + items[::2],
}

_FUNCTIONS: Mapping[str, Callable[..., Any]] = {"max": max, "min": min, "sqrt": math.sqrt}


class _Values(EvaluationMapper[Any]):
    """Evaluate an expression for one instance."""

    def __init__(self, names: Mapping[str, Any], memory: Callable[[str], dict[Point, Any]]) -> None:
        super().__init__(dict(names))
        self.memory = memory

    def map_variable(self, expr: p.Variable) -> Any:
        if expr.name in self.context:
            return self.context[expr.name]
        return self.memory(expr.name).get((), math.nan)

    def map_subscript(self, expr: p.Subscript) -> Any:
        index = tuple(self.rec(i) for i in expr.index_tuple)
        if any(math.isnan(i) for i in index):
            return math.nan
        assert isinstance(expr.aggregate, p.Variable)
        return self.memory(expr.aggregate.name).get(tuple(map(int, index)), math.nan)

    def map_call(self, expr: p.Call) -> Any:
        assert isinstance(expr.function, p.Variable)
        return _FUNCTIONS[expr.function.name](*(self.rec(x) for x in expr.parameters))

    def map_type_cast(self, expr: Any) -> Any:
        return self.rec(expr.child)

    def map_typed_literal(self, expr: Any) -> Any:
        return expr.value


class Machine:
    """Runs the launches of a kernel."""

    def __init__(self, kernel: LoopKernel, parameters: Mapping[str, int], inputs: Memory) -> None:
        self.kernel = kernel
        self.parameters = parameters
        self.oracle = Oracle(kernel, parameters)
        #: the groups of copies that work-items have begun, the last of which is not complete
        self.copies: dict[int, list[Copies]] = {}
        self.device: Memory = {name: dict(values) for name, values in inputs.items()}

    def run(self, functions: Iterable[DeviceFunction], order: Order, in_step: bool) -> Memory:
        """Run all launches, and return the arguments; *in_step*: one statement each in turn."""
        for function in functions:
            groups: dict[Point, list[list[Instance]]] = {}
            for gid, trace in self.oracle.traces(function):
                groups.setdefault(gid, []).append(trace)
            lids = list(itertools.product(*map(range, function.locals)))
            numbered = sorted(range(len(lids)), key=lambda at: lids[at][::-1])
            for _, traces in order(list(groups.items())):
                self._run_group([traces[at] for at in numbered], order, in_step)
        return {arg.name: self.device.get(arg.name, {}) for arg in self.kernel.args}

    def _run_group(self, traces: list[list[Instance]], order: Order, in_step: bool) -> None:
        shared: Memory = {}
        own: list[Memory] = [{} for _ in traces]
        self.copies.clear()
        width = self.kernel.target.barrier_width or len(traces)
        phases = [_phases(trace, Reach.GROUP) for trace in traces]
        for phase in itertools.zip_longest(*phases, fillvalue=[]):
            items = list(enumerate(phase))
            warps = [items[first : first + width] for first in range(0, len(items), width)]
            for k, instance in chain.from_iterable(order([_run(w, order, in_step) for w in warps])):
                self._execute(instance, shared, own[k])

    def _execute(self, instance: Instance, shared: Memory, own: Memory) -> None:
        insn_id, point = instance
        insn = self.kernel.id_to_insn[insn_id]
        if insn.tags_of_type(CopyCommitTag):
            self.copies.setdefault(id(own), [[]]).append([])
        if isinstance(insn, NoOpInstruction):
            return
        assert isinstance(insn, Assignment)
        for tag in insn.tags_of_type(CopyWaitTag):
            self._complete(self.copies.setdefault(id(own), [[]]), tag.pending)
        names = {**self.parameters, **dict(zip(self.oracle.inames[insn_id], point, strict=True))}

        def memory(name: str) -> dict[Point, Any]:
            temporary = self.kernel.temporary_variables.get(name)
            where = self.device
            if temporary is not None and temporary.address_space != AddressSpace.GLOBAL:
                where = shared if temporary.address_space == AddressSpace.LOCAL else own
            return where.setdefault(name, {})

        values = _Values(names, memory)
        if all(values(condition) for condition in insn.predicates):
            place = tuple(int(values(i)) for i in index_of(insn.assignee))
            written = memory(assignee_name(insn.assignee))
            written[place] = value = values(insn.expression)
            if insn.tags_of_type(AsyncCopyTag):  # nobody knows what is there until the wait
                written[place] = math.nan
                self.copies.setdefault(id(own), [[]])[-1].append((written, place, value))

    @staticmethod
    def _complete(groups: list[Copies], pending: int) -> None:
        """Complete the copies of a work-item, but for the last *pending* groups of them."""
        while len(groups) - 1 > pending:
            for written, place, value in groups.pop(0):
                written[place] = value


def _run(
    warp: list[tuple[int, list[Instance]]], order: Order, in_step: bool
) -> Iterator[tuple[int, Instance]]:
    """Give what the work-items of a warp run until a barrier of the group, in an order."""
    phases = [_phases(trace, Reach.WARP) for _, trace in warp]
    numbers = [number for number, _ in warp]
    for phase in itertools.zip_longest(*phases, fillvalue=[]):
        parts = order(list(zip(numbers, phase, strict=True)))
        rows = [[(number, instance) for instance in part] for number, part in parts]
        turns = itertools.zip_longest(*rows) if in_step else rows
        yield from (step for turn in turns for step in turn if step is not None)


def _phases(trace: list[Instance], reach: Reach) -> Iterator[list[Instance]]:
    """Cut a trace at barriers."""
    part: list[Instance] = []
    for instance in trace:
        if instance[0] == BARRIERS[reach]:
            yield part
            part = []
        else:
            part.append(instance)
    yield part


def all_results(
    kernel: LoopKernel,
    functions: tuple[DeviceFunction, ...],
    parameters: Mapping[str, int],
    inputs: Memory,
) -> Iterator[tuple[str, Memory]]:
    """Run a kernel in every order; give what each computes."""
    for name, order in ORDERS.items():
        for in_step in (False, True):
            machine = Machine(kernel, parameters, inputs)
            yield f"{name}, {in_step=}", machine.run(functions, order, in_step)


def is_same(one: Memory, other: Memory) -> bool:
    """Tell whether two memories have equal numbers everywhere."""
    return all(
        one[name].keys() == other[name].keys()
        and all(_is_near(one[name][at], other[name][at]) for at in one[name])
        for name in one
    )


def _is_near(one: Any, other: Any) -> bool:
    return bool(one == other or math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-9))
