"""Evaluating a scheduled kernel for given sizes: fingerprints of its results.

Each element of an argument has a random value, and arithmetic is that of a finite
field. Two different polynomials of elements have different values, except with a probability of 1
in 2^60, while reordered or split sums and products have equal values. All other functions
are random functions of the values of their operands.
"""

from __future__ import annotations

import hashlib
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import reduce
from itertools import chain, product
from math import prod
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np
import pymbolic.primitives as p
from pymbolic.mapper import Mapper

from kgen.analysis.fields import separate_fields, split_fields
from kgen.ir.assignee import assignee_name, index_of
from kgen.ir.data import TemporaryVariable
from kgen.ir.expr import TypeCast, TypedLiteral, to_text, variable_names
from kgen.ir.functions import LANE_BEFORE, is_of_lane
from kgen.ir.instruction import (
    Assignment,
    CallInstruction,
    CInstruction,
    InstructionBase,
    NoOpInstruction,
)
from kgen.ir.kernel import LoopKernel
from kgen.ir.sets.dims import (
    Set,
    fix_param_values,
    involved_params,
)
from kgen.ir.sets.points import TooManyPointsError, points_of
from kgen.ir.stages import PreparedKernel
from kgen.ir.tags import AsyncCopyTag, CopyCommitTag, CopyWaitTag
from kgen.ir.types import AddressSpace, NumpyType
from kgen.schedule.execution import AxisKey, Execution, is_integer, is_integer_type
from kgen.schedule.tree import Schedule

__all__ = ["Evaluation", "NotEvaluatedError", "Write", "evaluate", "value_of"]

#: The field: numbers modulo this prime; those near 0 represent the integers that they equal.
_PRIME: Final = 2**127 - 1
_SMALL: Final = 2**65
#: Data are compared as integers between -64 and 64, inside the limits of all types.
_RANK_BITS: Final = 114
#: Values of integer arguments: subscripts, lengths and conditions.
_INTEGERS: Final = 4

Point = tuple[int, ...]


class NotEvaluatedError(Exception):
    """The reason why the results of a kernel are unknown."""


class Write(NamedTuple):
    """The last value written to an element, and the instance that wrote it."""

    value: int
    insn_id: str
    point: Mapping[str, int]


@dataclass
class Evaluation:
    """The elements of arguments that a kernel has written, by array and subscripts.

    ``depends_on_data`` if conditions or subscripts do, which were tried for one choice;
    ``reads_undefined`` if an element of a temporary is read that was never written.
    """

    results: dict[str, dict[Point, Write]] = field(default_factory=dict)
    depends_on_data: bool = False
    reads_undefined: bool = False


def evaluate(
    kernel: PreparedKernel,
    schedule: Schedule,
    sizes: Mapping[str, int],
    *,
    has_axes: bool,
    most: int,
) -> Evaluation:
    """Run the instances of a prepared kernel in the order of its schedule.

    Work-items run in lockstep, one instruction each in turn. Raises
    :class:`NotEvaluatedError` if there are more than *most* instances, and for constructs without
    a fingerprint, such as C code and loops with data-dependent bounds.
    """
    return _Evaluator(kernel, schedule, sizes, has_axes=has_axes, most=most).run()


def value_of(kernel: LoopKernel, name: str, index: Point, results: Mapping[Point, Write]) -> int:
    """Return the final value of an element of an argument, written or not."""
    written = results.get(index)
    return written.value if written else _initial(kernel, name, index, _Structures())


class _Instance(NamedTuple):
    time: tuple[int, ...]
    item: Point
    insn: InstructionBase
    point: dict[str, int]


