"""Equivalence proofs of two scheduled kernels for all sizes, by tracing values backwards.

From the final elements of arguments, both kernels are traced to the last writes, and
to their operands: the method of Shashidhar (2005) and Verdoolaege, Janssens and Bruynooghe
(2009). The result is a relation: pairs of instances, one of each kernel, whose values are
equal. Operands of sums and products, and accumulated values of loops, are matched one to one in
any order. If a recurrence leads back to a pair of statements, the pair is assumed to be
equal for guessed pairs of instances; if the guess implies itself, it is proved by induction.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import islpy as isl
import pymbolic.primitives as p
from constantdict import constantdict

from kgen.analysis.points import example
from kgen.ir.expr import Expr, substitute
from kgen.ir.kernel import LoopKernel
from kgen.ir.sets.dims import Set, dim_names, with_params, with_range_name, without_quotients
from kgen.schedule.dataflow import (
    DataFlow,
    Map,
    Statement,
    UndecidedError,
    base_of,
    check_cost,
    compose,
    domain_of,
    is_subset,
    n_quotients_of,
    sizes_of,
)
from kgen.schedule.tree import Schedule
from kgen.schedule.values import Term, Value

__all__ = ["Unproved", "find_unproved"]

#: The maximum number of compared pairs of values, and the maximum depth.
_MOST = 4_000
_DEPTH = 120
#: The maximum number of quotients in relations that are tested for being injective both ways.
_FEW_QUOTIENTS = 16
#: The maximum number of changes of the guess for a recurrence.
_GUESSES = 4
#: Idempotent operations, for which repeated operands do not matter.
_IDEMPOTENT = (p.Max, p.Min, p.LogicalAnd, p.LogicalOr, p.BitwiseAnd, p.BitwiseOr)


class Unproved(NamedTuple):
    """Why two kernels are not proved equal, with small sizes for which the proof fails."""

    reason: str
    sizes: Mapping[str, int] = constantdict()


def find_unproved(
    before: tuple[LoopKernel, Schedule], now: tuple[LoopKernel, Schedule], *, has_axes: bool
) -> Unproved | None:
    """Return why two kernels are not proved to store equal values in their arguments.

    ``None`` if this is proved for all data and all sizes that the assumptions of both allow.
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


