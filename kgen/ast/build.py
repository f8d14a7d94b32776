"""Schedule to code tree, one nest at a time."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from functools import cached_property

from kgen.ast.bounds import guard_bounds_by_data
from kgen.ast.divisions import fold_divisions
from kgen.ast.lanes import mark_simd_loops, separate_whole_tiles
from kgen.ast.levels import code_of
from kgen.ast.merge import merge_guards
from kgen.ast.nodes import Block, DeviceFunction, If, Node
from kgen.ast.slabs import bulk_of, either
from kgen.ast.streams import streams_in_blocks
from kgen.ast.tensors import tensors_at_once
from kgen.ast.trips import expand_strided_loops
from kgen.ast.unroll import expand_unrolled
from kgen.ast.values import replace_cancelled_names
from kgen.ast.whole import separate_whole_iterations
from kgen.ir.closure import closure
from kgen.ir.data import TemporaryVariable
from kgen.ir.expr import Expr, variable_names
from kgen.ir.grid import Grid
from kgen.ir.sets.dims import Set
from kgen.ir.sets.text import parse_assumptions
from kgen.ir.stages import DeviceKernel
from kgen.ir.tree import Barrier as ScheduleBarrier
from kgen.ir.tree import nodes_in
from kgen.ir.types import AddressSpace
from kgen.schedule.host import in_launch
from kgen.schedule.to_isl import axes_in, axis_context, make_nest
from kgen.schedule.tree import Bind, Launch, Schedule, Sequence, insn_ids
from kgen.schedule.tree import Node as ScheduleNode


def build_code(kernel: DeviceKernel, schedule: Schedule) -> tuple[DeviceFunction, ...]:
    """Turn every launch of *schedule* into a device function."""
    memo: dict[Hashable, Node] = {}
    return tuple(
        _device_function(in_launch(kernel, schedule.host_inames.difference(around)), launch, memo)
        for launch, around in schedule.launches_in_loops
    )


def _device_function(
    kernel: DeviceKernel, launch: Launch, memo: dict[Hashable, Node]
) -> DeviceFunction:
    ids = insn_ids(launch.body)
    grid = kernel.grid_of_launch(ids)
    tree = nest_code(kernel, grid, launch.body, parse_assumptions(None), memo)
    tree = guard_bounds_by_data(kernel, tree)
    axes = _axes(launch.body)
    facts = kernel.assumptions.intersect(axis_context(grid, axes))
    tree = tensors_at_once(tree, kernel)
    tree = separate_whole_tiles(tree, kernel, facts)
    tree = separate_whole_iterations(tree, kernel, grid, facts)
    tree = expand_unrolled(tree, kernel, facts)
    if not kernel.target.loops_over_items:
        tree = expand_strided_loops(tree, kernel, facts)
    tree = merge_guards(fold_divisions(tree, kernel), kernel)
    tree = replace_cancelled_names(tree, kernel)
    tree = streams_in_blocks(mark_simd_loops(tree, kernel), kernel)
    groups, locals_ = (grid.groups, grid.locals) if axes else ((), ())
    arguments, temporaries = _storage(kernel, ids, [*groups, *_conditions(tree)])
    return DeviceFunction(
        launch.name,
        tree,
        groups,
        locals_,
        arguments,
        temporaries,
        ids,
        launch.is_serial,
    )


def nest_code(
    kernel: DeviceKernel, grid: Grid, root: ScheduleNode, known: Set, memo: dict[Hashable, Node]
) -> Node:
    """Turn the outermost body of a launch into code; *known* are the facts around it."""
    return _NestCoder(kernel, grid, memo, (), known).node(root)


class _NestCoder:
    """Turns nests into code, with *axes* bound around them.

    *known* are the constraints that conditions around them impose on the axes.
    """

    def __init__(
        self,
        kernel: DeviceKernel,
        grid: Grid,
        memo: dict[Hashable, Node],
        axes: tuple[tuple[str, Expr], ...],
        known: Set,
    ) -> None:
        self.kernel = kernel
        self.grid = grid
        self.memo = memo
        self.axes = axes
        self.known = known

    @cached_property
    def context(self) -> Set:
        """The known constraints on the axes and the parameters."""
        axes = [axes_in(value) for _, value in self.axes]
        context = axis_context(self.grid, axes).intersect(self.known)
        return context.intersect(self.kernel.assumptions)

    def node(self, root: ScheduleNode) -> Node:
        if isinstance(root, ScheduleBarrier):
            return root
        if isinstance(root, Sequence):
            return Block(tuple(map(self.node, root.children)))
        if isinstance(root, Bind):
            return self._bind(root)
        nest = make_nest(self.kernel, self.grid, root, self.axes, self.context)
        return code_of(self.kernel, nest, self.memo)

    def _bind(self, root: Bind) -> Node:
        bulk = bulk_of(self.kernel, self.grid, root.axes)
        if bulk is None:
            return self._below(root, self.known)
        condition, inside = bulk
        return either(
            condition,
            self._below(root, self.known.intersect(inside)),
            self._below(root, self.known.subtract(inside)),
        )

    def _below(self, root: Bind, known: Set) -> Node:
        axes = (*self.axes, *root.axes)
        return _NestCoder(self.kernel, self.grid, self.memo, axes, known).node(root.body)


def _axes(root: ScheduleNode) -> list[Expr]:
    """Return the hardware axes that are bound anywhere below *root*."""
    binds = [node for node in nodes_in(root) if isinstance(node, Bind)]
    return [axes_in(value) for bind in binds for _, value in bind.axes]


def _conditions(root: Node) -> list[Expr]:
    """Return the conditions at *root* and below; isl may include parts implied by assumptions."""
    return [node.condition for node in nodes_in(root) if isinstance(node, If)]


def _storage(
    kernel: DeviceKernel, ids: tuple[str, ...], sizes: Iterable[Expr]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the arguments of a launch, and its declarations: used names and their sizes."""
    used: set[str] = set(variable_names(*sizes))
    insns = [kernel.id_to_insn[insn_id] for insn_id in ids]
    used.update(*(insn.dependency_names() for insn in insns))
    inames = frozenset[str]().union(*(i.within_inames | i.reduction_inames() for i in insns))
    used.update(*map(kernel.domain_parameters, inames))
    arrays = kernel.array_vars
    known = closure(used, lambda name: arrays[name].layout_names if name in arrays else ())
    temporaries = [t for name, t in sorted(kernel.temporary_variables.items()) if name in known]
    arguments = [arg.name for arg in kernel.args if arg.name in known]
    arguments += [t.name for t in temporaries if _is_global(t)]
    return tuple(arguments), tuple(t.name for t in temporaries if not _is_global(t))


def _is_global(temporary: TemporaryVariable) -> bool:
    return bool(temporary.address_space == AddressSpace.GLOBAL and temporary.initializer is None)