class _Evaluator(Execution):
    kinds: ClassVar = (*Execution.kinds, NoOpInstruction)  # which end groups of copies

    def __init__(
        self,
        kernel: PreparedKernel,
        schedule: Schedule,
        sizes: Mapping[str, int],
        *,
        has_axes: bool,
        most: int,
    ) -> None:
        super().__init__(kernel, schedule, has_axes=has_axes)
        self.sizes = sizes
        self.most = most
        self.found = Evaluation()
        self.memory: dict[tuple[str, Point], dict[Point, Write]] = {}
        self.extents: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {}
        self.running = ""
        #: the groups of copies that each work-item has started, the last of which is incomplete
        self.copies: dict[Point, list[list[tuple[dict[Point, Write], Point, Write]]]] = {}
        self.structures = _Structures()
        self.undefined: set[int] = set()
        self.values = _Values(self)

    def run(self) -> Evaluation:
        """Run all instances."""
        for instance in sorted(self._instances(), key=lambda one: (one.time, one.item)):
            self._execute(instance)
        for (name, _), written in self.memory.items():
            if name not in self.kernel.temporary_variables:
                self.found.results[name] = written
        return self.found

    # -- instances ---------------------------------------------------------------------------

    def _instances(self) -> Iterator[_Instance]:
        left = self.most
        for visit in self.visits:
            insn = self.kernel.id_to_insn[visit.insn_id]
            items = list(self._other_items(insn))
            points = self._points(insn, left // max(1, len(items)))
            left -= len(points) * len(items)
            for point in points:
                time = tuple(self.time_of(visit, point.__getitem__))
                mine = self._item(insn, point)
                for other in items:
                    yield _Instance(time, _joined(mine, other), insn, point)

    def _points(self, insn: InstructionBase, most: int) -> list[dict[str, int]]:
        names = self.kernel.in_order(insn.within_inames)
        domain = self._at_sizes(self.kernel.domain_of(names), f"the loops around '{insn.id}'")
        try:
            found = points_of(domain, most)
        except TooManyPointsError as err:
            raise NotEvaluatedError(str(err)) from None
        return [dict(zip(names, point, strict=True)) for point in found]

    def _at_sizes(self, domain: Set, what: str) -> Set:
        for name in involved_params(domain):
            if name not in self.sizes:
                raise NotEvaluatedError(f"{what} depend on '{name}', which is data")
        return fix_param_values(domain, self.sizes)

    def _item(self, insn: InstructionBase, point: Mapping[str, int]) -> dict[AxisKey, int]:
        """Return where an instance runs, by hardware axis."""
        return {
            key: point[name] - self.values.of(axis.first, dict(self.sizes), ())
            for key, (name, axis) in self.axes_of(insn).items()
        }

    def _other_items(self, insn: InstructionBase) -> Iterator[dict[AxisKey, int]]:
        """Yield all work-items that run an instruction, not only the current one."""
        if not self.axes:
            yield {}
            return
        axes = self.axes_of(insn)
        free: list[AxisKey] = []
        ranges: list[range] = []
        for is_group, extents in zip((True, False), self._extents(insn), strict=True):
            for number, extent in enumerate(extents):
                if (is_group, number) not in axes:
                    free.append((is_group, number))
                    ranges.append(range(extent))
        is_own = self.writes_own(insn) or insn.tags_of_type(CopyCommitTag)
        if not is_own:  # the same value to the same element: once is enough
            ranges = [range(min(1, len(one))) for one in ranges]
        for values in product(*ranges):
            yield dict(zip(free, values, strict=True))

    def _extents(self, insn: InstructionBase) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the numbers of groups in the launch of an instruction, and of its work-items."""
        launch = self.launch_of(insn)
        if launch[0] not in self.extents:
            grid = self.kernel.grid_of_launch(launch)
            groups, items = (
                tuple(self.values.of(extent, dict(self.sizes), ()) for extent in extents)
                for extents in (grid.groups, grid.locals)
            )
            self.extents.update(dict.fromkeys(launch, (groups, items)))
        return self.extents[launch[0]]

    def lane_at(self, distance: int, item: Point, *, is_before: bool) -> Point:
        """Return another work-item of the group, at a distance before it or by exclusive or."""
        half = len(item) // 2
        group, mine = item[:half], item[half:]
        _, sizes = self.extents[self.running]
        own = sum(prod(sizes[:axis]) * index for axis, index in enumerate(mine))
        before = own - distance if own >= distance else own
        number = before if is_before else own ^ distance
        other = (number // prod(sizes[:axis]) % size for axis, size in enumerate(sizes))
        return (*group, *other, *mine[len(sizes) :])

    # -- memory ------------------------------------------------------------------------------

    def owner(self, name: str, item: Point) -> Point:
        """Return the owner of the copy of an array that a work-item uses."""
        space = self.space_of(name)
        if space == AddressSpace.GLOBAL or not self.axes:
            return ()
        return item[: len(item) // 2] if space == AddressSpace.LOCAL else item

    def read(self, name: str, index: Point, item: Point) -> int:
        """Return the value of an element, for one work-item."""
        owner = self.owner(name, item)
        written = self.memory.get((name, owner), {}).get(index)
        if written is not None:
            return written.value
        variable = self.kernel.array_vars.get(name)
        if isinstance(variable, TemporaryVariable):
            if any(map(_is_data, index)):  # a random number, of which '% 12' is not below 12
                raise NotEvaluatedError(f"which element of '{name}' is read depends on data")
            if variable.initializer is None:
                undefined = self.structures.of(variable.dtype, ("undefined", name, *owner, *index))
                self.undefined.update(self.structures.leaves(undefined))
                return undefined
            try:
                return _number(np.asarray(variable.initializer)[index])
            except IndexError:
                return _random("outside", name, *index)
        if is_integer(self.kernel, name):
            self.found.depends_on_data = True
        return _initial(self.kernel, name, index, self.structures)

    def used(self, value: int) -> int:
        """Return a value that is used, and note if it was never written."""
        if self.undefined and not self.undefined.isdisjoint(self.structures.leaves(value)):
            self.found.reads_undefined = True
        return value

    # -- execution ---------------------------------------------------------------------------

    def _execute(self, instance: _Instance) -> None:
        insn = instance.insn
        self.running = str(insn.id)
        names = {**self.sizes, **instance.point}
        for condition in insn.predicates:
            if not self.values.of(condition, names, instance.item):
                return
        if isinstance(insn, CInstruction):
            raise NotEvaluatedError(f"'{insn.id}' is C code")
        self._follow_copies(instance)
        if isinstance(insn, Assignment | CallInstruction):
            self._assign(instance, insn, names)

    def _assign(
        self, instance: _Instance, insn: Assignment | CallInstruction, names: dict[str, int]
    ) -> None:
        for lhs in insn.assignees:
            is_part = isinstance(lhs, p.Lookup)
            is_known = isinstance(split_fields(lhs)[0], p.Variable | p.Subscript)
            if not is_known or (is_part and insn.tags_of_type(AsyncCopyTag)):
                raise NotEvaluatedError(f"'{insn.id}' writes '{to_text(lhs)}'")
        value = self.values.of(insn.expression, names, instance.item)
        if any(map(self.holds_integers, insn.assignees)):
            value = self.values.rounded(value, insn.expression)
        values = [value] if isinstance(insn, Assignment) else _results(value, insn)
        for lhs, one in zip(insn.assignees, values, strict=True):
            index = tuple(self.values.of(part, names, instance.item) for part in index_of(lhs))
            name = assignee_name(lhs)
            if isinstance(lhs, p.Lookup):
                around = self.read(name, index, instance.item)
                one = self._with_field(insn, lhs, around, one)
            place = self.memory.setdefault((name, self.owner(name, instance.item)), {})
            written = Write(one, str(insn.id), instance.point)
            if insn.tags_of_type(AsyncCopyTag):
                self._groups(instance.item)[-1].append((place, index, written))
                written = written._replace(value=_random("in flight", name, *index, one))
            place[index] = written

    def _with_field(self, insn: InstructionBase, lhs: p.Lookup, around: int, value: int) -> int:
        """Return a structure in which the field that *lhs* names is *value*."""
        found = self.structures.replaced(around, split_fields(lhs)[1], value)
        if found is None:
            raise NotEvaluatedError(f"'{insn.id}' writes '{to_text(lhs)}'")
        return found

    # -- asynchronous copies -----------------------------------------------------------------

    def _groups(self, item: Point) -> list[list[tuple[dict[Point, Write], Point, Write]]]:
        return self.copies.setdefault(item, [[]])

    def _follow_copies(self, instance: _Instance) -> None:
        """End a group of copies, or complete those that an instruction waits for."""
        if instance.insn.tags_of_type(CopyCommitTag):
            self._groups(instance.item).append([])
        for tag in instance.insn.tags_of_type(CopyWaitTag):
            self._complete(instance.item, tag.pending)

    def _complete(self, item: Point, pending: int) -> None:
        """Complete the copies of a work-item, except for the last *pending* groups."""
        groups = self._groups(item)
        while len(groups) - 1 > pending:
            for place, index, written in groups.pop(0):
                place[index] = written


class _Structures:
    """The values of fields, by the random number that stands for all of a structure."""

    def __init__(self) -> None:
        self.fields: dict[int, dict[str, int]] = {}

    def of(self, dtype: Any, key: tuple[Any, ...]) -> int:
        """Return a random value of a type, with random values of its fields."""
        parts = separate_fields(dtype.numpy_dtype) if isinstance(dtype, NumpyType) else {}
        if parts:
            return self._joined({n: self.of(NumpyType(d), (*key, n)) for n, d in parts.items()})
        return _random(*key)

    def _joined(self, fields: dict[str, int]) -> int:
        value = _random("structure", *chain(*fields.items()))
        self.fields[value] = fields
        return value

    def field(self, value: int, name: str) -> int:
        """Return a field of a structure, or a component of another value."""
        found = self.fields.get(value, {}).get(name)
        return _random("part", name, value) if found is None else found

    def replaced(self, value: int, names: Sequence[str], new: int) -> int | None:
        """Return a structure with another field of a field...; ``None`` if it has no such."""
        fields = self.fields.get(value, {})
        first, *inner = names
        if first not in fields:
            return None
        one = self.replaced(fields[first], inner, new) if inner else new
        return None if one is None else self._joined({**fields, first: one})

    def leaves(self, value: int) -> Iterator[int]:
        """Yield the values in a structure that are no structures, or the value itself."""
        fields = self.fields.get(value)
        if fields is None:
            yield value
        else:
            yield from chain.from_iterable(map(self.leaves, fields.values()))


def _initial(kernel: LoopKernel, name: str, index: Point, structures: _Structures) -> int:
    dtype = kernel.array_vars[name].dtype if name in kernel.array_vars else None
    value = structures.of(dtype, ("argument", name, *index))
    return value % _INTEGERS if is_integer(kernel, name) else value


def _results(value: int, insn: CallInstruction) -> list[int]:
    return [_random("result", number, value) for number in range(len(insn.assignees))]


def _joined(mine: Mapping[AxisKey, int], other: Mapping[AxisKey, int]) -> Point:
    """Return a work-item as numbers: those of its group, then those in its group."""
    where = {**mine, **other}
    return tuple(where.get((is_group, axis), 0) for is_group in (True, False) for axis in range(3))


# -- values ------------------------------------------------------------------------------------


def _canonical(value: int) -> int:
    """Return the number of the field as an integer near 0, if it is one."""
    if -_SMALL < value < _SMALL:
        return value
    value %= _PRIME
    return value - _PRIME if value > _PRIME - _SMALL else value


def _random(*key: Any) -> int:
    text = repr(tuple(_canonical(k) if isinstance(k, int) else k for k in key))
    found = int.from_bytes(hashlib.sha256(text.encode()).digest()[:15], "big")
    return found % (_PRIME - 4 * _SMALL) + 2 * _SMALL


def _is_data(value: int) -> bool:
    return not -_SMALL < value < _SMALL


def _rank(value: int) -> int:
    """Return the value to compare: data are as often negative as positive, and finite."""
    if value in _INFINITE:
        return _INFINITE[value]
    if not _is_data(value):
        return value << _RANK_BITS
    rank = _random("rank", value)
    return rank if rank % 2 else -rank


def _number(value: Any) -> int:
    """Return a constant as a number of the field."""
    if isinstance(value, complex | np.complexfloating):
        return _canonical(_number(value.real) + _number(value.imag) * _random("imaginary"))
    if isinstance(value, bool | np.bool_ | int | np.integer):
        return _canonical(int(value))
    if not np.isfinite(value):
        return _random("constant", str(value))
    fraction = Fraction(float(value))
    return _canonical(fraction.numerator * pow(fraction.denominator, -1, _PRIME))


_INFINITE: Final = {_number(sign * np.inf): sign * (_PRIME << _RANK_BITS) for sign in (1, -1)}

_COMPARE: Final[Mapping[str, Callable[[int, int], bool]]] = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
}

_INTEGER_ONLY: Final[Mapping[str, Callable[[int, int], int]]] = {
    "floor_div": lambda a, b: a // b,
    "remainder": lambda a, b: a % b,
    "trunc_quotient": lambda a, b: abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1),
    "trunc_remainder": lambda a, b: abs(a) % abs(b) * (1 if a >= 0 else -1),
    "left_shift": lambda a, b: a << b if 0 <= b < 64 else _random("shift", a, b),
    "right_shift": lambda a, b: a >> b if b >= 0 else _random("shift", a, b),
}


class _Values(Mapper[int, Any]):
    """Values of expressions for one instance: its names and its work-item are the arguments."""

    def __init__(self, memory: _Evaluator) -> None:
        super().__init__()
        self.memory = memory

    def of(self, expr: Any, names: dict[str, int], item: Point) -> int:
        """Return the value of an expression."""
        return int(self.rec(expr, names, item))

    def handle_unsupported_expression(self, expr: Any, *args: Any, **kwargs: Any) -> int:
        raise NotEvaluatedError(f"'{to_text(expr)}' has no value that can be compared")

    map_tuple = handle_unsupported_expression
    map_list = handle_unsupported_expression

    def map_constant(self, expr: Any, *args: Any) -> int:
        return expr if type(expr) is int else _number(expr)

    def map_typed_literal(self, expr: TypedLiteral, *args: Any) -> int:
        return _number(expr.value)

    def map_variable(self, expr: p.Variable, names: dict[str, int], item: Point) -> int:
        found = names.get(expr.name)
        if found is not None:
            return found
        return self.memory.used(self.memory.read(expr.name, (), item))

    map_tagged_variable = map_variable

    def map_subscript(self, expr: p.Subscript, names: dict[str, int], item: Point) -> int:
        if not isinstance(expr.aggregate, p.Variable):
            return self.handle_unsupported_expression(expr)
        index = tuple(self.rec(part, names, item) for part in expr.index_tuple)
        return self.memory.used(self.memory.read(expr.aggregate.name, index, item))

    def map_sum(self, expr: p.Sum, *args: Any) -> int:
        return _canonical(sum(self.rec(child, *args) for child in expr.children))

    def map_product(self, expr: p.Product, *args: Any) -> int:
        value = 1
        for child in expr.children:
            value = _canonical(value * self.rec(child, *args))
        return value

    def map_quotient(self, expr: p.Quotient, *args: Any) -> int:
        top, bottom = self.rec(expr.numerator, *args), self.rec(expr.denominator, *args)
        if bottom % _PRIME == 0:
            return _random("quotient", top, bottom)
        return _canonical(top * pow(bottom, -1, _PRIME))

    def _integers(self, kind: str, left: Any, right: Any, *args: Any) -> int:
        one, other = self.rec(left, *args), self.rec(right, *args)
        if _is_data(one) or _is_data(other) or (other == 0 and "shift" not in kind):
            return _random(kind, one, other)
        return _canonical(_INTEGER_ONLY[kind](one, other))

    def map_floor_div(self, expr: p.FloorDiv, *args: Any) -> int:
        return self._integers("floor_div", expr.numerator, expr.denominator, *args)

    def map_remainder(self, expr: p.Remainder, *args: Any) -> int:
        return self._integers("remainder", expr.numerator, expr.denominator, *args)

    def map_trunc_quotient(self, expr: Any, *args: Any) -> int:
        return self._integers("trunc_quotient", expr.numerator, expr.denominator, *args)

    def map_trunc_remainder(self, expr: Any, *args: Any) -> int:
        return self._integers("trunc_remainder", expr.numerator, expr.denominator, *args)

    def map_left_shift(self, expr: p.LeftShift, *args: Any) -> int:
        return self._integers("left_shift", expr.shiftee, expr.shift, *args)

    def map_right_shift(self, expr: p.RightShift, *args: Any) -> int:
        return self._integers("right_shift", expr.shiftee, expr.shift, *args)

    def map_power(self, expr: p.Power, *args: Any) -> int:
        base, exponent = self.rec(expr.base, *args), self.rec(expr.exponent, *args)
        if _is_data(exponent) or (exponent < 0 and base % _PRIME == 0):
            return _random("power", base, exponent)
        return _canonical(pow(base, exponent, _PRIME))

    def rounded(self, value: int, expr: Any) -> int:
        """Return the value of an expression as an integer: a random one, if it may be real."""
        if _is_data(value) and self.memory.is_real(expr):
            return _random("rounded", value)
        return value

    def map_type_cast(self, expr: TypeCast, *args: Any) -> int:
        value = self.rec(expr.child, *args)
        return self.rounded(value, expr.child) if is_integer_type(expr.type) else value

    def map_if(self, expr: p.If, *args: Any) -> int:
        return self.rec(expr.then if self._is_true(expr.condition, *args) else expr.else_, *args)

    def _is_true(self, expr: Any, *args: Any) -> bool:
        value = self.rec(expr, *args)
        if _is_data(value):
            self.memory.found.depends_on_data = True
        return _rank(value) > 0 if _is_data(value) else bool(value)

    def map_comparison(self, expr: p.Comparison, *args: Any) -> int:
        left, right = self.rec(expr.left, *args), self.rec(expr.right, *args)
        if _is_data(left) or _is_data(right):
            self.memory.found.depends_on_data = True
        return int(_COMPARE[str(expr.operator)](_rank(left), _rank(right)))

    def map_logical_and(self, expr: p.LogicalAnd, *args: Any) -> int:
        return int(all(self._is_true(child, *args) for child in expr.children))

    def map_logical_or(self, expr: p.LogicalOr, *args: Any) -> int:
        return int(any(self._is_true(child, *args) for child in expr.children))

    def map_logical_not(self, expr: p.LogicalNot, *args: Any) -> int:
        return int(not self._is_true(expr.child, *args))

    def _extreme(self, children: Iterable[Any], choose: Any, *args: Any) -> int:
        values = [self.rec(child, *args) for child in children]
        if any(map(_is_data, values)):
            self.memory.found.depends_on_data = True
        return int(choose(values, key=_rank))

    def map_min(self, expr: p.Min, *args: Any) -> int:
        return self._extreme(expr.children, min, *args)

    def map_max(self, expr: p.Max, *args: Any) -> int:
        return self._extreme(expr.children, max, *args)

    def _bits(
        self, operation: Callable[[int, int], int], children: Sequence[Any], *args: Any
    ) -> int:
        values = [self.rec(child, *args) for child in children]
        if any(map(_is_data, values)):
            return _random(operation.__name__, *sorted(values))
        return reduce(operation, values)

    def map_bitwise_and(self, expr: p.BitwiseAnd, *args: Any) -> int:
        return self._bits(operator.and_, expr.children, *args)

    def map_bitwise_or(self, expr: p.BitwiseOr, *args: Any) -> int:
        return self._bits(operator.or_, expr.children, *args)

    def map_bitwise_xor(self, expr: p.BitwiseXor, *args: Any) -> int:
        return self._bits(operator.xor, expr.children, *args)

    def map_bitwise_not(self, expr: p.BitwiseNot, *args: Any) -> int:
        return -1 - self.rec(expr.child, *args)

    def map_call(self, expr: p.Call, *args: Any) -> int:
        name = expr.function.name if isinstance(expr.function, p.Variable) else ""
        if name in ("min", "max", "fmin", "fmax"):
            return self._extreme(expr.parameters, min if "min" in name else max, *args)
        if is_of_lane(expr):
            return self._exchanged(name, expr, *args)
        operands = [self.rec(child, *args) for child in expr.parameters]
        if name == "abs" and not _is_data(operands[0]):
            return abs(operands[0])
        return _random("call", name, *operands)

    def _exchanged(self, name: str, expr: p.Call, names: dict[str, int], item: Point) -> int:
        """Return the value that another lane has: it runs the same instruction, in turn."""
        _, value, distance = expr.parameters
        own = names.keys() - self.memory.sizes.keys()
        if own.intersection(variable_names(value)):
            return self.handle_unsupported_expression(expr)
        lanes = self.rec(distance, names, item)
        other = self.memory.lane_at(lanes, item, is_before=name == LANE_BEFORE.name)
        return self.rec(value, names, other)

    def map_lookup(self, expr: p.Lookup, names: dict[str, int], item: Point) -> int:
        value = self._around(expr.aggregate, names, item)
        if not self.memory.is_real(expr):
            self.memory.found.depends_on_data = True
        return self.memory.used(self.memory.structures.field(value, expr.name))

    def _around(self, expr: Any, names: dict[str, int], item: Point) -> int:
        """Return the value of a structure of which one field is used."""
        if isinstance(expr, p.Lookup):
            value = self._around(expr.aggregate, names, item)
            return self.memory.structures.field(value, expr.name)
        if isinstance(expr, p.Variable) and expr.name not in names:
            return self.memory.read(expr.name, (), item)
        if isinstance(expr, p.Subscript) and isinstance(expr.aggregate, p.Variable):
            index = tuple(self.rec(part, names, item) for part in expr.index_tuple)
            return self.memory.read(expr.aggregate.name, index, item)
        return self.of(expr, names, item)
