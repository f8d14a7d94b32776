"""Loops over the work-items of a group, between its barriers."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

import pymbolic.primitives as p

from kgen.ast.expr import conjunction, conjuncts
from kgen.ast.narrow import narrowed
from kgen.ast.nodes import (
    Block,
    Comment,
    DeviceFunction,
    For,
    If,
    Let,
    Node,
    Run,
    parts_of,
    runs_in,
)
from kgen.ast.unroll import bind
from kgen.ir.expr import Expr, IdentityMapper, LocalHardwareAxisIndex, variable_names
from kgen.ir.fields import replace
from kgen.ir.instruction import Assignment, NoOpInstruction
from kgen.ir.stages import DeviceKernel
from kgen.ir.tree import (
    Barrier,
    children_of,
    exprs_of,
    has_barrier,
    map_children,
    map_exprs,
    nodes_in,
)
from kgen.ir.types import INT32, AddressSpace

__all__ = ["Axes", "AxesOf", "WorkGroup"]

#: Numbers of axes of work-items.
Axes: TypeAlias = frozenset[int]
#: The axes along which private temporaries have different values, or are arrays.
AxesOf: TypeAlias = Mapping[str, Axes]

_NONE: Axes = frozenset()


@dataclass
class WorkGroup:
    """The code of a work-group, whose work-items are loops over ``names``, one for each axis.

    ``spread`` are the axes along which private temporaries have one element per work-item:
    those that several loops over the work-items use.
    """

    kernel: DeviceKernel
    function: DeviceFunction
    names: Sequence[str]
    spread: AxesOf
    #: cached facts of nodes, which keep the nodes alive, so that their ids stay unique
    _needs: dict[int, tuple[Node, Axes]] = field(default_factory=dict)
    _uses: dict[int, tuple[Node, frozenset[str]]] = field(default_factory=dict)

    @cached_property
    def private(self) -> frozenset[str]:
        """The temporaries of which each work-item has its own."""
        known = self.kernel.temporary_variables
        return frozenset(
            name
            for name in self.function.temporaries
            if known[name].address_space == AddressSpace.PRIVATE and known[name].initializer is None
        )

    @cached_property
    def every_axis(self) -> Axes:
        """The axes with more than one work-item."""
        return frozenset(axis for axis, size in enumerate(self.function.locals) if size > 1)

    @cached_property
    def body(self) -> Node:
        """The code of a work-item, with names for its indices."""
        body = _named(self.function.body, _ItemNames(self.names))
        for axis, size in enumerate(self.function.locals):
            if size == 1:
                body = bind(body, self.names[axis], 0)
        return self._with_conditions_inside(body)

    def _with_conditions_inside(self, node: Node) -> Node:
        """Move conditions that differ between work-items into the loops of instructions below.

        ``if (lid0 < n) for (k = 0; k < m; ++k) S`` is ``for (k = 0; k < m; ++k) if (lid0 < n) S``,
        so that the loop over ``lid0`` can be the inner one.
        """
        node = map_children(node, self._with_conditions_inside)
        if not isinstance(node, If) or node.orelse is not None or node.reads_data:
            return node
        parts = conjuncts(node.condition)
        inner = [part for part in parts if self._axes_named(frozenset(variable_names(part)))]
        if not inner or has_barrier(node):
            return node
        outer = conjunction([part for part in parts if part not in inner])
        under = [self._under(part, conjunction(inner)) for part in parts_of(node.body)]
        body: Node = Block(tuple(under)) if len(under) > 1 else under[0]
        return body if outer is True else replace(node, condition=outer, body=body)

    def _under(self, node: Node, condition: Expr) -> Node:
        names = variable_names(*exprs_of(node))
        if not isinstance(node, For) or not self.computed.isdisjoint(names):
            return If(condition, node)
        under = [self._under(part, condition) for part in parts_of(node.body)]
        return replace(node, body=Block(tuple(under)) if len(under) > 1 else under[0])

    @cached_property
    def computed(self) -> frozenset[str]:
        """The variables that instructions assign."""
        return frozenset(self.kernel.get_written_variables())

    def code(self) -> Node:
        """Return the code of the group."""
        return Block(tuple(self._sequence(parts_of(self.body))))

    # -- what differs between work-items -----------------------------------------------------

    @cached_property
    def varying(self) -> AxesOf:
        """The axes along which the values of each private temporary may differ.

        The result of an instruction differs along the axes of everything that it and the
        conditions and loops around it use, including private temporaries.
        """
        found = {name: self.spread.get(name, _NONE) & self.every_axis for name in self.private}
        writes = list(self._writes(self.body, frozenset(), _NONE))
        is_changed = True
        while is_changed:
            is_changed = False
            for name, mentioned, axes in writes:
                more = axes.union(*(found[n] for n in mentioned if n in found))
                if not more <= found[name]:
                    found[name] |= more
                    is_changed = True
        return found

    def _writes(
        self, node: Node, around: frozenset[str], axes: Axes
    ) -> Iterator[tuple[str, frozenset[str], Axes]]:
        """Yield assigned variables, with the private names and the axes that they depend on."""
        own = frozenset(variable_names(*exprs_of(node)))
        around, axes = around | own & self.private, axes | self._axes_named(own)
        if isinstance(node, Run):
            insn = self.kernel.id_to_insn[node.insn_id]
            read = around | insn.read_dependency_names() & self.private
            for name in insn.assignee_var_names():
                if name in self.private:
                    yield name, read, axes | self._axes_of_effects(node)
        for child in children_of(node):
            yield from self._writes(child, around, axes)

    def _axes_named(self, names: frozenset[str]) -> Axes:
        return frozenset(axis for axis, name in enumerate(self.names) if name in names)

    def _axes_of_effects(self, run: Run) -> Axes:
        """Return the axes along which a statement runs because of side effects."""
        insn = self.kernel.id_to_insn[run.insn_id]
        is_pure = isinstance(insn, Assignment | NoOpInstruction)
        if is_pure and self.private.issuperset(insn.assignee_var_names()):
            return _NONE
        return self.every_axis

    def _own_axes(self, node: Node) -> Axes:
        """Return the axes along which a statement, or a node's bounds or condition, differs."""
        names = frozenset(variable_names(*exprs_of(node)))
        axes = self._axes_named(names)
        if isinstance(node, Run):
            names |= self.kernel.id_to_insn[node.insn_id].dependency_names()
            axes |= self._axes_of_effects(node)
        return axes.union(*(self.varying[name] for name in names & self.private))

    def needs(self, node: Node) -> Axes:
        """Return the axes along which something at *node* or below differs."""
        if id(node) not in self._needs:
            found = self._own_axes(node).union(*map(self.needs, children_of(node)))
            self._needs[id(node)] = node, found
        return self._needs[id(node)][1]

    def uses(self, node: Node) -> frozenset[str]:
        """Return the private temporaries that are used at *node* and below."""
        if id(node) not in self._uses:
            names = frozenset(variable_names(*exprs_of(node)))
            if isinstance(node, Run):
                names |= self.kernel.id_to_insn[node.insn_id].dependency_names()
            found = (names & self.private).union(*map(self.uses, children_of(node)))
            self._uses[id(node)] = node, found
        return self._uses[id(node)][1]

    # -- loops ---------------------------------------------------------------------------------

    def _sequence(self, nodes: Sequence[Node]) -> Iterator[Node]:
        """Write what runs once in the group: loops over work-items between barriers."""
        axes = tuple(sorted(self.every_axis, reverse=True))
        for with_barriers, part in itertools.groupby(nodes, has_barrier):
            if not with_barriers:
                yield from self._items(list(part), axes)
                continue
            for node in part:
                if not isinstance(node, Barrier):
                    yield map_children(
                        node, lambda child: Block(tuple(self._sequence(parts_of(child))))
                    )

    def _items(self, nodes: Sequence[Node], axes: tuple[int, ...]) -> Iterator[Node]:
        """Write loops over *axes*, outermost first, around nodes that differ along them."""
        if not axes:
            yield from nodes
            return
        for in_loop, part in itertools.groupby(nodes, lambda n: self._is_in_loop(n, axes)):
            if in_loop:
                for group in self._groups(list(part), axes[0]):
                    yield self._loop(group, axes)
                continue
            for node in part:
                if axes[0] in self.needs(node):
                    yield self._around_loops(node, axes)
                else:
                    yield from self._items([node], axes[1:])

    def _is_in_loop(self, node: Node, axes: tuple[int, ...]) -> bool:
        """Tell whether a loop over the first of *axes* must be around *node*.

        It goes inside conditions and loops that are the same for all work-items, because compilers
        vectorize innermost loops, whose iterations are independent.
        """
        if axes[0] not in self.needs(node):
            return False
        is_frame = isinstance(node, For | If | Let | Comment)
        if isinstance(node, For) and node.is_simd:
            return True
        return not is_frame or not self._own_axes(node).isdisjoint(axes)

    def _around_loops(self, node: Node, axes: tuple[int, ...]) -> Node:
        return map_children(node, lambda child: Block(tuple(self._items(parts_of(child), axes))))

    def _groups(self, nodes: list[Node], axis: int) -> Iterator[list[Node]]:
        """Split *nodes* where no value passes from earlier to later ones."""
        last: dict[str, int] = {}
        for at, node in enumerate(nodes):
            last.update(dict.fromkeys(self._passed(node, axis), at))
        group: list[Node] = []
        end = 0
        for at, node in enumerate(nodes):
            if group and at > end:
                yield group
                group = []
            group.append(node)
            end = max(end, at, *(last[name] for name in self._passed(node, axis)))
        yield group

    def _passed(self, node: Node, axis: int) -> list[str]:
        """Return the variables used at *node* that all work-items of *axis* share."""
        return [
            name
            for name in self.uses(node)
            if axis in self.varying[name] and axis not in self.spread.get(name, _NONE)
        ]

    def _loop(self, nodes: Sequence[Node], axes: tuple[int, ...]) -> Node:
        name, size = self.names[axes[0]], self.function.locals[axes[0]]
        body: Node = Block(tuple(self._items(nodes, axes[1:])))
        if isinstance(body, Block) and len(body.children) == 1:
            body = body.children[0]
        is_alike = not any(self.varying[name] for name in self.uses(body))
        is_simd = len(axes) == 1 and self._is_simd(body, axes[0])
        loop = For(name, INT32, 0, size, 1, body, is_simd=is_simd)
        return narrowed(loop, is_alike=is_alike)

    def _is_simd(self, body: Node, axis: int) -> bool:
        """Tell whether work-items may run in lanes, as far as their own variables go.

        Shared variables do not conflict between barriers, unless that is not proved.
        """
        if self.function.is_serial or not self.kernel.target.has_simd_loops:
            return False
        nodes, runs = nodes_in(body), runs_in(body)
        if any(isinstance(node, For) for node in nodes) or not self.kernel.options.restrict:
            return False
        return all(self._is_in_lanes(run, axis) for run in runs) and all(
            name not in self.varying
            or axis in self.spread.get(name, _NONE)
            or self._is_set_first(name, body)
            for run in runs
            for name in self.kernel.id_to_insn[run.insn_id].assignee_var_names()
        )

    def _is_in_lanes(self, run: Run, axis: int) -> bool:
        """Tell whether lanes assign to their own variables, or to their own elements."""
        insn = self.kernel.id_to_insn[run.insn_id]
        is_plain = isinstance(insn, Assignment) and not insn.atomicity
        is_own = self.private.issuperset(insn.assignee_var_names())
        return is_plain and (is_own or self.names[axis] in variable_names(*run.values.values()))

    def _is_set_first(self, name: str, body: Node) -> bool:
        """Tell whether a scalar is always set before it is used: each lane has its own."""
        first = next(part for part in parts_of(body) if name in self.uses(part))
        if not isinstance(first, Run):
            return False
        insn = self.kernel.id_to_insn[first.insn_id]
        is_scalar = self.kernel.temporary_variables[name].shape == ()
        return is_scalar and name not in insn.read_dependency_names()

    # -- temporaries that loops share ----------------------------------------------------------

    def find_spread(self, code: Node) -> AxesOf:
        """Return the axes along which temporaries need one element per work-item of *code*.

        If all uses are in one iteration of a loop over the work-items, one variable serves all
        of them, unless it holds a value until the next iteration of an enclosing loop.
        """
        uses: dict[str, list[_Use]] = {}
        self._collect(code, (), uses)
        return {
            name: frozenset(axis for axis in axes if self._is_spread(name, axis, uses[name]))
            for name, axes in self.varying.items()
            if name in uses
        }

    def _collect(self, node: Node, path: tuple[Node, ...], uses: dict[str, list[_Use]]) -> None:
        names = frozenset(variable_names(*exprs_of(node)))
        starts: tuple[str, ...] = ()
        if isinstance(node, Run):
            insn = self.kernel.id_to_insn[node.insn_id]
            names |= insn.dependency_names()
            if isinstance(insn, Assignment) and not insn.predicates:
                starts = tuple(set(insn.assignee_var_names()) - insn.read_dependency_names())
        for name in names & self.private:
            uses.setdefault(name, []).append(_Use(path, name in starts))
        for child in children_of(node):
            inside = (*path, node, child) if isinstance(node, For | If) else path
            self._collect(child, inside, uses)

    def _is_spread(self, name: str, axis: int, uses: list[_Use]) -> bool:
        item = self.names[axis]
        loops = [_loop_in(use.path, item) for use in uses]
        if loops[0] is None or any(loop is not loops[0] for loop in loops):
            return True
        if self.kernel.temporary_variables[name].shape != ():
            return axis == min(self.every_axis) or _is_in_plain_loop(uses[0].path, item, self.names)
        if not _is_in_plain_loop(uses[0].path, item, self.names):
            return False
        scope = uses[0].path
        is_set_first = uses[0].is_start and all(_begins(use.path, scope) for use in uses)
        return not is_set_first


@dataclass(frozen=True)
class _Use:
    """A use of a temporary: the loops and branches around; *is_start*: it is assigned."""

    path: tuple[Node, ...]
    is_start: bool


def _loop_in(path: Sequence[Node], name: str) -> Node | None:
    return next((node for node in path if isinstance(node, For) and node.iname == name), None)


def _is_in_plain_loop(path: Sequence[Node], name: str, items: Sequence[str]) -> bool:
    """Tell whether the loop over *name* is in a loop that is not over work-items."""
    loops = (node.iname for node in path if isinstance(node, For))
    around = itertools.takewhile(lambda iname: iname != name, loops)
    return any(iname not in items for iname in around)


def _begins(path: Sequence[Node], scope: Sequence[Node]) -> bool:
    return all(a is b for a, b in zip(path, scope, strict=False)) and len(path) >= len(scope)


class _ItemNames(IdentityMapper):
    """Names the indices of work-items."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__()
        self.names = names

    def map_local_hardware_axis_index(self, expr: LocalHardwareAxisIndex) -> Expr:
        return p.Variable(self.names[expr.axis])


def _named(node: Node, names: _ItemNames) -> Node:
    return map_children(map_exprs(node, names), lambda child: _named(child, names))
