"""Proofs that two scheduled kernels compute the same, for all sizes, by tracing values backwards.

From the final elements of arguments, both kernels are traced to the last writes, and
to the operands of those: the method of Shashidhar (2005) and Verdoolaege, Janssens and Bruynooghe
(2009). The result is a relation: pairs of instances, one of each kernel, whose values are
equal. Operands of sums and products, and accumulated values of loops, are matched one to one in
any order. If a recurrence leads back to a pair of statements, the pair is assumed to be
equal for guessed pairs of instances; if the guess implies itself, it is proved by induction.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from hashlib import sha256
from itertools import product
from typing import Any, Final, NamedTuple

import islpy as isl
import numpy as np
import pymbolic.primitives as p
from constantdict import constantdict

from kgen.analysis.points import example
from kgen.ir.expr import (
    Expr,
    TruncQuotient,
    TruncRemainder,
    TypeCast,
    TypedLiteral,
    is_constant,
    substitute,
    to_text,
)
from kgen.ir.functions import is_of_lane
from kgen.ir.kernel import LoopKernel
from kgen.ir.sets.dims import Set, dim_names, with_params, with_range_name, without_quotients
from kgen.schedule.dataflow import (
    NEUTRAL,
    DataFlow,
    Map,
    Statement,
    UndecidedError,
    check_cost,
    compose,
    domain_of,
    element_of,
    is_subset,
    n_quotients_of,
    operands_of,
    sizes_of,
)
from kgen.schedule.tree import Schedule

__all__ = ["Unproved", "find_unproved"]

#: The maximum number of compared pairs of values, and the maximum depth.
_MOST = 4_000
_DEPTH = 120
#: The maximum number of quotients in pairs that are tested for being one to one.
_FEW_QUOTIENTS = 16
#: How often the guess for a recurrence may be changed.
_GUESSES = 4
#: Idempotent operations, for which repeated operands do not matter.
_IDEMPOTENT = (p.Max, p.Min, p.LogicalAnd, p.LogicalOr, p.BitwiseAnd, p.BitwiseOr)


class Unproved(NamedTuple):
    """Why two kernels are not proved equal, and small sizes for which they are not."""

    reason: str
    sizes: Mapping[str, int] = constantdict()


def find_unproved(
    before: tuple[LoopKernel, Schedule], now: tuple[LoopKernel, Schedule], *, has_axes: bool
) -> Unproved | None:
    """Return why two kernels are not proved to leave equal values in their arguments.

    ``None`` if it is proved, for all data and all sizes that the assumptions of both allow.
    """
    kernels = before[0], now[0]
    sizes = sorted(frozenset[str]().union(*map(sizes_of, kernels)))
    context = with_params(before[0].assumptions.intersect(now[0].assumptions), sizes)
    try:
        left, right = (
            DataFlow(kernel, schedule, context, side, has_axes=has_axes)
            for (kernel, schedule), side in ((before, "a"), (now, "b"))
        )
        return _Comparer(left, right).run()
    except UndecidedError as err:
        return Unproved(str(err))


@dataclass(frozen=True)
class _Node:
    """The value of an expression, for the instances of a statement."""

    flow: DataFlow = field(compare=False)
    at: Statement
    expr: Any


class _Term(NamedTuple):
    """An operand, or one operand for each instance of an accumulating loop."""

    instances: Map
    node: _Node
    #: these instances ran before those that they are operands of
    is_earlier: bool = False


@dataclass(frozen=True, eq=False)
class _Accumulated:
    """The value of a read of an element that loops accumulate into."""

    operation: type
    terms: tuple[_Term, ...]


@dataclass(eq=False)
class _Guess:
    """Pairs of instances whose values are assumed equal while that is being proved."""

    pairs: Map
    depth: int
    #: the number of steps back in time so far
    n_steps: int
    #: the pairs are the first ones requested, which rarely suffice
    is_first: bool
    asked: Map | None = None
    is_used: bool = False


class _AskedError(Exception):
    """The first guess for a recurrence must be changed."""

    def __init__(self, guess: _Guess) -> None:
        super().__init__()
        self.guess = guess


class _Comparer:
    def __init__(self, left: DataFlow, right: DataFlow) -> None:
        self.left = left
        self.right = right
        self.n_compared = 0
        self.depth = 0
        self.n_steps = 0
        self.known: dict[tuple[_Node, _Node], list[tuple[Map, Map]]] = {}
        self.guesses: dict[tuple[_Node, _Node], _Guess] = {}
        self.leans_on = _DEPTH
        self.why = ""

    def run(self) -> Unproved | None:
        """Compare all written arguments."""
        arguments = [flow.kernel.arg_dict for flow in (self.left, self.right)]
        for name in dict.fromkeys((*self.left.writers, *self.right.writers)):
            if name not in arguments[0] and name not in arguments[1]:
                continue
            if name not in arguments[0] or name not in arguments[1]:
                return Unproved(f"'{name}' is an argument of one of the two kernels only")
            found = self._compare(name)
            if found is not None:
                return found
        return None

    def _compare(self, name: str) -> Unproved | None:
        writers = [*self.left.writers.get(name, ()), *self.right.writers.get(name, ())]
        n_axes = len(writers[0].index)
        one, other = (flow.final(name, n_axes) for flow in (self.left, self.right))
        same_point = isl.Map.identity(one.instances.get_space().map_from_set())
        pairs = with_range_name(same_point, other.instances.get_tuple_name())
        pairs = pairs.intersect_domain(one.instances).intersect_domain(self._written(one, name))
        self.why = ""
        same = self.same(
            _Node(self.left, one, one.value), _Node(self.right, other, other.value), pairs
        )
        rest = pairs.subtract(same)
        if rest.is_empty():
            return None
        why = self.why or "it is computed otherwise"
        return Unproved(f"'{name}' is not proved to be the same: {why}", example(rest.params()))

    def _written(self, end: Statement, name: str) -> Set:
        """Return the elements that either kernel writes."""
        found = isl.Set.empty(end.instances.get_space())
        for flow in (self.left, self.right):
            for writer in flow.writers.get(name, ()):
                elements = flow.values(writer.instances, writer.index).range()
                found = found.union(elements.set_tuple_name(end.name))
        return found

    # -- pairs of values ---------------------------------------------------------------------

    def same(self, left: _Node, right: _Node, pairs: Map, *, is_earlier: bool = False) -> Map:
        """Return the *pairs* of instances for which two values are proved to be equal.

        *is_earlier* if one of the values was computed before its user.
        """
        if pairs.is_empty():
            return pairs
        self.n_compared += 1
        check_cost(pairs)
        if self.n_compared > _MOST or self.depth > _DEPTH:
            raise UndecidedError("there are too many operations to compare")
        self.depth += 1
        self.n_steps += is_earlier
        try:
            found = self._same(left, right, pairs)
            check_cost(pairs, found)
            return pairs if is_subset(pairs, found) else found  # with as few quotients as it had
        finally:
            self.depth -= 1
            self.n_steps -= is_earlier

    def _same(self, left: _Node, right: _Node, pairs: Map) -> Map:
        values = [_affine(node) for node in (left, right)]
        if values[0] is not None and values[1] is not None:
            equal = compose(values[0], values[1].reverse())
            check_cost(pairs, equal)
            return pairs.intersect(equal)
        result = isl.Map.empty(pairs.get_space())
        cases = None if values[0] is not None else _cases(left)
        if cases is not None:
            for step, node in cases:
                asked = compose(step.reverse(), pairs)
                found = self.same(node, right, asked, is_earlier=_is_whole(node))
                result = result.union(compose(step, found))
            check_cost(pairs, result)
            return pairs.intersect(result)
        cases = None if values[1] is not None else _cases(right)
        if cases is not None:
            for step, node in cases:
                asked = compose(pairs, step)
                found = self.same(left, node, asked, is_earlier=_is_whole(node))
                result = result.union(compose(found, step.reverse()))
            check_cost(pairs, result)
            return pairs.intersect(result)
        return self._compound(left, right, pairs)

    def _compound(self, left: _Node, right: _Node, pairs: Map) -> Map:
        key = left, right
        for known, same in self.known.get(key, ()):
            if pairs.is_subset(known):
                return pairs.intersect(same)
        guess = self.guesses.get(key)
        if guess is not None:
            if self.n_steps == guess.n_steps:  # induction goes back in time
                return isl.Map.empty(pairs.get_space())
            guess.is_used = True
            self.leans_on = min(self.leans_on, guess.depth)
            if guess.asked is None and not pairs.is_subset(guess.pairs):
                guess.asked = pairs
                if guess.is_first:
                    raise _AskedError(guess)
            return pairs.intersect(guess.pairs)
        around, self.leans_on = self.leans_on, _DEPTH
        try:
            same = self._by_induction(key, pairs)
            if self.leans_on >= self.depth:
                self.known.setdefault(key, []).append((pairs, same))
                self.leans_on = _DEPTH
            return same
        finally:
            self.leans_on = min(around, self.leans_on)

    def _by_induction(self, key: tuple[_Node, _Node], pairs: Map) -> Map:
        """Compare operands, with a guess for the recursive occurrence of this pair of values."""
        guessed = pairs
        for number in range(_GUESSES):
            guess = self.guesses[key] = _Guess(
                guessed, self.depth, self.n_steps, is_first=number == 0
            )
            same = None
            try:
                same = self._operands(*key, guessed)
            except _AskedError as err:
                if err.guess is not guess:
                    raise
            finally:
                del self.guesses[key]
            if same is not None and not guess.is_used:
                return pairs.intersect(same)
            if same is not None and guessed.is_subset(same):
                return pairs.intersect(guessed)
            iterations = self._same_iterations(*key)
            if number == 0 and guess.asked is not None and pairs.is_subset(iterations):
                guessed = iterations
            elif number < 2 and guess.asked is not None:
                hull = isl.Map.from_basic_map(guessed.union(guess.asked).affine_hull())
                guessed = _inside(hull, *key)
            elif same is not None:
                guessed = guessed.intersect(same)
        return isl.Map.empty(pairs.get_space())

    def _operands(self, left: _Node, right: _Node, pairs: Map) -> Map:
        kinds = [_operation(node) for node in (left, right)]
        for kind in kinds:
            if kind is not None:
                terms = [list(_terms(node, kind)) for node in (left, right)]
                if [[term.node for term in some] for some in terms] != [[left], [right]]:
                    return self._matched(kind, terms[0], terms[1], pairs)
        one, other = _shape(left), _shape(right)
        if one is None or other is None or one[0] != other[0] or len(one[1]) != len(other[1]):
            self._note(left, right)
            return isl.Map.empty(pairs.get_space())
        for mine, theirs in zip(one[1], other[1], strict=True):
            pairs = self.same(
                _Node(left.flow, left.at, mine), _Node(right.flow, right.at, theirs), pairs
            )
        return pairs

    def _note(self, left: _Node, right: _Node) -> None:
        texts = [f"'{_text(node)}'" for node in (left, right)]
        self.why = self.why or f"{texts[0]} and {texts[1]} are computed otherwise"

    # -- operands in any order ---------------------------------------------------------------

    def _matched(self, kind: type, left: list[_Term], right: list[_Term], pairs: Map) -> Map:
        """Return the *pairs* whose operands can be matched, one to one."""
        mine = [compose(pairs.domain_map(), term.instances) for term in left]
        theirs = [compose(pairs.range_map(), term.instances) for term in right]
        rest = list(mine), list(theirs)
        is_idempotent = kind in _IDEMPOTENT
        for one, other, is_guess in _couples(left, right):
            if rest[0][one].is_empty() and rest[1][other].is_empty():
                continue
            from_ = mine[one] if is_idempotent else rest[0][one]
            to = theirs[other] if is_idempotent else rest[1][other]
            nodes = left[one].node, right[other].node
            if from_ is mine[one] and to is theirs[other]:  # with the constraints of pairs once
                asked = compose(
                    compose(left[one].instances.reverse(), pairs), right[other].instances
                )
            else:
                asked = compose(from_.reverse(), to)
            if is_guess:
                asked = asked.intersect(self._same_iterations(*nodes))
            is_earlier = left[one].is_earlier or right[other].is_earlier
            same = self.same(*nodes, asked, is_earlier=is_earlier)
            if same.is_empty():
                continue
            both = from_.range_product(to).intersect_range(same.wrap())
            if not is_idempotent:
                both = self._one_to_one(both, *nodes)
            rest[0][one] = rest[0][one].subtract(both.range_factor_domain()).coalesce()
            rest[1][other] = rest[1][other].subtract(both.range_factor_range()).coalesce()
        for left_over in (*rest[0], *rest[1]):
            pairs = pairs.subtract(domain_of(left_over).unwrap())
        return pairs.coalesce()

    def _one_to_one(self, pairs: Map, left: _Node, right: _Node) -> Map:
        """Return *pairs* ``{ X -> [y -> z] }``, or a subset in which y and z are unique for each X.

        If operands are equal in several iterations, those of the same original
        loop iteration are paired.
        """
        if _is_one_to_one(pairs):
            return pairs
        pairs = pairs.intersect_range(self._same_iterations(left, right).wrap())
        return pairs if _is_one_to_one(pairs) else isl.Map.empty(pairs.get_space())

    def _same_iterations(self, left: _Node, right: _Node) -> Map:
        """Return the pairs of instances in one iteration of the original loops."""
        space = left.at.instances.get_space().map_from_domain_and_range(
            right.at.instances.get_space()
        )
        same = isl.Map.universe(space)
        for name in dim_names(left.at.instances):
            values = [
                _affine(_Node(node.flow, node.at, loop))
                for node, loop in ((left, p.Variable(name)), (right, self._rewritten(name)))
            ]
            if values[0] is not None and values[1] is not None:
                same = same.intersect(compose(values[0], values[1].reverse()))
        return _inside(same, left, right)

    def _rewritten(self, name: str) -> Expr:
        """Return a loop variable as an expression in the transformed kernel."""
        value: Expr = p.Variable(name)
        for values in self.right.kernel.applied_iname_rewrites:
            value = substitute(value, values)
        return value


def _inside(pairs: Map, left: _Node, right: _Node) -> Map:
    """Return the pairs of which both instances exist."""
    return pairs.intersect_domain(left.at.instances).intersect_range(right.at.instances)


def _couples(left: list[_Term], right: list[_Term]) -> Iterator[tuple[int, int, bool]]:
    """Yield which operands to compare, those at equal positions first.

    Accumulated values are first compared in equal iterations, marked with *True*.
    """
    many = [[not term.instances.is_single_valued() for term in terms] for terms in (left, right)]
    couples = sorted(product(range(len(left)), range(len(right))), key=lambda c: abs(c[0] - c[1]))
    yield from ((one, other, True) for one, other in couples if many[0][one] and many[1][other])
    yield from ((one, other, False) for one, other in couples)


def _is_one_to_one(pairs: Map) -> bool:
    """Tell whether y and z are unique for each X in ``{ X -> [y -> z] }``, if isl decides quickly.

    Uniqueness in a superset suffices: sets without quotients are tested first.
    """
    check_cost(pairs, pairs)
    if _has_unique_partners(without_quotients(pairs)):
        return True
    return n_quotients_of(pairs) <= _FEW_QUOTIENTS and _has_unique_partners(pairs)


def _has_unique_partners(pairs: Map) -> bool:
    flat = pairs.range().unwrap()
    if flat.is_single_valued() and flat.is_injective():
        return True
    turned = pairs.range_factor_range().range_product(pairs.range_factor_domain())
    both = (pairs, turned.intersect_range(flat.reverse().wrap()))
    return all(one.uncurry().is_single_valued() for one in both)


# -- expressions -----------------------------------------------------------------------------


def _affine(node: _Node) -> Map | None:
    """Return the values of an integer that is affine in the enclosing loops."""
    memo = node.flow.affine
    if node not in memo:
        try:
            is_other = isinstance(node.expr, _Accumulated | Fraction)
            memo[node] = None if is_other else node.flow.values(node.at.instances, (node.expr,))
        except UndecidedError:
            memo[node] = None
    return memo[node]


def _identity(where: Set) -> Map:
    return isl.Map.identity(where.get_space().map_from_set()).intersect_domain(where)


def _cases(node: _Node) -> list[tuple[Map, _Node]] | None:
    """Return the cases of a value: the writes that a read sees, or the sides of a condition.

    The cases are disjoint; each has a map from the instances of the node. ``None`` for values
    that have operands.
    """
    memo: dict[_Node, list[tuple[Map, _Node]] | None] = node.flow.cases
    if node not in memo:
        memo[node] = _find_cases(node)
    return memo[node]


def _find_cases(node: _Node) -> list[tuple[Map, _Node]] | None:
    flow, at, expr = node.flow, node.at, node.expr
    if isinstance(expr, p.If):
        holds = flow.condition(at.instances, expr.condition)
        if holds is None:
            return None
        sides = (
            (at.instances.intersect(holds), expr.then),
            (at.instances.subtract(holds), expr.else_),
        )
        return [(_identity(where), _Node(flow, at, side)) for where, side in sides]
    name, index = element_of(expr)
    if name is None or name not in flow.kernel.array_vars:
        return None
    if name not in flow.writers:
        return [(_identity(at.instances), _Node(flow, at, _initial(node, name, index)))]
    read = flow.read(at, name, index)
    cases = [(step, _Node(flow, writer, writer.value)) for step, writer in read.writers]
    if not read.initial.is_empty():
        first = _Node(flow, at, _initial(node, name, index))
        cases.append((_identity(read.initial), first))
    if read.operation is None:
        return cases
    terms = [_Term(*case) for case in cases]
    for step, writer in read.accumulated:
        assert writer.accumulation is not None
        terms += [_Term(step, _Node(flow, writer, one)) for one in writer.accumulation[1]]
    both = _Accumulated(read.operation, tuple(terms))
    return [(_identity(at.instances), _Node(flow, at, both))]


def _initial(node: _Node, name: str, index: tuple[Expr, ...]) -> Expr:
    """Return an expression for the initial value of an element."""
    temporary = node.flow.temporary(name)
    if temporary is None:
        return p.Call(p.Variable(f".{name}"), index)
    if temporary.initializer is None:  # no value is the same as this
        return p.Call(p.Variable(f".undefined {node.flow.side} {name}"), ())
    table = np.ascontiguousarray(temporary.initializer)
    digest = sha256(f"{table.dtype}{table.shape}".encode() + table.tobytes()).hexdigest()
    return p.Call(p.Variable(f".table {digest}"), index)


def _operation(node: _Node) -> type | None:
    if isinstance(node.expr, _Accumulated):
        return node.expr.operation
    return operands_of(node.expr)[0]


def _terms(
    node: _Node, kind: type, before: Map | None = None, inside: tuple[str, ...] = ()
) -> Iterator[_Term]:
    """Yield the operands of an operation, flattening operands of the same operation."""
    before = _identity(node.at.instances) if before is None else before
    if before.is_empty():
        return
    if isinstance(node.expr, _Accumulated):
        if node.expr.operation is not kind:
            yield _Term(before, node, bool(inside))
            return
        for term in node.expr.terms:
            around = (*inside, node.at.name)
            yield from _terms(term.node, kind, compose(before, term.instances), around)
        return
    own, operands = operands_of(node.expr)
    is_affine = _affine(node) is not None
    if own is kind and not is_affine:
        for operand in _grouped(node, kind, operands):
            yield from _terms(operand, kind, before, inside)
    elif not _is_neutral(node.expr, kind):
        around = (*inside, node.at.name)
        cases = None if is_affine else _cases(node)
        if cases is None or not _can_replace(cases, before, around):
            yield _Term(before, node, bool(inside))
            return
        for step, case in cases:
            whole = around if _is_whole(case) else inside
            yield from _terms(case, kind, compose(before, step), whole)


def _can_replace(cases: list[tuple[Map, _Node]], before: Map, around: tuple[str, ...]) -> bool:
    """Tell whether a read can be replaced by its sources, and is not a recurrence."""
    return all(
        _keeps_apart(before, step) and not any(name in around for name in _sources(case))
        for step, case in cases
    )


def _keeps_apart(before: Map, step: Map) -> bool:
    """Tell whether different instances have different sources after the next step.

    A value that is read several times counts as several operands.
    """
    if before.is_single_valued() or step.is_injective():
        return True
    both = compose(before.range_map(), step)
    lost = both.range_product(before.domain_map()).reverse()
    return bool(lost.intersect_range(before.wrap()).is_single_valued())


def _is_whole(node: _Node) -> bool:
    """Tell whether a case is the write of another instance, not a part of the instance's own."""
    return node.expr is node.at.value


