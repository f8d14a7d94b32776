"""Schedule to code tree: a nest at a time."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from kgen.ast.bounds import guard_bounds_by_data
from kgen.ast.divisions import fold_divisions
from kgen.ast.levels import code_of
from kgen.ast.merge import merge_guards
from kgen.ast.nodes import Block, DeviceFunction, If, Node
from kgen.ast.slabs import bulk_of, either
from kgen.ast.trips import expand_strided_loops
from kgen.ast.unroll import expand_unrolled
from kgen.ir.closure import closure
from kgen.ir.data import TemporaryVariable
from kgen.ir.expr import Expr, variable_names
from kgen.ir.grid import Grid
from kgen.ir.sets.dims import Set, param_names
from kgen.ir.sets.text import parse_assumptions
from kgen.ir.stages import DeviceKernel
from kgen.ir.tree import Barrier as ScheduleBarrier
from kgen.ir.tree import children_of
from kgen.ir.types import AddressSpace
from kgen.schedule.to_isl import axes_in, axis_context, make_nest
from kgen.schedule.tree import Bind, Launch, Schedule, Sequence, insn_ids
from kgen.schedule.tree import Node as ScheduleNode


def build_code(kernel: DeviceKernel, schedule: Schedule) -> tuple[DeviceFunction, ...]:
    """Turn every launch of *schedule* into a device function."""
    memo: dict[Hashable, Node] = {}
    return tuple(_device_function(kernel, launch, memo) for launch in schedule.launches)


def _device_function(
    kernel: DeviceKernel, launch: Launch, memo: dict[Hashable, Node]
) -> DeviceFunction:
    ids = insn_ids(launch.body)
    grid = kernel.grid_of_launch(ids)
    tree = nest_code(kernel, grid, launch.body, [], parse_assumptions(None), memo)
    tree = guard_bounds_by_data(kernel, tree)
    axes = _axes(launch.body)
    facts = kernel.assumptions.intersect(axis_context(grid, axes))
    tree = expand_strided_loops(expand_unrolled(tree, kernel, facts), kernel, facts)
    tree = merge_guards(fold_divisions(tree, kernel), kernel)
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
    )


def nest_code(
    kernel: DeviceKernel,
    grid: Grid,
    root: ScheduleNode,
    axes: list[tuple[str, Expr]],
    known: Set,
    memo: dict[Hashable, Node],
) -> Node:
    """Turn a child of the outermost body into code.

    *known* is what conditions around it say of the axes.
    """
    if isinstance(root, ScheduleBarrier):
        return root
    if isinstance(root, Bind):
        inner = [*axes, *root.axes]
        bulk = bulk_of(kernel, grid, root.axes)
        if bulk is None:
            return nest_code(kernel, grid, root.body, inner, known, memo)
        condition, inside = bulk
        return either(
            condition,
            nest_code(kernel, grid, root.body, inner, known.intersect(inside), memo),
            nest_code(kernel, grid, root.body, inner, known.subtract(inside), memo),
        )
    if isinstance(root, Sequence):
        parts = (nest_code(kernel, grid, child, axes, known, memo) for child in root.children)
        return Block(tuple(parts))
    return code_of(kernel, make_nest(kernel, grid, root, axes, known), memo)


def _axes(node: ScheduleNode) -> list[Expr]:
    """Return the hardware axes that are bound anywhere below *node*."""
    own = [axes_in(value) for _, value in node.axes] if isinstance(node, Bind) else []
    return [*own, *(axis for child in children_of(node) for axis in _axes(child))]


def _conditions(node: Node) -> list[Expr]:
    """Return the conditions at *node* and below; isl may say in them what assumptions imply."""
    own = [node.condition] if isinstance(node, If) else []
    return [*own, *(found for child in children_of(node) for found in _conditions(child))]


def _storage(
    kernel: DeviceKernel, ids: tuple[str, ...], sizes: Iterable[Expr]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return what a launch is passed, and what it declares: used names and their sizes."""
    used: set[str] = set(variable_names(*sizes))
    for insn_id in ids:
        insn = kernel.id_to_insn[insn_id]
        used |= insn.dependency_names()
        for name in insn.within_inames | insn.reduction_inames():
            domain = kernel.domains[kernel.home_domain[name]]
            used.update(param_names(domain))
    arrays = kernel.array_vars
    known = closure(used, lambda name: arrays[name].layout_names() if name in arrays else ())
    temporaries = [t for name, t in sorted(kernel.temporary_variables.items()) if name in known]
    arguments = [arg.name for arg in kernel.args if arg.name in known]
    arguments += [t.name for t in temporaries if _is_global(t)]
    return tuple(arguments), tuple(t.name for t in temporaries if not _is_global(t))


def _is_global(temporary: TemporaryVariable) -> bool:
    return bool(temporary.address_space == AddressSpace.GLOBAL and temporary.initializer is None)
