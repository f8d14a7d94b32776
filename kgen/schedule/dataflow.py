"""Data flow of a scheduled kernel: the last writer of each value read, for all sizes.

Value-based data flow (Feautrier, 1991): each instance that reads an element is mapped to the
instance that wrote it last, in the order of the schedule. Work-items are assumed to run one after
the other between barriers, which gives the result of any order if there is no race.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import lcm, prod
from typing import Any, TypeAlias

import islpy as isl
import pymbolic.primitives as p

from kgen.analysis.fields import split_fields
from kgen.errors import ExpressionToAffineConversionError
from kgen.ir.expr import Expr, LinearSubscript, minus, to_text, variable_names, walk
from kgen.ir.instruction import Assignment, CallInstruction, InstructionBase
from kgen.ir.kernel import LoopKernel
from kgen.ir.sets.dims import (
    Set,
    existential_coefficients,
    involved_params,
    n_quotients,
    param_names,
    project_out_params,
    range_name,
    with_dims,
    with_range_name,
)
from kgen.ir.sets.names import SetName
from kgen.ir.sets.quasi_affine import aff_to_expr, map_from_exprs, set_from_condition
from kgen.ir.tags import GroupInameTag
from kgen.ir.types import AddressSpace
from kgen.ir.updates import NEUTRAL, operands_of
from kgen.schedule.execution import AxisKey, Execution, is_size
from kgen.schedule.tree import Schedule
from kgen.schedule.visits import Visit

__all__ = [
    "DataFlow",
    "Read",
    "Statement",
    "UndecidedError",
    "base_of",
    "check_cost",
    "compose",
    "domain_of",
    "element_of",
    "is_subset",
    "n_quotients_of",
    "sizes_of",
]

Map: TypeAlias = isl.Map

#: The maximum number of pieces of a set operation's result, and of quotients in each: isl counts
#: its allocations, but not the time that large numbers take.
_PIECES = 200
_QUOTIENTS = 64
#: The maximum least common multiple of the coefficients of quotients in a constraint,
#: also relative to the largest one: strides of nested tiles divide each other.
_MULTIPLE = 10_000
_RATIO = 16
_TANGLED = "loops are split by numbers that share no large factor"


class UndecidedError(Exception):
    """The reason why the data flow is unknown."""


def check_cost(*maps: Map) -> None:
    """Raise :class:`UndecidedError` if an operation on all *maps* would take isl too long."""
    n_pieces = prod(operand.n_basic_map() for operand in maps)
    if n_pieces > _PIECES or sum(map(n_quotients_of, maps)) > _QUOTIENTS:
        raise UndecidedError("there are too many cases to compare")


def domain_of(operand: Map) -> Set:
    """Return the domain of *operand*, within the budget."""
    if _is_tangled(operand, has_range=True):
        raise UndecidedError(_TANGLED)
    return operand.domain()


def is_subset(first: Map, second: Map) -> bool:
    """Tell whether *first* is inside *second*, within the budget."""
    if _is_tangled(second):
        raise UndecidedError(_TANGLED)
    return bool(first.is_subset(second))


def _is_tangled(operand: Map, *, has_range: bool = False) -> bool:
    """Tell whether existential variables are related by coefficients with few common factors.

    This happens if a loop is split by 84 and by 293: isl then samples points with huge numbers.
    """
    return any(
        len(numbers) > 1 and lcm(*numbers) > max(_MULTIPLE, _RATIO * max(numbers))
        for basic in operand.get_basic_maps()
        for numbers in existential_coefficients(basic, has_range=has_range)
    )


def n_quotients_of(operand: Map) -> int:
    """Return the number of quotients in the piece that has most of them."""
    return max(map(n_quotients, operand.get_basic_maps()), default=0)


def compose(first: Map, then: Map) -> Map:
    """Return ``{ x -> z }`` for ``{ x -> y }`` and ``{ y -> z }``, within the budget."""
    check_cost(first, then)
    result: Map = first.apply_range(then)
    return result


def sizes_of(kernel: LoopKernel) -> frozenset[str]:
    """Return the integers that callers pass, which are parameters of sets."""
    integers = {arg.name for arg in kernel.args if is_size(kernel, arg.name)}
    return frozenset(integers | (kernel.all_params() - kernel.array_vars.keys()))


def element_of(expr: Expr) -> tuple[str | None, tuple[Expr, ...]]:
    """Return the variable and the subscripts of an expression, if it is an array element.

    For fields of elements, the variable is ``p.x``: fields are arrays of their own.
    """
    element, fields = split_fields(expr)
    if isinstance(element, p.Variable):
        return ".".join((element.name, *fields)), ()
    if isinstance(element, p.Subscript) and isinstance(element.aggregate, p.Variable):
        return ".".join((element.aggregate.name, *fields)), element.index_tuple
    return None, ()


def base_of(name: str) -> str:
    """Return the array of which *name* is a field, or that it is itself."""
    return name.partition(".")[0]


@dataclass(frozen=True, eq=False)
class Statement:
    """A write of a kernel: its instances, their times, the elements and values written.

    ``instances`` is ``{ name[dims] }``; ``time``, ``{ name[dims] -> [time] }``, in
    lexicographic order; ``value`` an expression over the dimensions. ``axes`` gives the number of
    the work-item along each hardware axis.
    """

    name: str
    insn_id: str
    instances: Set
    time: Map
    array: str
    index: tuple[Expr, ...]
    value: Expr
    axes: Mapping[AxisKey, Expr]

    @cached_property
    def accumulation(self) -> tuple[type, tuple[Expr, ...]] | None:
        """The operation and the operands that are added to the element that was there before."""
        value, condition = self.value, None
        if isinstance(value, p.If) and self._is_target(value.else_):
            condition, value = value.condition, value.then
        kind, operands = operands_of(value)
        rest = tuple(one for one in operands if not self._is_target(one))
        if kind is None or len(rest) != len(operands) - 1:
            return None
        if condition is None:
            return kind, rest
        if NEUTRAL[kind] is None:
            return None
        return kind, (p.If(condition, kind(rest), NEUTRAL[kind]),)

    def _is_target(self, expr: Expr) -> bool:
        return element_of(expr) == (self.array, self.index)


@dataclass(frozen=True, eq=False)
class Read:
    """The source of the value of an element, for instances of a reader.

    ``writers`` maps them to the instances that wrote it; ``initial`` are those before which none
    did. If it is accumulated with an *operation*, these instances wrote it before all
    instances that ``accumulated`` maps to.
    """

    writers: tuple[tuple[Map, Statement], ...]
    initial: Set
    operation: type | None = None
    accumulated: tuple[tuple[Map, Statement], ...] = ()


class DataFlow(Execution):
    """The data flow in a prepared and scheduled kernel; *side* distinguishes kernels."""

    def __init__(
        self, kernel: LoopKernel, schedule: Schedule, context: Set, side: str, *, has_axes: bool
    ) -> None:
        super().__init__(kernel, schedule, has_axes=has_axes)
        self.context = context
        self.side = side
        self.reads: dict[object, Read] = {}
        #: cached values, by query
        self.affine: dict[Any, Map | None] = {}
        self.cases: dict[Any, Any] = {}
        self.writers: dict[str, list[Statement]] = {}
        self.n_times = 2 * max((len(v.loops) for v in self.visits), default=0) + 7
        self.end = 1 + max((v.position for v in self.visits), default=0)
        for visit in self.visits:
            for statement in self._statements(visit):
                self.writers.setdefault(statement.array, []).append(statement)
        for name in self.writers:
            self.check_apart(name)

    # -- statements --------------------------------------------------------------------------

    def _statements(self, visit: Visit) -> Iterator[Statement]:
        insn = self.kernel.id_to_insn[visit.insn_id]
        if not isinstance(insn, Assignment | CallInstruction):
            raise UndecidedError(f"'{insn.id}' is C code")
        names = self.kernel.in_order(insn.within_inames)
        domain, conditions = self._domain(insn, names)
        axes, domain = self._axes_of(insn, domain)
        for condition in insn.predicates:
            holds = self.condition(domain, condition)
            if holds is None:
                conditions.append(condition)
            else:
                domain = domain.intersect(holds)
        many = isinstance(insn, CallInstruction)
        if len(set(insn.assignee_var_names())) < len(insn.assignees):
            raise UndecidedError(f"'{insn.id}' writes an array twice")
        for number, lhs in enumerate(insn.assignees):
            array, index = element_of(lhs)
            if array is None or not self.has_separate_fields(lhs):
                raise UndecidedError(f"'{insn.id}' writes '{to_text(lhs)}'")
            value = insn.expression
            if many:
                value = p.Call(p.Variable(f".result{number}"), (value,))
            if self.holds_integers(lhs) and self.is_real(insn.expression):
                value = p.Call(p.Variable(".rounded"), (value,))
            if conditions:
                value = p.If(p.LogicalAnd(tuple(conditions)), value, lhs)
            name = f"{self.side}{visit.position}_{number}"
            instances = domain.set_tuple_name(name)
            yield Statement(
                name,
                str(insn.id),
                instances,
                self._time(instances, visit, names),
                array,
                index,
                value,
                axes,
            )

    def _domain(self, insn: InstructionBase, names: tuple[str, ...]) -> tuple[Set, list[Expr]]:
        """Return the iterations of loops, and conditions for loops with data-dependent bounds."""
        domain = self.kernel.domain_of(names)
        conditions: list[Expr] = []
        data = {name for name in involved_params(domain) if name in self.kernel.array_vars}
        if data:
            pieces = domain.coalesce().compute_divs().get_basic_sets()
            if len(pieces) != 1:
                raise UndecidedError(f"the loops around '{insn.id}' depend on data in several ways")
            domain = isl.Set.universe(domain.get_space())
            for condition in _constraints(pieces[0]):
                if data.intersection(variable_names(condition)):
                    self._check_constant(insn, condition, names)
                    conditions.append(condition)
                else:
                    domain = domain.intersect(set_from_condition(domain.get_space(), condition))
        domain = project_out_params(domain, self.kernel.array_vars.keys() & param_names(domain))
        if not names:
            domain = isl.Set.from_params(domain.params())
        domain = domain.align_params(self.context.get_space()).intersect_params(self.context)
        return domain, conditions

    def _check_constant(
        self, insn: InstructionBase, condition: Expr, names: tuple[str, ...]
    ) -> None:
        """Check that the bound of a loop is the same in all of its iterations."""
        used = variable_names(condition)
        for name in used:
            for writer in self.kernel.writers.get(name, ()):
                if self.kernel.id_to_insn[writer].within_inames.intersection(used, names):
                    raise UndecidedError(
                        f"'{writer}' writes '{name}' inside of a loop around '{insn.id}' that "
                        "it bounds"
                    )

    def _axes_of(self, insn: InstructionBase, domain: Set) -> tuple[dict[AxisKey, Expr], Set]:
        """Return the work-item of an instance; all work-items, if it is in none."""
        mine: dict[AxisKey, Expr] = {
            key: minus(p.Variable(name), axis.first)
            for key, (name, axis) in self.axes_of(insn).items()
        }
        is_own = self.writes_own(insn)
        for is_group, axis_number in self.all_axes:
            if (is_group, axis_number) in mine:
                continue
            extent = self._extent(insn, is_group, axis_number)
            mine[is_group, axis_number] = 0
            if extent is None:
                continue
            if is_own:
                name = (SetName.GROUP if is_group else SetName.ITEM).at(axis_number)
                domain = with_dims(domain, (name,))
                mine[is_group, axis_number] = p.Variable(name)
            number = mine[is_group, axis_number]
            for condition in (p.Comparison(number, ">=", 0), p.Comparison(number, "<", extent)):
                holds = self.condition(domain, condition)
                if holds is None:
                    raise UndecidedError(f"the grid has '{to_text(extent)}' work-items")
                domain = domain.intersect(holds)
        return mine, domain

    @cached_property
    def has_choices(self) -> bool:
        """Whether values are chosen by conditions, such as zeros where there are no elements."""
        values = (expr for insn in self.kernel.instructions for expr in insn.expressions())
        return any(isinstance(node, p.If) for node in walk(*values))

    @cached_property
    def all_axes(self) -> tuple[AxisKey, ...]:
        """The hardware axes of all launches: whether they are group axes, and their numbers."""
        found = {(isinstance(a.tag, GroupInameTag), a.tag.axis) for a in self.axes.values()}
        return tuple(sorted(found))

    def _extent(self, insn: InstructionBase, is_group: bool, axis: int) -> Expr:
        """Return the number of work-items along an axis; ``None`` if the grid has no such axis."""
        grid = self.kernel.grid_of_launch(self.launch_of(insn))
        extents = grid.groups if is_group else grid.locals
        return extents[axis] if axis < len(extents) else None

    def _time(self, instances: Set, visit: Visit, names: tuple[str, ...]) -> Map:
        time: list[Expr] = self.time_of(visit, p.Variable)
        items = [p.Variable(name) for name in names if name in self.axes]
        return self._at_time(instances, [*time, *items])

    def _at_time(self, instances: Set, time: list[Expr]) -> Map:
        padded = (*time, *([0] * (self.n_times - len(time))))
        return self.values(instances, padded)

    def final(self, array: str, n_axes: int) -> Statement:
        """Return a statement that runs last, and reads all elements of an argument."""
        names = [SetName.ELEMENT.at(axis) for axis in range(n_axes)]
        space = with_dims(self.context.get_space(), names)
        domain = isl.Set.universe(space).intersect_params(self.context)
        instances = domain.set_tuple_name(f"{self.side}end")
        index = tuple(map(p.Variable, names))
        name, *fields = array.split(".")
        value: Expr = p.Variable(name)[index] if index else p.Variable(name)
        for field in fields:
            value = p.Lookup(value, field)
        time = self._at_time(instances, [self.end])
        return Statement(f"{self.side}end", "", instances, time, array, index, value, {})

    # -- expressions -------------------------------------------------------------------------

    def values(self, instances: Set, exprs: tuple[Expr, ...]) -> Map:
        """Return ``{ instances -> [values of exprs] }``, or raise :class:`UndecidedError`."""
        try:
            if any(_truncates(expr) for expr in exprs):
                raise ExpressionToAffineConversionError("it is rounded towards 0")
            result: Map = map_from_exprs(instances.get_space(), exprs).intersect_domain(instances)
        except ExpressionToAffineConversionError as err:
            raise UndecidedError(str(err)) from None
        return result

    def condition(self, instances: Set, condition: Expr) -> Set | None:
        """Return the instances for which a condition is true; ``None`` if it depends on data."""
        if _truncates(condition):
            return None
        try:
            return set_from_condition(instances.get_space(), condition)
        except ExpressionToAffineConversionError:
            return None

    # -- fields ------------------------------------------------------------------------------

    def check_apart(self, name: str) -> None:
        """Raise :class:`UndecidedError` if an array is written by parts of what *name* is."""
        for other in self.writers:
            if other.startswith(f"{name}."):
                raise UndecidedError(f"'{name}' and '{other}' are accessed")

    # -- flow --------------------------------------------------------------------------------

    def read(self, reader: Statement, array: str, index: tuple[Expr, ...]) -> Read:
        """Return the source of the value of an element that *reader* reads."""
        key = reader.name, array, index
        if key not in self.reads:
            self.reads[key] = self._read(reader, array, index)
        return self.reads[key]

    def _elements(self, at: Statement, array: str, index: tuple[Expr, ...]) -> Map:
        """Return ``{ instances -> array[owning work-item, subscripts] }``."""
        space = self.space_of(base_of(array))
        owners: list[AxisKey] = []
        if space != AddressSpace.GLOBAL:
            owners = [key for key in self.all_axes if key[0] or space != AddressSpace.LOCAL]
        owner = tuple(at.axes[key] for key in owners)
        return with_range_name(self.values(at.instances, (*owner, *index)), array)

    def _read(self, reader: Statement, array: str, index: tuple[Expr, ...]) -> Read:
        elements = self._elements(reader, array, index)
        writers = self.writers[array]
        kinds = [w.accumulation[0] for w in writers if w.accumulation is not None]
        kind = kinds[0] if kinds else None
        adding = [w for w in writers if w.accumulation is not None and w.accumulation[0] is kind]
        plain = [writer for writer in writers if writer not in adding]
        mine = self._last(reader, elements, plain)
        if not adding:
            return mine
        found = []
        for writer in adding:
            written = self._elements(writer, array, writer.index)
            before = self._last(writer, written, plain)
            same = compose(elements, written.reverse()).intersect(_later(reader, writer))
            both = _both(mine, before)
            check_cost(both, same)
            pairs = both.intersect(same).coalesce()
            if not pairs.is_empty():
                found.append((pairs, writer))
        return Read(mine.writers, mine.initial, kind, tuple(found))

    def _last(self, reader: Statement, elements: Map, writers: list[Statement]) -> Read:
        """Return the last writer, among *writers*, of the elements that an instance reads."""
        key = "last", reader.name, str(elements), tuple(writer.name for writer in writers)
        if key not in self.reads:
            self.reads[key] = self._find_last(reader, elements, writers)
        return self.reads[key]

    def _find_last(self, reader: Statement, elements: Map, writers: list[Statement]) -> Read:
        if not writers:
            return Read((), reader.instances)
        earlier: list[tuple[Map, Statement]] = []
        times: Map | None = None
        for writer in writers:
            written = self._elements(writer, writer.array, writer.index)
            pairs = compose(elements, written.reverse())
            pairs = pairs.intersect(_later(reader, writer)).coalesce()
            if not pairs.is_empty():
                earlier.append((pairs, writer))
                time = compose(pairs, writer.time)
                times = time if times is None else times.union(time)
        if times is None:
            return Read((), reader.instances)
        check_cost(times, times)
        try:
            last = times if times.is_single_valued() else times.lexmax()
        except isl.Error:
            what = range_name(elements)
            raise UndecidedError(
                f"which write of '{what}' is the last one depends on data"
            ) from None
        if not domain_of(times).is_subset(domain_of(last)):  # isl takes some sets for empty
            raise UndecidedError(f"isl does not find the last write of '{range_name(elements)}'")
        found = []
        for pairs, writer in earlier:
            same = compose(last, writer.time.reverse())
            check_cost(pairs, same)
            pairs = pairs.intersect(same).coalesce()
            if not pairs.is_empty():
                found.append((pairs, writer))
        return Read(tuple(found), reader.instances.subtract(domain_of(times)).coalesce())


def _truncates(expr: Expr) -> bool:
    """Tell whether there is a quotient rounded towards 0, or an element by linear index."""
    return any(
        "Trunc" in type(node).__name__ or isinstance(node, LinearSubscript) for node in walk(expr)
    )


def _constraints(piece: isl.BasicSet) -> Iterator[Expr]:
    """Yield the constraints of a set as conditions with 0 on the right-hand side."""
    for constraint in piece.get_constraints():
        if not constraint.is_div_constraint():
            relation = "==" if constraint.is_equality() else ">="
            yield p.Comparison(aff_to_expr(constraint.get_aff()), relation, 0)


def _both(one: Read, other: Read) -> Map:
    """Return the pairs of instances of two readers that have the same writer."""
    pairs = isl.Map.from_domain_and_range(one.initial, other.initial)
    for mine, writer in one.writers:
        for theirs, same in other.writers:
            if same is writer:
                pairs = pairs.union(compose(mine, theirs.reverse()))
    return pairs


def _later(one: Statement, other: Statement) -> Map:
    """Return the pairs of instances of two statements where the first runs after the second."""
    after = isl.Map.lex_gt(one.time.get_space().range())
    result: Map = one.time.apply_range(after).apply_range(other.time.reverse())
    return result