def _sources(node: _Node) -> Iterator[str]:
    """Yield the statements whose values a value consists of directly, if it was read."""
    if _is_whole(node):
        yield node.at.name
    if isinstance(node.expr, _Accumulated):
        yield from (term.node.at.name for term in node.expr.terms)


def _grouped(node: _Node, kind: type, operands: Sequence[Expr]) -> Iterator[_Node]:
    """Yield operands, combining the integers of a sum, and constant factors."""
    parts = [_Node(node.flow, node.at, operand) for operand in operands]
    rest: list[_Node] = []
    numbers: list[Expr] = []
    value = Fraction(1)
    for part in parts:
        factor = _fraction(part.expr) if kind is p.Product else None
        if factor is not None:
            value *= factor
        elif kind is p.Sum and _affine(part) is not None:
            numbers.append(part.expr)
        else:
            rest.append(part)
    yield from rest
    if numbers:
        yield _Node(node.flow, node.at, p.Sum(tuple(numbers)))
    if value != 1:
        yield _Node(node.flow, node.at, int(value) if value.denominator == 1 else value)


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


def _shape(node: _Node) -> tuple[object, tuple[Any, ...]] | None:
    """Return the operation of a value, and its operands; ``None`` if unknown."""
    expr = node.expr
    value = _fraction(expr)
    if value is not None:
        return value, ()
    if isinstance(expr, TypedLiteral) or is_constant(expr):
        return ("constant", complex(getattr(expr, "value", expr))), ()
    parts = _PARTS.get(type(expr))
    if parts is not None:
        return type(expr).__name__, tuple(getattr(expr, name) for name in parts)
    match expr:
        case p.Variable() if expr.name in node.flow.kernel.arg_dict:
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


#: The operands of expressions that have only operands.
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


def _text(node: _Node) -> str:
    if isinstance(node.expr, _Accumulated):
        return f"{node.expr.operation.__name__.lower()} of {len(node.expr.terms)} parts"
    return to_text(node.expr)
