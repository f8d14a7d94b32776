"""A nest of the schedule tree as an isl schedule tree.

Names are canonical (loops ``.x0, .x1, ...`` and statements ``S0, S1, ...`` in order of
appearance), so nests of one shape, whatever their inames, share one isl AST build.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import islpy as isl
import pymbolic.primitives as p

from kgen.analysis.instances import axis_name
from kgen.errors import ExpressionToAffineConversionError
from kgen.ir.analyses import Analysis
from kgen.ir.expr import (
    Expr,
    GroupHardwareAxisIndex,
    LocalHardwareAxisIndex,
    variable_names,
)
from kgen.ir.fields import replace
from kgen.ir.grid import Grid
from kgen.ir.sets.dims import (
    Set,
    SetKey,
    axis_max,
    axis_min,
    axis_variable,
    dim_names,
    from_named,
    has_param,
    isl_int,
    name_dims,
    outer_dims,
    param_names,
    param_variable,
    project_out_params,
    relation_from,
    rename_param,
    to_named,
    union_of,
    with_axes,
    with_params,
)
from kgen.ir.sets.names import SetName
from kgen.ir.sets.quasi_affine import set_from_condition
from kgen.ir.sets.text import parse_assumptions
from kgen.ir.stages import PreparedKernel
from kgen.ir.tree import Barrier, children_of, nodes_in
from kgen.schedule.execution import is_size
from kgen.schedule.tree import Bind, Loop, Node, Run
from kgen.schedule.tree import Sequence as Seq

_ATOMIC = isl.ast_loop_type.atomic


@dataclass(frozen=True)
class Statement:
    """One isl statement: a block of instructions, or a barrier.

    ``dims`` are the inames of its dimensions: loops from the outside in, then inames bound
    below a barrier. ``conditions`` are predicates that bound no loop. ``guard`` restricts,
    in canonical names, the points of a wider *domain*.
    """

    node: Run | Barrier
    dims: tuple[str, ...]
    domain: Set
    conditions: tuple[Expr, ...]
    guard: Expr = True


@dataclass(frozen=True)
class Nest:
    """A part of a launch for one isl AST build, and the names of the result.

    ``loops[k]`` is the loop called ``x<k>``, ``statements[k]`` the one called ``S<k>``,
    ``axes`` the values of inames bound around the whole nest, which runs on ``grid``.
    The variables of ``n_around`` loops around it are the parameters ``.o0, .o1, ...``.
    ``context`` has the known constraints on these, on the axes and on the other parameters.
    """

    root: Node
    loops: tuple[Loop, ...]
    statements: tuple[Statement, ...]
    axes: tuple[tuple[str, Expr], ...]
    grid: Grid
    context: Set
    n_around: int = 0

    @cached_property
    def key(self) -> Hashable:
        """A key that is equal for nests of the same shape."""
        domains = tuple((len(s.dims), SetKey(s.domain)) for s in self.statements)
        shape = _shape(self.root)
        return (shape, domains, SetKey(self.context), self.grid.groups, self.grid.locals)


def _shape(node: Node) -> Hashable:
    match node:
        case Run():
            return "run"
        case Barrier():
            return "barrier", node.memory
        case Loop():
            return "loop", node.kind, node.slabs, _shape(node.body)
        case Seq():
            return "sequence", tuple(map(_shape, node.children))
        case Bind():
            axes = tuple(axis_name(axes_in(value)) for _, value in node.axes)
            return "bind", axes, _shape(node.body)


def loop_name(number: int) -> str:
    """Return the canonical name of a loop: ``.x0``, which no kernel uses."""
    return SetName.LOOP.at(number)


def outer_name(number: int) -> str:
    """Return the canonical name of a loop around a nest, from the outside in."""
    return SetName.OUTER.at(number)


def canonical_names(dims: Sequence[str], loops: Sequence[Loop]) -> dict[str, str]:
    """Return the canonical names of a statement's dimensions: loops, and those bound to axes.

    The latter are numbered from the end, and keep their names if an outer one has a value.
    """
    names = {loop.iname: loop_name(k) for k, loop in enumerate(loops)}
    last = len(dims) - 1
    return {name: names.get(name) or SetName.TIED.at(last - at) for at, name in enumerate(dims)}


def axis_from_name(name: str) -> Expr | None:
    """Return the hardware axis index that a parameter represents, if it does."""
    if SetName.GROUP.names(name):
        return GroupHardwareAxisIndex(SetName.GROUP.number(name))
    if SetName.ITEM.names(name):
        return LocalHardwareAxisIndex(SetName.ITEM.number(name))
    return None


def axes_in(value: Expr) -> Expr:
    """Return the axis index inside the value of a bound iname."""
    if isinstance(value, p.Sum):
        return value.children[0]
    return value


_CONTEXT = Analysis[Set](Grid)


def axis_context(grid: Grid, axes: Sequence[Expr]) -> Set:
    """Return ``{ : 0 <= gid0 < groups and 0 <= lid0 < size }`` for the given axis indices."""
    distinct = tuple(dict.fromkeys(axes))

    def find() -> Set:
        context = parse_assumptions(None)
        for axis in distinct:
            context = context.intersect(axis_range(grid, axis, 0, 0))
        return context

    return grid.analyses.answer(_CONTEXT, distinct, find)


def axis_range(grid: Grid, axis: Expr, first: int, last: int) -> Set:
    """Return ``{ : first <= gid0 < groups - last }``: an axis without some indices at its ends."""
    assert isinstance(axis, GroupHardwareAxisIndex | LocalHardwareAxisIndex)
    is_group = isinstance(axis, GroupHardwareAxisIndex)
    count = (grid.group_counts if is_group else grid.local_sizes)[axis.axis]
    name = axis_name(axis)
    space = with_params(count.get_domain_space(), (name,))
    index = isl.PwAff.from_aff(param_variable(space, name))
    low = isl.Aff.val_on_domain(isl.LocalSpace.from_space(space), isl_int(first))
    high = count.align_params(space).add_constant_val(isl_int(-last))
    return index.lt_set(high).intersect(index.ge_set(isl.PwAff.from_aff(low)))


class _NestMaker:
    def __init__(self, kernel: PreparedKernel, axes: Sequence[tuple[str, Expr]]) -> None:
        self.kernel = kernel
        self.axes = dict(axes)
        self.loops: list[Loop] = []
        self.statements: list[Statement] = []

    def visit(self, node: Node, dims: tuple[str, ...], bound: tuple[str, ...]) -> None:
        """Assign numbers to the loops and statements below *node*."""
        match node:
            case Run():
                self.statements.append(self._statement(node, dims, bound))
            case Barrier():
                self.statements.append(Statement(node, dims, self._domain_of_loops(dims), ()))
            case Loop():
                self.loops.append(node)
                self.visit(node.body, (*dims, node.iname), bound)
            case Seq():
                first = len(self.statements)
                for child in node.children:
                    self.visit(child, dims, bound)
                self._fill_barriers(first, dims)
            case Bind():
                self.visit(node.body, dims, (*bound, *(name for name, _ in node.axes)))

    def _domain_of_loops(self, dims: tuple[str, ...]) -> Set:
        """Return the instances of a barrier without neighbours, for any work-item."""
        if not dims:
            return isl.Set("{ : }")
        domain = self.kernel.domain_of(dims)
        return project_out_params(
            domain, [n for n in param_names(domain) if n in self.kernel.inames]
        )

    def _fill_barriers(self, first: int, dims: tuple[str, ...]) -> None:
        """Run a barrier in every iteration in which an adjacent statement runs."""
        siblings = self.statements[first:]
        if not any(isinstance(s.node, Barrier) and len(s.dims) == len(dims) for s in siblings):
            return
        union = union_of(
            outer_dims(statement.domain, len(dims))
            for statement in siblings
            if not isinstance(statement.node, Barrier)
        )
        if union is None:
            return
        for k in range(first, len(self.statements)):
            statement = self.statements[k]
            if isinstance(statement.node, Barrier) and len(statement.dims) == len(dims):
                self.statements[k] = Statement(statement.node, dims, union.coalesce(), ())

    def _statement(self, run: Run, loops: tuple[str, ...], bound: tuple[str, ...]) -> Statement:
        kernel = self.kernel
        insn = kernel.id_to_insn[run.insn_ids[0]]
        dims = (*loops, *(name for name in bound if name in insn.within_inames))
        outer = [name for name in self.axes if name in insn.within_inames]
        domain = kernel.domain_of((*dims, *outer))
        predicates = insn.predicates
        strided: frozenset[str] = frozenset()
        if predicates and outer:  # in strides of work-items, not by the loops themselves
            strided = _strided(domain) - _strided(kernel.domain_of(dims))
        conditions: list[Expr] = []
        for condition in predicates:
            if _links(condition, strided, dims):
                conditions.append(condition)
                continue
            try:
                domain = domain.intersect(_where(kernel, domain, condition))
            except ExpressionToAffineConversionError:
                conditions.append(condition)
        if outer:
            domain = substitute_axes(domain, dims, {name: self.axes[name] for name in outer})
        return Statement(run, dims, domain, tuple(conditions))


def substitute_axes(domain: Set, dims: Sequence[str], values: Mapping[str, Expr]) -> Set:
    """Replace dimensions that are bound to axes by the axes' parameters; *dims* stay."""
    named = to_named(domain)
    for name, value in values.items():
        if not isinstance(value, p.Sum):
            axis = axis_name(value)
            if not has_param(named, axis):
                named = rename_param(named, name, axis)
                continue
        named = project_out_params(_equate(named, name, value), [name])
    return from_named(named, dims)


