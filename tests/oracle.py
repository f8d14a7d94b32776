"""Interpret a kernel's code tree in Python, and hold it against the kernel's domains.

Every instance of every instruction must run exactly once, after the instances that it
depends on, and all work-items of a group must meet the same barriers.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, Final

import islpy as isl
import pymbolic.primitives as p
from pymbolic import Variable
from pymbolic.mapper.evaluator import EvaluationMapper, UnknownVariableError

from kgen.ast.nodes import Block, Comment, DeviceFunction, For, If, Let, Node, Run
from kgen.errors import ExpressionToAffineConversionError
from kgen.ir.expr import TruncQuotient, TruncRemainder, is_constant
from kgen.ir.instruction import Assignment, BarrierInstruction, InstructionBase
from kgen.ir.kernel import LoopKernel
from kgen.ir.sets.quasi_affine import set_from_condition
from kgen.ir.tree import Barrier, children_of
from kgen.ir.types import AddressSpace, Reach

Point = tuple[int, ...]
Instance = tuple[str, Point]


class Evaluator(EvaluationMapper[Any]):
    """Evaluate with C's integer division where the code has it."""

    def __init__(self, values: Mapping[str, int], gid: Point, lid: Point) -> None:
        super().__init__(dict(values))
        self.gid, self.lid = gid, lid

    def map_group_hardware_axis_index(self, expr: Any) -> int:
        return int(self.gid[expr.axis])

    def map_local_hardware_axis_index(self, expr: Any) -> int:
        return int(self.lid[expr.axis])

    def map_trunc_quotient(self, expr: TruncQuotient) -> int:
        a, b = self.rec(expr.numerator), self.rec(expr.denominator)
        return int(abs(a) // b if a >= 0 else -(abs(a) // b))

    def map_trunc_remainder(self, expr: TruncRemainder) -> int:
        a, b = self.rec(expr.numerator), self.rec(expr.denominator)
        return int(a - b * (abs(a) // b if a >= 0 else -(abs(a) // b)))


def _holds(node: If, condition: Any, value: Evaluator) -> bool:
    """Tell whether a condition holds; the parts of it that are on data do, always."""
    if isinstance(condition, p.LogicalAnd):
        return all(_holds(node, part, value) for part in condition.children)
    try:
        return bool(value(condition))
    except UnknownVariableError:
        if node.reads_data:
            return True
        raise


#: Barriers in traces.
BARRIERS: Final = {Reach.WARP: "warp barrier", Reach.GROUP: "barrier"}


class Oracle:
    """The trace of one launch for fixed parameters: per work-item, what ran in order."""

    def __init__(self, kernel: LoopKernel, parameters: Mapping[str, int]) -> None:
        self.kernel = kernel
        self.parameters = dict(parameters)
        self.inames = {
            str(insn.id): tuple(sorted(insn.within_inames, key=kernel.iname_order.__getitem__))
            for insn in kernel.instructions
        }

    def traces(self, function: DeviceFunction) -> Iterator[tuple[Point, list[Instance]]]:
        """Return group index and trace of every work-item; barriers are ids in ``BARRIERS``."""
        counts = [self._value(count, (), ()) for count in function.groups]
        for gid in itertools.product(*(range(count) for count in counts)):
            for lid in itertools.product(*(range(size) for size in function.locals)):
                trace: list[Instance] = []
                self._run(function.body, self.parameters, gid, lid, trace)
                yield gid, trace

    def _value(self, expr: Any, gid: Point, lid: Point) -> int:
        return int(Evaluator(self.parameters, gid, lid)(expr))

    def _run(
        self, node: Node, names: dict[str, int], gid: Point, lid: Point, trace: list[Instance]
    ) -> None:
        value = Evaluator(names, gid, lid)
        match node:
            case For():
                counter = value(node.first)
                while counter < value(node.stop):
                    self._run(node.body, {**names, node.iname: counter}, gid, lid, trace)
                    counter += node.step
            case If():
                taken = node.body if _holds(node, node.condition, value) else node.orelse
                if taken is not None:
                    self._run(taken, names, gid, lid, trace)
            case Let():
                inner = {**names, node.name: value(node.value)}
                self._run(node.body, inner, gid, lid, trace)
            case Block() | Comment():
                for child in children_of(node):
                    self._run(child, names, gid, lid, trace)
            case Run():
                trace.extend(self._instances(node, names, value))
            case Barrier():
                trace.append((BARRIERS[node.reach], ()))

    def _instances(
        self, run: Run, names: Mapping[str, int], value: Evaluator
    ) -> Iterator[Instance]:
        """Give the instances of an instruction: one, or those of a step of tensor cores."""
        at = {**names, **{name: value(expr) for name, expr in run.values.items()}}
        extents = [self.kernel.get_iname_bounds(name).extent for name in run.over]
        for step in itertools.product(*map(range, extents)):
            at.update(zip(run.over, step, strict=True))
            yield run.insn_id, tuple(at[name] for name in self.inames[run.insn_id])

    # -- checks ---------------------------------------------------------------------------

    def check(self, functions: tuple[DeviceFunction, ...]) -> None:
        """Assert everything that the kernel promises."""
        seen: Counter[Instance] = Counter()
        for function in functions:
            barriers: dict[Point, int] = {}
            for gid, trace in self.traces(function):
                count = sum(1 for name, _ in trace if name in BARRIERS.values())
                assert barriers.setdefault(gid, count) == count, "work-items part at a barrier"
                self._check_order(trace)
                self._check_starts(trace)
                seen.update(item for item in trace if item[0] not in BARRIERS.values())
        for insn in self.kernel.instructions:
            insn_id = str(insn.id)
            if isinstance(insn, BarrierInstruction):  # a node of its own, or the end of a launch
                continue
            expected = self._expected(insn_id)
            got = {point: n for (name, point), n in seen.items() if name == insn_id}
            if self._is_start(insn):
                got = {point: 1 for point in got if point in expected}
            assert set(got) == expected, f"{insn_id}: {set(got) ^ expected} differ"
            twice = [point for point, n in got.items() if n != 1]
            uses_axes = self._uses_all_axes(insn_id, functions)
            assert not twice or not uses_axes, f"{insn_id} runs twice at {twice[:3]}"

    def _is_start(self, insn: InstructionBase) -> bool:
        """Tell whether an instruction may run more often: it puts a constant into a variable."""
        if not isinstance(insn, Assignment) or not isinstance(insn.assignee, Variable):
            return False
        temporary = self.kernel.temporary_variables.get(insn.assignee.name)
        is_private = temporary is not None and temporary.address_space == AddressSpace.PRIVATE
        return is_private and is_constant(insn.expression)

    def _check_starts(self, trace: list[Instance]) -> None:
        """A variable is set more often than asked only before it is used."""
        for insn in self.kernel.instructions:
            if not self._is_start(insn):
                continue
            (name,) = insn.assignee_var_names()
            users = {str(i.id) for i in self.kernel.instructions if name in i.dependency_names()}
            users.discard(str(insn.id))
            positions = (at for at, (ran, _) in enumerate(trace) if ran in users)
            late = trace[next(positions, len(trace)) :]
            points = [point for ran, point in late if ran == insn.id]
            assert len(points) == len(set(points)), f"{insn.id} runs twice"
            assert self._expected(str(insn.id)).issuperset(points), f"{insn.id} runs too often"

    def _uses_all_axes(self, insn_id: str, functions: tuple[DeviceFunction, ...]) -> bool:
        """An instruction without some hardware axis is repeated by every work-item there."""
        (function,) = [f for f in functions if insn_id in f.insn_ids]
        used = sum(1 for name in self.inames[insn_id] if name in self.kernel.axes)
        return used == len(function.groups) + len(function.locals)

    def _expected(self, insn_id: str) -> set[Point]:
        insn = self.kernel.id_to_insn[insn_id]
        domain = self.kernel.domain_of(self.inames[insn_id])
        for name in sorted(self.parameters):
            if domain.find_dim_by_name(isl.dim_type.param, name) < 0:
                domain = domain.add_dims(isl.dim_type.param, 1)
                at = domain.dim(isl.dim_type.param) - 1
                domain = domain.set_dim_name(isl.dim_type.param, at, name)
        domain = domain.intersect_params(self.kernel.assumptions)
        for condition in insn.predicates:
            with suppress(ExpressionToAffineConversionError):
                domain = domain.intersect(set_from_condition(domain.get_space(), condition))
        for name, value in self.parameters.items():
            at = domain.find_dim_by_name(isl.dim_type.param, name)
            if at >= 0:
                domain = domain.fix_val(isl.dim_type.param, at, isl.Val(value))
        points: set[Point] = set()
        dims = domain.dim(isl.dim_type.set)
        domain.foreach_point(
            lambda point: points.add(
                tuple(
                    point.get_coordinate_val(isl.dim_type.set, k).to_python() for k in range(dims)
                )
            )
        )
        return points

    def _check_order(self, trace: list[Instance]) -> None:
        """A dependency holds for all instances that agree on the shared inames."""
        at: dict[str, list[tuple[int, Point]]] = {}
        for position, (name, point) in enumerate(trace):
            at.setdefault(name, []).append((position, point))
        for insn in self.kernel.instructions:
            if self._is_start(insn):
                continue
            for dependency in sorted(insn.depends_on):
                self._check_pair(str(insn.id), dependency, at)

    def _check_pair(
        self, later: str, earlier: str, at: Mapping[str, list[tuple[int, Point]]]
    ) -> None:
        shared = [name for name in self.inames[later] if name in self.inames[earlier]]

        def key(insn_id: str, point: Point) -> Point:
            return tuple(point[self.inames[insn_id].index(name)] for name in shared)

        last: dict[Point, int] = {}
        for position, point in at.get(earlier, ()):
            last[key(earlier, point)] = max(position, last.get(key(earlier, point), -1))
        for position, point in at.get(later, ()):
            before = last.get(key(later, point), -1)
            assert before < position, f"{later}{point} runs before {earlier}"
