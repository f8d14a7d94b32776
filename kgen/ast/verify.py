"""Verification of the code tree: no barrier, and no exchange, in divergent control flow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

import pymbolic.primitives as p

from kgen.analysis.instances import axis_name
from kgen.analysis.products import tensor_loops
from kgen.ast.facts import value_at
from kgen.ast.nodes import DeviceFunction, For, If, Let, Node, Run
from kgen.ast.tensors import check_warps, is_tensor
from kgen.errors import CodegenError
from kgen.ir.expr import Expr, LocalHardwareAxisIndex, to_text, variable_names, walk
from kgen.ir.functions import is_of_lane
from kgen.ir.kernel import LoopKernel
from kgen.ir.tree import Barrier, children_of, has_barrier


def differs_in_group(expr: Expr) -> bool:
    """Tell whether *expr* reads the index of the work-item."""
    return any(isinstance(node, LocalHardwareAxisIndex) for node in walk(expr))


def verify_barriers(function: DeviceFunction) -> DeviceFunction:
    """Return *function* if all work-items of a group reach the same barriers.

    A barrier below a condition or a loop bound that differs between work-items is an error
    of the scheduler; the generated code would hang.
    """
    if has_barrier(function.body):
        _visit(function, function.body, None, frozenset())
    return function


def _visit(
    function: DeviceFunction, node: Node, divergent: str | None, unequal: frozenset[str]
) -> None:
    """Check *node* and its children; values of *unequal* names differ between work-items."""

    def differs(*exprs: Expr) -> bool:
        named = unequal.intersection(variable_names(*exprs))
        return bool(named) or any(map(differs_in_group, exprs))

    match node:
        case Barrier() if divergent is not None:
            raise CodegenError(
                f"a barrier ({node.reason}) is inside '{divergent}', which is not the same for "
                "all work-items of a group",
                kernel=function.name,
                hint="move the barrier out of the condition, or use a bound that is uniform",
            )
        case If() if node.reads_data or differs(node.condition):
            divergent = divergent or f"if {to_text(node.condition)}"
        case For() if differs(node.first, node.stop):
            divergent = divergent or f"for {node.iname} < {to_text(node.stop)}"
            unequal = unequal | {node.iname}
        case Let() if differs(node.value):
            unequal = unequal | {node.name}
    for child in children_of(node):
        if has_barrier(child):
            _visit(function, child, divergent, unequal)


def verify_lanes(kernel: LoopKernel, function: DeviceFunction) -> DeviceFunction:
    """Return *function* if all lanes that exchange values run the exchange.

    A condition or a loop bound around it may differ between rows of lanes, not within one.
    """
    if kernel.target.exchange_width is None:
        return function
    of_insn = {
        str(insn.id): axes
        for insn in kernel.instructions
        if (axes := _axes_of_rows(insn.read_exprs(), function.locals))
    }
    of_insn |= dict.fromkeys(check_warps(kernel, function), frozenset((0,)))
    if of_insn:
        _visit_lanes(_Rows(kernel, function, of_insn), function.body, {}, {}, ())
    return function


@dataclass(frozen=True)
class _Rows:
    """A function in which lanes exchange values, and the axes of the rows of each instruction."""

    kernel: LoopKernel
    function: DeviceFunction
    of_insn: Mapping[str, frozenset[int]]

    def decides(self, node: If) -> bool:
        """Tell whether it is known which lanes satisfy a condition, and masks omit the others."""
        if not self.kernel.target.masks_lanes or node.reads_data or variable_names(node.condition):
            return False
        return all(value_at(node.condition, point) is not None for point in self._points())

    def check(self, insn_id: str, around: Mapping[int, str], conditions: tuple[Expr, ...]) -> None:
        """Reject an exchange that only some lanes of a row run."""
        axes = self.of_insn.get(insn_id, frozenset())
        texts = [around[axis] for axis in sorted(axes & around.keys())]
        missing = self._find_missing(insn_id, conditions) if axes else None
        if missing is not None:
            texts.append(f"if {to_text(missing)}")
        if texts:
            raise CodegenError(
                f"lanes exchange values in '{insn_id}' inside '{texts[0]}', which is not the "
                "same for all of them",
                kernel=self.function.name,
                hint="move the exchange out of the condition",
            )

    def _find_missing(self, insn_id: str, conditions: tuple[Expr, ...]) -> Expr | None:
        """Return the conditions under which only some lanes of a row run an exchange."""
        if not conditions:
            return None
        width = self.kernel.target.exchange_width
        assert width is not None
        condition = conditions[0] if len(conditions) == 1 else p.LogicalAnd(conditions)
        running = {n for n, point in enumerate(self._points()) if value_at(condition, point)}
        loops = tensor_loops(self.kernel, self.kernel.id_to_insn[insn_id])
        if is_tensor(self.kernel, insn_id) and loops is not None:
            lanes = loops.shape.lanes
            if any({*range(n - n % lanes, n - n % lanes + lanes)} - running for n in running):
                return condition
        for expr in walk(*self.kernel.id_to_insn[insn_id].read_exprs()):
            if not is_of_lane(expr):
                continue
            assert isinstance(expr, p.Call)
            for number in running:
                lanes = _lanes_of(expr.parameters[0], number % width)
                first = number - number % width
                if not {first + k for k in range(width) if lanes >> k & 1} <= running:
                    return condition
        return None

    def _points(self) -> Iterator[dict[str, int]]:
        """Yield the indices of all work-items of a group, in the order of lanes."""
        sizes = self.function.locals
        names = [axis_name(LocalHardwareAxisIndex(axis)) for axis in range(len(sizes))]
        for point in product(*(range(size) for size in reversed(sizes))):
            yield dict(zip(names, reversed(point), strict=True))


def _lanes_of(mask: Any, lane: int) -> int:
    """Return the mask that a lane of a warp passes."""
    if not isinstance(mask, p.Call):
        return int(mask)
    parameters: Any = mask.parameters
    first_row, others = parameters
    return int(first_row) << (lane & int(others))


def _axes_of_rows(exprs: Iterable[Expr], sizes: tuple[int, ...]) -> frozenset[int]:
    """Return the work-item axes along which lanes exchange values."""
    return frozenset(
        axis
        for expr in walk(*exprs)
        if is_of_lane(expr)
        for axis in _axes_of_row(expr.parameters[0], sizes)
    )


def _axes_of_row(mask: Expr, sizes: tuple[int, ...]) -> Iterator[int]:
    """Yield the axes along which the lanes of a mask are contiguous."""
    lanes: Any = mask.parameters[0] if isinstance(mask, p.Call) else mask
    numbers = [bit for bit in range(lanes.bit_length()) if lanes >> bit & 1]
    stride = numbers[1] if len(numbers) > 1 else 1
    for axis, size in enumerate(sizes):
        below = prod(sizes[:axis])
        if size > 1 and below <= numbers[-1] and below * size > stride:
            yield axis


def _visit_lanes(
    rows: _Rows,
    node: Node,
    unequal: Mapping[str, frozenset[int]],
    around: Mapping[int, str],
    conditions: tuple[Expr, ...],
) -> None:
    """Check *node*; *unequal* names, and what is *around* it, differ along axes.

    For *conditions* around it, the lanes for which they are true are known.
    """

    def differing(*exprs: Expr) -> frozenset[int]:
        return frozenset().union(
            *(unequal.get(name, ()) for name in variable_names(*exprs)),
            (part.axis for part in walk(*exprs) if isinstance(part, LocalHardwareAxisIndex)),
        )

    def inside(what: str, axes: Iterable[int]) -> Mapping[int, str]:
        return {**dict.fromkeys(axes, what), **around}

    match node:
        case Run():
            rows.check(node.insn_id, around, conditions)
        case If() if rows.decides(node):
            _visit_lanes(rows, node.body, unequal, around, (*conditions, node.condition))
            if node.orelse is not None:
                otherwise = (*conditions, p.LogicalNot(node.condition))
                _visit_lanes(rows, node.orelse, unequal, around, otherwise)
            return
        case If():
            data = range(len(rows.function.locals)) if node.reads_data else ()
            around = inside(f"if {to_text(node.condition)}", {*differing(node.condition), *data})
        case For() if axes := differing(node.first, node.stop):
            around = inside(f"for {node.iname} < {to_text(node.stop)}", axes)
            unequal = {**unequal, node.iname: axes}
        case Let():
            unequal = {**unequal, node.name: differing(node.value)}
    for child in children_of(node):
        _visit_lanes(rows, child, unequal, around, conditions)