def _strided(domain: Set) -> frozenset[str]:
    """Return the strided dimensions, whose values differ by more than 1."""
    names = dim_names(domain)
    return frozenset(name for at, name in enumerate(names) if not domain.get_stride(at).is_one())


def _links(condition: Expr, strided: frozenset[str], dims: tuple[str, ...]) -> bool:
    """Tell whether a condition relates a strided loop and another one.

    Such a condition is not a bound: the first strided value that satisfies it depends on
    a remainder.
    """
    if not strided:
        return False
    names = set(variable_names(condition))
    return not strided.isdisjoint(names) and len(names.intersection(dims)) > 1


def _where(kernel: PreparedKernel, domain: Set, condition: Expr) -> Set:
    """Return where an affine condition is true; it may introduce sizes that are arguments."""
    sizes = [name for name in variable_names(condition) if is_size(kernel, name)]
    space = with_params(domain.get_space(), sizes)
    return set_from_condition(space, condition)


def _equate(named: Set, iname: str, value: Expr) -> Set:
    """Intersect a named set with ``iname = value``."""
    axis = axes_in(value)
    name = axis_name(axis)
    named = with_params(named, (name,))
    plain = value
    if isinstance(value, p.Sum):
        plain = p.Sum((p.Variable(name), *value.children[1:]))
    else:
        plain = p.Variable(name)
    space = named.get_space()
    return named.intersect(set_from_condition(space, p.Comparison(p.Variable(iname), "==", plain)))


