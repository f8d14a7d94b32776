"""Launches executed in Python, on data: all work-items of a group, from barrier to barrier.

Iterations of loops over lanes go on together, too: what one reads, none has written meanwhile.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pymbolic.primitives as p
from pymbolic.mapper.evaluator import evaluate

from kgen.analysis.products import Factors, TensorLoops, tensor_factors, tensor_loops
from kgen.analysis.typing import ExpressionTyper
from kgen.ast.nodes import Block, Comment, DeviceFunction, For, If, Let, Node, Persistent, Run
from kgen.ast.persistent import HALF, KEPT
from kgen.ir.assignee import assignee_name
from kgen.ir.data import TemporaryVariable
from kgen.ir.expr import (
    GroupHardwareAxisIndex,
    LocalHardwareAxisIndex,
    TruncQuotient,
    TruncRemainder,
    variable_names,
    walk,
)
from kgen.ir.fragments import GROUP, Fragment
from kgen.ir.functions import LANE_BEFORE, LANES_OF_ROW, is_of_lane
from kgen.ir.instruction import Assignment
from kgen.ir.kernel import LoopKernel
from kgen.ir.tags import AsyncCopyTag, CopyCommitTag, CopyWaitTag, LookBackTag
from kgen.ir.tree import Barrier, children_of
from kgen.ir.types import AddressSpace, Reach
from tests.fragments import matrices, ptx_c
from tests.reference import Evaluator, Memory, Point

__all__ = ["Device"]

WARP = 32


def at_lane(loops: TensorLoops, lane: int) -> dict[str, int]:
    """Return the values of the loops over lanes for a given lane."""
    numbers = (lane,) if len(loops.lanes) == 1 else divmod(lane, GROUP)
    return dict(zip(loops.lanes, numbers, strict=True))


@dataclass(frozen=True)
class _Wait:
    """Where a work-item waits for what another work-group publishes: an element of memory."""

    memory: Memory
    index: Point

    @property
    def is_over(self) -> bool:
        """Whether the element is there."""
        return self.index in self.memory


#: Where a work-item waits; at an exchange, whether that is done, and its mask.
_Stop = Barrier | _Wait | tuple[Run, bool, Any]


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


def _held(fragment: Fragment, lane: int) -> list[tuple[int, int]]:
    """Return rows and columns of the elements that generated code lets a lane load."""
    parts = map(fragment.element, range(fragment.count))
    return [(int(evaluate(r, {"lane": lane})), int(evaluate(c, {"lane": lane}))) for r, c in parts]


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
        waiting = [self._group(gid, function, memory, names) for gid in groups]
        is_going = True
        while waiting:
            assert is_going, "work-groups wait for each other"
            steps = [next(group, None) for group in waiting]
            is_going = any(step is not False for step in steps)
            waiting = [g for g, step in zip(waiting, steps, strict=True) if step is not None]

    def _group(
        self,
        gid: Point,
        function: DeviceFunction,
        memory: dict[str, Memory],
        names: Mapping[str, int],
    ) -> Iterator[bool]:
        """Run a group; where it waits for other groups, tell whether it has gone on until then."""
        shared: dict[str, Memory] = {}
        group: list[_Item] = []
        for lid in itertools.product(*map(range, reversed(function.locals))):
            group.append(_Item(self, memory, shared, gid, lid[::-1], group))
        yield from self._run_together(group, function, names)

    def _run_together(
        self, group: list[_Item], function: DeviceFunction, names: Mapping[str, int]
    ) -> Iterator[bool]:
        """Run all work-items: from barrier to barrier, or until those of a mask exchange values."""
        has_gone_on = False
        items = {item.number: item.run(function.body, names) for item in group[:: self.step]}
        stops = {number: next(item, None) for number, item in items.items()}
        while any(stop is not None for stop in stops.values()):
            going = {n for n, stop in stops.items() if self._is_met(n, stop, stops)}
            if not going:
                is_waiting = any(isinstance(stop, _Wait) for stop in stops.values())
                assert is_waiting, "work-items part at a barrier, or where they exchange values"
                yield has_gone_on
                has_gone_on = False
                continue
            has_gone_on = True
            going = self._chosen(going, stops)
            stops.update({number: next(items[number], None) for number in stops if number in going})

    def _chosen(self, going: set[int], stops: Mapping[int, _Stop | None]) -> set[int]:
        """Choose who goes on: in reverse, one warp as far as it gets."""
        width = self.kernel.target.barrier_width
        of_warps = [n for n in going if getattr(stops[n], "reach", None) is Reach.WARP]
        if width is None or self.step > 0 or not of_warps:
            return going
        return {n for n in of_warps if n // width == max(of_warps) // width}

    def _is_met(self, number: int, stop: _Stop | None, stops: Mapping[int, _Stop | None]) -> bool:
        """Tell whether all that have to meet a work-item are where it is."""
        if isinstance(stop, _Wait):
            return stop.is_over
        if stop is None:
            return False
        if isinstance(stop, Barrier):
            width = self.kernel.target.barrier_width or len(stops)
            is_of_group = stop.reach is Reach.GROUP
            met = (n for n in stops if is_of_group or n // width == number // width)
            return all(stops[n] is stop for n in met)
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
        #: groups of copies that go on, the last of which is not complete: where, and what
        self.copies: list[list[tuple[Memory, Point, Any]]] = [[]]
        #: the elements of both factors that it has loaded for tensor cores
        self.fragments: tuple[list[Any], list[Any]] = ([], [])
        #: the elements of both factors that its warp has read in this step
        self.matrices: dict[Any, Any] = {}
        #: of the lane that goes on, the scalars that it has set
        self.lane: dict[str, Any] = {}
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
        if name in self.lane:
            return self.lane[name]
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
            if step.over:
                yield from self._step_of_warp(step, values)
                continue
            yield from self._waits(step, values)
            masks = list(self._masks(step))
            yield from ((step, False, mask) for mask in masks)
            self._execute(step, values)
            yield from ((step, True, mask) for mask in masks)

    def _waits(self, run: Run, names: Mapping[str, int]) -> Iterator[_Wait]:
        """Give what an instruction waits for that looks back at other work-groups."""
        insn = self.kernel.id_to_insn[run.insn_id]
        if insn.tags_of_type(LookBackTag):
            for expr in walk(*insn.read_exprs()):
                if isinstance(expr, p.Subscript):
                    memory = self._home(assignee_name(expr))
                    yield _Wait(memory, self._evaluator(names).index(expr))

    def _masks(self, run: Run) -> Iterator[Any]:
        read = walk(*self.kernel.id_to_insn[run.insn_id].read_exprs())
        return (expr.parameters[0] for expr in read if is_of_lane(expr))

    def _step_of_warp(self, run: Run, names: Mapping[str, int]) -> Iterator[_Stop]:
        """Load elements of both factors, wait for all lanes, and add up what PTX's tables say."""
        insn = self.kernel.id_to_insn[run.insn_id]
        loops = tensor_loops(self.kernel, insn)
        assert loops is not None
        assert isinstance(insn, Assignment)
        factors = tensor_factors(loops, insn, ExpressionTyper(self.kernel))
        assert factors is not None
        shape = loops.shape
        if shape.a is None or shape.b is None:
            yield from self._step_of_warpgroup(run, insn, loops, factors, names)
            return
        lane = self.number % WARP
        self.fragments = (
            [self._element(factors.a, loops, names, *reversed(at)) for at in _held(shape.a, lane)],
            [self._element(factors.b, loops, names, *at) for at in _held(shape.b, lane)],
        )
        yield run, False, 2**WARP - 1
        a, b = matrices(shape, [i.fragments for i in self.group[self.number - lane :][:WARP]])
        for row, column in ptx_c(shape, lane):
            at = {**names, **at_lane(loops, lane), loops.column: column % 2}
            evaluate = self._evaluator({**at, loops.row: row // 8} if loops.row else at)
            place = insn.assignee
            assert isinstance(place, p.Variable | p.Subscript)
            home, index = self._home(assignee_name(place)), evaluate.index(place)
            home[index] += sum(a[row, k] * b[k, column] for k in range(shape.depth))
        yield run, True, 2**WARP - 1

    def _step_of_warpgroup(
        self,
        run: Run,
        insn: Assignment,
        loops: TensorLoops,
        factors: Factors,
        names: Mapping[str, int],
    ) -> Iterator[_Stop]:
        """Add up products of what is in local memory now; a warp reads each element once."""
        lane = self.number % loops.shape.lanes
        found = self.group[self.number - self.number % WARP].matrices
        found.clear()
        yield run, False, 2**WARP - 1

        def element(factor: Any, place: int, at: Mapping[str, int]) -> Any:
            key = factor, place, at[loops.depth]
            if key not in found:
                found[key] = self.value(factor, at)
            return found[key]

        for row, column in ptx_c(loops.shape, lane):
            own = {**names, **at_lane(loops, lane), loops.row or "": row // 8 % 2}
            own |= {loops.column: column % 2, loops.block or "": column // 8}
            home, index = self._place(insn.assignee, own)
            for k in range(loops.shape.depth):
                at = {**own, loops.depth: k}
                home[index] += element(factors.a, row, at) * element(factors.b, column, at)
        yield run, True, 2**WARP - 1

    def _place(self, place: Any, names: Mapping[str, int]) -> tuple[Memory, Any]:
        return self._home(assignee_name(place)), self._evaluator(names).index(place)

    def _element(
        self, factor: Any, loops: TensorLoops, names: Mapping[str, int], depth: int, other: int
    ) -> Any:
        """Evaluate a factor of a term and of a row, or of a column, in this work-item."""
        at = {**names, loops.depth: depth}
        if loops.column in variable_names(factor):
            at |= loops.at_column(other)
        else:
            at |= loops.at_row(other % 8) | {loops.row or "": other // 8}
        return self.value(factor, at)

    def walk(
        self, node: Node, names: Mapping[str, int]
    ) -> Iterator[tuple[Run | Barrier, Mapping[str, int]]]:
        """Find what runs, in order, and the names that it knows."""
        match node:
            case For():
                yield from self._iterations(node, names)
            case Run():
                bound = {name: self.value(value, names) for name, value in node.values.items()}
                yield node, {**names, **bound}
            case Barrier():
                yield node, names
            case _:
                for part, known in self._parts(node, names):
                    yield from self.walk(part, known)

    def _parts(
        self, node: Node, names: Mapping[str, int]
    ) -> Iterator[tuple[Node, Mapping[str, int]]]:
        """Find the parts that are executed, in order, and the names that they know."""
        match node:
            case If():
                taken = node.body if self.value(node.condition, names) else node.orelse
                if taken is not None:
                    yield taken, names
            case Let():
                yield node.body, {**names, node.name: self.value(node.value, names)}
            case Block() | Comment():
                yield from ((child, names) for child in children_of(node))
            case Persistent():  # each group of the launch runs one of the kernel, in two turns
                for half, part in ((0, node.begin), (0, node.keep), (1, node.end)):
                    if part is not None:
                        yield part, {**names, HALF: half}
            case _:
                raise AssertionError(node)

    def _iterations(
        self, loop: For, names: Mapping[str, int]
    ) -> Iterator[tuple[Run | Barrier, Mapping[str, int]]]:
        """Find what the iterations of a loop run; those of lanes run here."""
        if loop.is_simd:
            self._run_lanes(loop, names)
            return
        counter = self.value(loop.first, names)
        while counter < self.value(loop.stop, names):
            yield from self.walk(loop.body, {**names, loop.iname: counter})
            counter += loop.step

    def _execute(self, run: Run, names: Mapping[str, int]) -> None:
        insn = self.kernel.id_to_insn[run.insn_id]
        if insn.tags_of_type(CopyCommitTag):
            self.copies.append([])
        if isinstance(insn, Assignment):
            for tag in insn.tags_of_type(CopyWaitTag):
                self._complete(tag.pending)
            evaluate = self._evaluator(names)
            place = insn.assignee
            assert isinstance(place, p.Variable | p.Subscript)
            home, index = self._home(assignee_name(place)), evaluate.index(place)
            if self._is_unset(insn, evaluate):
                home.pop(index, None)
                return
            home[index] = value = evaluate(insn.expression)
            if insn.tags_of_type(AsyncCopyTag):
                del home[index]
                self.copies[-1].append((home, index, value))

    def _is_unset(self, insn: Assignment, evaluate: _Evaluator) -> bool:
        """Tell whether *insn* copies an element of a temporary that nothing has written yet.

        Whether a copy of it is read decides if the program is wrong. Of scalars, this concerns
        those that persistent groups keep.
        """
        expr = insn.expression
        if isinstance(expr, p.Variable) and insn.assignee_name.startswith(KEPT):
            return () not in self._home(expr.name)
        name = assignee_name(expr) if isinstance(expr, p.Subscript) else ""
        array = self.kernel.temporary_variables.get(name)
        if array is None or array.initializer is not None or not isinstance(array.shape, tuple):
            return False
        index = evaluate.index(expr)
        is_inside = all(0 <= k < evaluate(n) for k, n in zip(index, array.shape, strict=True))
        return is_inside and index not in self._home(name)

    def _complete(self, pending: int) -> None:
        """Complete copies, but for the last *pending* groups of them."""
        while len(self.copies) - 1 > pending:
            for home, index, value in self.copies.pop(0):
                home[index] = value

    # -- lanes ------------------------------------------------------------------------------

    def _run_lanes(self, loop: For, names: Mapping[str, int]) -> None:
        """Execute a loop whose iterations go on together, from statement to statement."""
        first, stop = self.value(loop.first, names), self.value(loop.stop, names)
        lanes = [_Lane({**names, loop.iname: k}, {}) for k in range(first, stop, loop.step)]
        self._together(loop.body, lanes)
        for lane in lanes:
            for name, value in lane.scalars.items():
                self._home(name)[()] = value

    def _in_lane(self, expr: Any, lane: _Lane) -> Any:
        """Evaluate an expression in one lane."""
        self.lane = lane.scalars
        value = self.value(expr, lane.names)
        self.lane = {}
        return value

    def _together(self, node: Node, lanes: Sequence[_Lane]) -> None:
        match node:
            case For():
                counters = [(self._in_lane(node.first, lane), lane) for lane in lanes]
                while going := [x for x in counters if x[0] < self._in_lane(node.stop, x[1])]:
                    inside = [lane.inside(node.iname, counter) for counter, lane in going]
                    self._together(node.body, inside)
                    counters = [(counter + node.step, lane) for counter, lane in going]
            case If():
                masks = [bool(self._in_lane(node.condition, lane)) for lane in lanes]
                self._together(node.body, [x for x, m in zip(lanes, masks, strict=True) if m])
                if node.orelse is not None:
                    others = [x for x, m in zip(lanes, masks, strict=True) if not m]
                    self._together(node.orelse, others)
            case Let():
                named = [x.inside(node.name, self._in_lane(node.value, x)) for x in lanes]
                self._together(node.body, named)
            case Block() | Comment():
                for child in children_of(node):
                    self._together(child, lanes)
            case Run():
                self._execute_together(node, lanes)
            case Barrier():
                raise AssertionError("lanes wait at a barrier")

    def _execute_together(self, run: Run, lanes: Sequence[_Lane]) -> None:
        """Execute an instruction: all lanes read, then all write."""
        insn = self.kernel.id_to_insn[run.insn_id]
        assert isinstance(insn, Assignment)
        stores = []
        for lane in lanes:
            bound = {name: self._in_lane(value, lane) for name, value in run.values.items()}
            inside = _Lane({**lane.names, **bound}, lane.scalars)
            self.lane = lane.scalars
            index = self._evaluator(inside.names).index(insn.assignee)
            stores.append((lane, index, self._in_lane(insn.expression, inside)))
        name = assignee_name(insn.assignee)
        for lane, index, value in stores:
            if self.kernel.array_vars[name].shape == ():
                lane.scalars[name] = value
            else:
                self._home(name)[index] = value


@dataclass(frozen=True)
class _Lane:
    """One iteration of a loop over lanes: the names it knows, and the scalars it has set."""

    names: Mapping[str, int]
    scalars: dict[str, Any]

    def inside(self, name: str, value: int) -> _Lane:
        return _Lane({**self.names, name: value}, self.scalars)
