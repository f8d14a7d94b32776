"""Values of expressions for all instances of statements: cases, operators, operands.

:mod:`kgen.schedule.equality` compares these values.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from hashlib import sha256
from typing import Any, Final, NamedTuple

import islpy as isl
import numpy as np
import pymbolic.primitives as p

from kgen.ir.expr import (
    Expr,
    TruncQuotient,
    TruncRemainder,
    TypeCast,
    TypedLiteral,
    is_constant,
    to_text,
)
from kgen.ir.functions import is_of_lane
from kgen.ir.sets.dims import Set
from kgen.ir.updates import NEUTRAL, operands_of
from kgen.schedule.dataflow import (
    DataFlow,
    Map,
    Statement,
    UndecidedError,
    base_of,
    compose,
    element_of,
)

__all__ = ["Term", "Value"]

#: The reads and choices behind which factors of zero are looked for.
_MOST_READS: Final = 4


@dataclass(frozen=True)
class Value:
    """The value of an expression, for the instances of a statement."""

    flow: DataFlow = field(compare=False)
    at: Statement
    expr: Any

    @property
    def is_whole(self) -> bool:
        """Whether it is the whole value that a statement writes, not a subexpression of it."""
        return self.expr is self.at.value

    @property
    def operation(self) -> type | None:
        """The outermost operation if it is commutative and associative, else ``None``."""
        if isinstance(self.expr, Accumulated):
            return self.expr.operation
        return operands_of(self.expr)[0]

    def operand(self, expr: Any) -> Value:
        """Return the value of another expression, for the same instances."""
        return Value(self.flow, self.at, expr)

    def as_affine(self) -> Map | None:
        """Return the values of an integer that is affine in the enclosing loops."""
        memo = self.flow.affine
        if self not in memo:
            try:
                is_other = isinstance(self.expr, Accumulated | Fraction)
                memo[self] = None if is_other else self.flow.values(self.at.instances, (self.expr,))
            except UndecidedError:
                memo[self] = None
        return memo[self]

    def cases(self) -> list[tuple[Map, Value]] | None:
        """Return the value by cases: the writes that a read gets, or branches of a conditional.

        The cases are disjoint; each has a map from the instances of the value. ``None`` for
        values with operands.
        """
        memo: dict[Value, list[tuple[Map, Value]] | None] = self.flow.cases
        if self not in memo:
            memo[self] = self._find_cases()
        return memo[self]

    def _find_cases(self) -> list[tuple[Map, Value]] | None:
        flow, at, expr = self.flow, self.at, self.expr
        if isinstance(expr, p.If):
            holds = flow.condition(at.instances, expr.condition)
            if holds is None:
                return None
            sides = (
                (at.instances.intersect(holds), expr.then),
                (at.instances.subtract(holds), expr.else_),
            )
            return [(_identity(where), self.operand(side)) for where, side in sides]
        name, index = element_of(expr)
        if name is None or base_of(name) not in flow.kernel.array_vars:
            return None
        flow.check_apart(name)
        if name not in flow.writers:
            if any(name.startswith(f"{other}.") for other in flow.writers):
                return None  # a field of what is written
            return [(_identity(at.instances), self.operand(self._initial(name, index)))]
        read = flow.read(at, name, index)
        cases = [(step, Value(flow, writer, writer.value)) for step, writer in read.writers]
        if not read.initial.is_empty():
            first = self.operand(self._initial(name, index))
            cases.append((_identity(read.initial), first))
        if read.operation is None:
            return cases
        terms = [Term(*case) for case in cases]
        for step, writer in read.accumulated:
            assert writer.accumulation is not None
            terms += [Term(step, Value(flow, writer, one)) for one in writer.accumulation[1]]
        both = Accumulated(read.operation, tuple(terms))
        return [(_identity(at.instances), self.operand(both))]

    def _initial(self, name: str, index: tuple[Expr, ...]) -> Expr:
        """Return an expression for the value of an element, or a field, before any write."""
        name, _, part = name.rpartition(".")
        if name:
            return p.Lookup(self._initial(name, index), part)
        name = part
        temporary = self.flow.temporary(name)
        if temporary is None:
            return p.Call(p.Variable(f".{name}"), index)
        if temporary.initializer is None:  # equal to no other value
            return p.Call(p.Variable(f".undefined {self.flow.side} {name}"), ())
        table = np.ascontiguousarray(temporary.initializer)
        digest = sha256(f"{table.dtype}{table.shape}".encode() + table.tobytes()).hexdigest()
        return p.Call(p.Variable(f".table {digest}"), index)

    def terms(self, kind: type) -> Iterator[Term]:
        """Yield the operands of an operation; nested equal operations are flattened."""
        return _terms(self, kind, _identity(self.at.instances))

    def sources(self) -> Iterator[str]:
        """Yield the statements whose values a read gets directly."""
        if self.is_whole:
            yield self.at.name
        if isinstance(self.expr, Accumulated):
            yield from (term.value.at.name for term in self.expr.terms)

    def shape(self) -> tuple[object, tuple[Any, ...]] | None:
        """Return the operator and its operands; ``None`` for unknown operators."""
        expr = self.expr
        value = _fraction(expr)
        if value is not None:
            return value, ()
        if isinstance(expr, TypedLiteral) or is_constant(expr):
            return ("constant", complex(getattr(expr, "value", expr))), ()
        parts = _PARTS.get(type(expr))
        if parts is not None:
            return type(expr).__name__, tuple(getattr(expr, name) for name in parts)
        match expr:
            case p.Variable() if expr.name in self.flow.kernel.arg_dict:
                return ("name", expr.name), ()
            case p.Call() if not is_of_lane(expr):
                return ("call", to_text(expr.function)), expr.parameters
            case p.Comparison():
                return ("comparison", str(expr.operator)), (expr.left, expr.right)
            case TypeCast():
                return ("cast", str(expr.type)), (expr.child,)
            case p.Lookup():
                return ("part", expr.name), (expr.aggregate,)
        return None

    def __str__(self) -> str:
        if isinstance(self.expr, Accumulated):
            return f"{self.expr.operation.__name__.lower()} of {len(self.expr.terms)} parts"
        return to_text(self.expr)


class Term(NamedTuple):
    """An operand, or one operand per instance of an accumulating loop."""

    instances: Map
    value: Value
    #: whether these instances run before the instances that use them as operands
    is_earlier: bool = False


@dataclass(frozen=True, eq=False)
class Accumulated:
    """A read of an element that loops accumulate to."""

    operation: type
    terms: tuple[Term, ...]


def _terms(value: Value, kind: type, before: Map, inside: tuple[str, ...] = ()) -> Iterator[Term]:
    """Yield the operands of a value, related to its user by *before*.

    *inside* are the statements whose values have been replaced by their operands so far.
    """
    before = _without_zeros(value, kind, before)
    if before.is_empty():
        return
    if isinstance(value.expr, Accumulated):
        if value.expr.operation is not kind:
            yield Term(before, value, bool(inside))
            return
        for term in value.expr.terms:
            around = (*inside, value.at.name)
            yield from _terms(term.value, kind, compose(before, term.instances), around)
        return
    own, operands = operands_of(value.expr)
    is_affine = value.as_affine() is not None
    if own is kind and not is_affine:
        for operand in _grouped(value, kind, operands):
            yield from _terms(operand, kind, before, inside)
    elif not _is_neutral(value.expr, kind):
        around = (*inside, value.at.name)
        cases = None if is_affine else value.cases()
        if cases is None or not _can_replace(cases, before, around):
            yield Term(before, value, bool(inside))
            return
        for step, case in cases:
            whole = around if case.is_whole else inside
            yield from _terms(case, kind, compose(before, step), whole)


def _without_zeros(value: Value, kind: type, before: Map) -> Map:
    """Leave out the instances of a product of zeros among the operands of a sum."""
    if kind is p.Sum and isinstance(value.expr, p.Product) and value.flow.has_choices:
        return before.subtract_range(_zeros(value, _MOST_READS))
    return before


def _zeros(value: Value, most: int) -> Set:
    """Return instances in which a value is zero: a constant, or a product of zeros only.

    At most *most* reads and choices are followed. A zero times another number may be NaN.
    """
    everywhere = value.at.instances
    none = isl.Set.empty(everywhere.get_space())
    if _is_neutral(value.expr, p.Sum):
        return everywhere
    kind, operands = operands_of(value.expr)
    if kind is p.Product:
        found = everywhere
        for operand in operands:
            found = found.intersect(_zeros(value.operand(operand), most))
        return found
    cases = value.cases() if most and kind is None and value.as_affine() is None else None
    for step, case in cases or ():
        none = none.union(step.intersect_range(_zeros(case, most - 1)).domain())
    return none


def _can_replace(cases: list[tuple[Map, Value]], before: Map, around: tuple[str, ...]) -> bool:
    """Tell whether a read can be replaced by the values it gets, and is not a recurrence."""
    return all(
        _keeps_apart(before, step) and not any(name in around for name in case.sources())
        for step, case in cases
    )


def _keeps_apart(before: Map, step: Map) -> bool:
    """Tell whether *step* maps different operand instances of one user to different instances.

    A value that is read several times counts as several operands.
    """
    if before.is_single_valued() or step.is_injective():
        return True
    both = compose(before.range_map(), step)
    lost = both.range_product(before.domain_map()).reverse()
    return bool(lost.intersect_range(before.wrap()).is_single_valued())


def _grouped(value: Value, kind: type, operands: Sequence[Expr]) -> Iterator[Value]:
    """Yield operands, with the integers of a sum, or constant factors, combined into one."""
    parts = [value.operand(operand) for operand in operands]
    rest: list[Value] = []
    numbers: list[Expr] = []
    constant = Fraction(1)
    for part in parts:
        factor = _fraction(part.expr) if kind is p.Product else None
        if factor is not None:
            constant *= factor
        elif kind is p.Sum and part.as_affine() is not None:
            numbers.append(part.expr)
        else:
            rest.append(part)
    yield from rest
    if numbers:
        yield value.operand(p.Sum(tuple(numbers)))
    if constant != 1:
        yield value.operand(int(constant) if constant.denominator == 1 else constant)


def _identity(where: Set) -> Map:
    return isl.Map.identity(where.get_space().map_from_set()).intersect_domain(where)


def _fraction(expr: Any) -> Fraction | None:
    """Return the value of a real constant."""
    value = expr.value if isinstance(expr, TypedLiteral) else expr
    if isinstance(value, Fraction):
        return value
    is_real = is_constant(value) and not isinstance(value, complex | np.complexfloating)
    if not is_real or not np.isfinite(value):
        return None
    return Fraction(float(value) if isinstance(value, float | np.floating) else int(value))


def _is_neutral(expr: Any, kind: type) -> bool:
    value = _fraction(expr)
    return value is not None and NEUTRAL[kind] is not None and value == NEUTRAL[kind]


#: The fields of operands, for expressions whose fields are all operands.
_PARTS: Final[Mapping[type, tuple[str, ...]]] = {
    p.If: ("condition", "then", "else_"),
    p.Quotient: ("numerator", "denominator"),
    p.FloorDiv: ("numerator", "denominator"),
    p.Remainder: ("numerator", "denominator"),
    TruncQuotient: ("numerator", "denominator"),
    TruncRemainder: ("numerator", "denominator"),
    p.Power: ("base", "exponent"),
    p.LeftShift: ("shiftee", "shift"),
    p.RightShift: ("shiftee", "shift"),
    p.LogicalNot: ("child",),
    p.BitwiseNot: ("child",),
}