def make_nest(
    kernel: PreparedKernel, grid: Grid, root: Node, axes: Sequence[tuple[str, Expr]], context: Set
) -> Nest:
    """Collect loops and statements below *root*, with *axes* of *grid* bound around it.

    *context* has the known constraints on the axes and the parameters.
    """
    maker = _NestMaker(kernel, axes)
    maker.visit(root, (), ())
    statements = numbered(maker.loops, maker.statements)
    return Nest(root, tuple(maker.loops), statements, tuple(axes), grid, context)


def numbered(loops: Sequence[Loop], statements: Sequence[Statement]) -> tuple[Statement, ...]:
    """Give statements and their dimensions canonical names."""
    result = []
    for k, statement in enumerate(statements):
        names = canonical_names(statement.dims, loops).values()
        domain = name_dims(statement.domain, names)
        result.append(replace(statement, domain=domain.set_tuple_name(f"S{k}")))
    return tuple(result)


# -- to an isl schedule --------------------------------------------------------------------


class _TreeMaker:
    def __init__(self, nest: Nest) -> None:
        self.nest = nest
        self.next_loop = 0
        self.next_statement = 0

    def make(self) -> isl.Schedule:
        domain = _union([s.domain for s in self.nest.statements])
        node = isl.ScheduleNode.from_domain(domain).child(0)
        return self._put(node, self.nest.root, ()).get_schedule()

    def _put(self, at: isl.ScheduleNode, node: Node, outer: tuple[str, ...]) -> isl.ScheduleNode:
        """Insert *node* at the leaf position *at*; return the cursor at that position."""
        depth = at.get_tree_depth()
        match node:
            case Run() | Barrier():
                self.next_statement += 1
                return at
            case Loop():
                inside = self._put_loop(at, node, outer)
            case Seq():
                inside = self._put_sequence(at, node, outer)
            case Bind():
                inside = self._put_bind(at, node, outer)
        return inside.ancestor(inside.get_tree_depth() - depth)

    def _below(self, node: Node) -> range:
        """Return the numbers of the statements below *node*, which comes next."""
        return range(self.next_statement, self.next_statement + count_statements(node))

    def _put_loop(
        self, at: isl.ScheduleNode, node: Loop, outer: tuple[str, ...]
    ) -> isl.ScheduleNode:
        number, position = self.next_loop, len(outer)
        self.next_loop += 1
        numbers = self._below(node.body)
        partial: isl.UnionPwAff | None = None
        for k in numbers:
            space = self.nest.statements[k].domain.get_space()
            loop = isl.PwAff.from_aff(axis_variable(space, position))
            value = isl.UnionPwAff.from_pw_aff(loop)
            partial = value if partial is None else partial.union_add(value)
        assert partial is not None
        at = at.insert_mark(isl.Id(loop_name(number))).child(0)
        at = at.insert_partial_schedule(isl.MultiUnionPwAff.from_union_pw_aff(partial))
        at = at.band_member_set_ast_loop_type(0, _ATOMIC)
        if node.slabs != (0, 0):
            isolate = self._isolate(numbers, position, node.slabs)
            options = at.band_get_ast_build_options().union(isolate)
            at = at.band_set_ast_build_options(options)
            at = at.band_member_set_isolate_ast_loop_type(0, _ATOMIC)
        return self._put(at.child(0), node.body, (*outer, node.iname))

    def _isolate(self, numbers: range, position: int, slabs: tuple[int, int]) -> isl.UnionSet:
        """Return ``{ isolate[[outer] -> [i]] }``: all iterations but the slabs."""
        domains = (self.nest.statements[k].domain.reset_tuple_id() for k in numbers)
        union = union_of(outer_dims(domain, position + 1) for domain in domains)
        assert union is not None
        names = dim_names(union)
        only = from_named(to_named(union), names[-1:])  # outer loops as parameters
        low = axis_min(only, 0).add_constant_val(isl_int(slabs[0]))
        high = axis_max(only, 0).add_constant_val(isl_int(-slabs[1]))
        named = to_named(only).params()
        index = isl.PwAff.from_aff(param_variable(named.get_space(), names[-1]))
        bulk = named.intersect(index.ge_set(low)).intersect(index.le_set(high))
        relation = relation_from(from_named(bulk.from_params(), names), position)
        return isl.UnionSet.from_set(relation.wrap().set_tuple_name("isolate"))

    def _put_sequence(
        self, at: isl.ScheduleNode, node: Seq, outer: tuple[str, ...]
    ) -> isl.ScheduleNode:
        start = self.next_statement
        filters = isl.UnionSetList.alloc(isl.DEFAULT_CONTEXT, len(node.children))
        for child in node.children:
            count = count_statements(child)
            filters = filters.add(self._universe(range(start, start + count)))
            start += count
        at = at.insert_sequence(filters)
        for k, child in enumerate(node.children):
            at = self._put(at.child(k).child(0), child, outer).ancestor(2)
        return at

    def _put_bind(
        self, at: isl.ScheduleNode, node: Bind, outer: tuple[str, ...]
    ) -> isl.ScheduleNode:
        axes = dict(node.axes)
        context = axis_context(self.nest.grid, [axes_in(value) for value in axes.values()])
        context = with_axes(context.from_params(), len(outer))
        at = at.insert_context(context).child(0)
        statements = [self.nest.statements[k] for k in self._below(node.body)]
        universes = ((one, isl.Set.universe(one.domain.get_space())) for one in statements)
        filters = union_of(isl.UnionSet.from_set(_tied(*one, axes)) for one in universes)
        assert filters is not None
        at = at.insert_filter(filters).child(0)
        return self._put(at, node.body, outer)

    def _universe(self, numbers: range) -> isl.UnionSet:
        return _union(
            [isl.Set.universe(self.nest.statements[k].domain.get_space()) for k in numbers]
        )