@dataclass(eq=False)
class _Guess:
    """Pairs of instances whose values are assumed equal during the proof by induction."""

    pairs: Map
    depth: int
    #: the number of steps back in time so far
    n_steps: int
    #: whether the pairs are those requested first, which rarely suffice
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
        self.known: dict[tuple[Value, Value], list[tuple[Map, Map]]] = {}
        self.guesses: dict[tuple[Value, Value], _Guess] = {}
        self.leans_on = _DEPTH
        self.why = ""

    def run(self) -> Unproved | None:
        """Compare all written arguments."""
        arguments = [flow.kernel.arg_dict for flow in (self.left, self.right)]
        for name in dict.fromkeys((*self.left.writers, *self.right.writers)):
            are_passed = [base_of(name) in own for own in arguments]
            if not any(are_passed):
                continue
            if not all(are_passed):
                return Unproved(f"'{base_of(name)}' is an argument of one of the two kernels only")
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
            Value(self.left, one, one.value), Value(self.right, other, other.value), pairs
        )
        rest = pairs.subtract(same)
        if rest.is_empty():
            return None
        why = self.why or "it is computed differently"
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

    def same(self, left: Value, right: Value, pairs: Map, *, is_earlier: bool = False) -> Map:
        """Return the *pairs* of instances for which two values are proved to be the same.

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
            return pairs if is_subset(pairs, found) else found  # pairs may have fewer quotients
        finally:
            self.depth -= 1
            self.n_steps -= is_earlier

    def _same(self, left: Value, right: Value, pairs: Map) -> Map:
        values = [value.as_affine() for value in (left, right)]
        if values[0] is not None and values[1] is not None:
            equal = compose(values[0], values[1].reverse())
            check_cost(pairs, equal)
            return pairs.intersect(equal)
        result = isl.Map.empty(pairs.get_space())
        cases = None if values[0] is not None else left.cases()
        if cases is not None:
            for step, value in cases:
                asked = compose(step.reverse(), pairs)
                found = self.same(value, right, asked, is_earlier=value.is_whole)
                result = result.union(compose(step, found))
            check_cost(pairs, result)
            return pairs.intersect(result)
        cases = None if values[1] is not None else right.cases()
        if cases is not None:
            for step, value in cases:
                asked = compose(pairs, step)
                found = self.same(left, value, asked, is_earlier=value.is_whole)
                result = result.union(compose(found, step.reverse()))
            check_cost(pairs, result)
            return pairs.intersect(result)
        return self._compound(left, right, pairs)

    def _compound(self, left: Value, right: Value, pairs: Map) -> Map:
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

    def _by_induction(self, key: tuple[Value, Value], pairs: Map) -> Map:
        """Compare operands, with a guess for the recursive requests of this pair of values."""
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

    def _operands(self, left: Value, right: Value, pairs: Map) -> Map:
        kinds = [value.operation for value in (left, right)]
        for kind in kinds:
            if kind is not None:
                terms = [list(value.terms(kind)) for value in (left, right)]
                if [[term.value for term in some] for some in terms] != [[left], [right]]:
                    return self._matched(kind, terms[0], terms[1], pairs)
        one, other = left.shape(), right.shape()
        if one is None or other is None or one[0] != other[0] or len(one[1]) != len(other[1]):
            self._note(left, right)
            return isl.Map.empty(pairs.get_space())
        for mine, theirs in zip(one[1], other[1], strict=True):
            pairs = self.same(left.operand(mine), right.operand(theirs), pairs)
        return pairs

    def _note(self, left: Value, right: Value) -> None:
        texts = [f"'{value}'" for value in (left, right)]
        self.why = self.why or f"{texts[0]} and {texts[1]} are computed differently"

    # -- operands in any order ---------------------------------------------------------------

    def _matched(self, kind: type, left: list[Term], right: list[Term], pairs: Map) -> Map:
        """Return the *pairs* whose operands can be matched one to one."""
        mine = [compose(pairs.domain_map(), term.instances) for term in left]
        theirs = [compose(pairs.range_map(), term.instances) for term in right]
        rest = list(mine), list(theirs)
        is_idempotent = kind in _IDEMPOTENT
        for one, other, is_guess in _couples(left, right):
            if rest[0][one].is_empty() and rest[1][other].is_empty():
                continue
            from_ = mine[one] if is_idempotent else rest[0][one]
            to = theirs[other] if is_idempotent else rest[1][other]
            nodes = left[one].value, right[other].value
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

    def _one_to_one(self, pairs: Map, left: Value, right: Value) -> Map:
        """Return a subset of *pairs* ``{ X -> [y -> z] }`` that matches y and z uniquely per X.

        If operands are equal in several iterations, those of the same original
        loop iteration are paired.
        """
        if _is_one_to_one(pairs):
            return pairs
        pairs = pairs.intersect_range(self._same_iterations(left, right).wrap())
        return pairs if _is_one_to_one(pairs) else isl.Map.empty(pairs.get_space())

    def _same_iterations(self, left: Value, right: Value) -> Map:
        """Return the pairs of instances in the same iteration of the original loops."""
        space = left.at.instances.get_space().map_from_domain_and_range(
            right.at.instances.get_space()
        )
        same = isl.Map.universe(space)
        for name in dim_names(left.at.instances):
            values = [
                value.operand(loop).as_affine()
                for value, loop in ((left, p.Variable(name)), (right, self._rewritten(name)))
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


def _inside(pairs: Map, left: Value, right: Value) -> Map:
    """Return the pairs whose instances both exist."""
    return pairs.intersect_domain(left.at.instances).intersect_range(right.at.instances)


def _couples(left: list[Term], right: list[Term]) -> Iterator[tuple[int, int, bool]]:
    """Yield the positions of operands to compare, equal positions first.

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