def _tied(statement: Statement, instances: Set, axes: Mapping[str, Expr]) -> Set:
    """Intersect instances of a statement with ``iname = axis`` for its inames in *axes*."""
    name = instances.get_tuple_name()
    for position, iname in enumerate(statement.dims):
        if iname in axes:
            names = dim_names(instances)
            named = to_named(instances.reset_tuple_id())
            named = _equate(named, names[position], axes[iname])
            instances = from_named(named, names).set_tuple_name(name)
    return instances


def own_instances(nest: Nest) -> tuple[Set, ...]:
    """Return the instances of each statement in a single work-item, with axes as parameters."""
    found: list[Set] = []
    for statement, axes in zip(nest.statements, _axes_bound(nest.root, {}), strict=True):
        context = axis_context(nest.grid, [axes_in(value) for value in axes.values()])
        found.append(_tied(statement, statement.domain, axes).intersect_params(context))
    return tuple(found)


def _axes_bound(node: Node, axes: Mapping[str, Expr]) -> Iterator[Mapping[str, Expr]]:
    """Yield the axes that are bound around each statement below *node*."""
    match node:
        case Run() | Barrier():
            yield axes
        case Bind():
            axes = {**axes, **dict(node.axes)}
    for child in children_of(node):
        yield from _axes_bound(child, axes)


def count_statements(node: Node) -> int:
    """Return the number of statements of a nest with this root."""
    return sum(isinstance(at, Run | Barrier) for at in nodes_in(node))


def _union(sets: list[Set]) -> isl.UnionSet:
    result = isl.UnionSet.from_set(sets[0])
    for one in sets[1:]:
        result = result.union(isl.UnionSet.from_set(one))
    return result


def to_isl(nest: Nest) -> isl.Schedule:
    """Make the isl schedule tree of a nest: bands in marks, sequences, contexts, filters."""
    return _TreeMaker(nest).make()
