"""Domains of loops: parsing, projection onto inames, and bounds of inames."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, Final, TypeAlias

import islpy as isl

from kgen.errors import KernelError, StaticValueFindingError
from kgen.ir.sets.dims import (
    BasicSet,
    Set,
    axis_max,
    axis_min,
    dim_names,
    isl_int,
    n_dims,
    only_dim,
    param_names,
    point_values,
    to_named,
)
from kgen.ir.sets.effort import answer
from kgen.ir.sets.interval import Interval

Aff: TypeAlias = isl.Aff
PwAff: TypeAlias = isl.PwAff

_PARAM = isl.dim_type.param
_SET = isl.dim_type.set
_DIV = isl.dim_type.div
_COLUMNS = (_PARAM, _SET, _DIV, isl.dim_type.cst)


def irredundant_text(given: BasicSet | Set) -> str:
    """Return the text of a set without redundant constraints.

    isl drops those from a set as soon as a query reveals them, so ``str(given)``
    differs before and after. *given* stays as it is: what is kept for a part of its dimensions
    depends on its constraints (:func:`keep_dims`).
    """
    own: Any = given
    for kind in (_SET, _PARAM):
        if given.dim(kind):  # isl copies a set to rename a dimension
            name = own.get_dim_name(kind, 0)
            own = own.set_dim_name(kind, 0, f"{name}_own").set_dim_name(kind, 0, name)
            break
    return str(own.remove_redundancies())


@dataclass(frozen=True)
class ConstraintRows:
    """The constraints of a basic set as isl stores them, unlike its text, which isl may rewrite.

    A row has the coefficients of parameters, dimensions and existential variables, and a constant.
    """

    params: tuple[str, ...]
    dims: tuple[str, ...]
    equalities: tuple[tuple[int, ...], ...]
    inequalities: tuple[tuple[int, ...], ...]
    n_existential: int

    @classmethod
    def of(cls, domain: BasicSet) -> ConstraintRows:
        """Return the constraints of *domain*."""
        return cls(
            params=param_names(domain),
            dims=dim_names(domain),
            equalities=_rows(domain.equalities_matrix(*_COLUMNS)),
            inequalities=_rows(domain.inequalities_matrix(*_COLUMNS)),
            n_existential=int(domain.dim(_DIV)),
        )

    def make(self) -> BasicSet:
        """Return the set with these constraints."""
        space = isl.Space.create_from_names(isl.DEFAULT_CONTEXT, set=self.dims, params=self.params)
        width = len(self.params) + len(self.dims) + self.n_existential + 1
        equalities, inequalities = (
            _matrix(rows, width) for rows in (self.equalities, self.inequalities)
        )
        return isl.BasicSet.from_constraint_matrices(space, equalities, inequalities, *_COLUMNS)


def _rows(matrix: isl.Mat) -> tuple[tuple[int, ...], ...]:
    width = range(matrix.cols())
    return tuple(
        tuple(matrix.get_element_val(row, column).to_python() for column in width)
        for row in range(matrix.rows())
    )


def _matrix(rows: Sequence[Sequence[int]], width: int) -> isl.Mat:
    matrix = isl.Mat.alloc(isl.DEFAULT_CONTEXT, len(rows), width)
    for row, values in enumerate(rows):
        for column, value in enumerate(values):
            matrix = matrix.set_element_val(row, column, isl_int(value))
    return matrix


def quotient_rows(domain: BasicSet) -> list[tuple[list[int], int]]:
    """Return each quotient: its numerator, a row of :class:`ConstraintRows`, and its divisor."""
    found = []
    for k in range(domain.dim(_DIV)):
        quotient = domain.get_div(k)
        divisor = quotient.get_denominator_val()
        numerator = quotient.scale_val(divisor)
        row = [
            numerator.get_coefficient_val(kind, at).to_python()
            for kind in (_PARAM, isl.dim_type.in_, _DIV)
            for at in range(numerator.dim(kind))
        ]
        found.append(([*row, numerator.get_constant_val().to_python()], divisor.to_python()))
    return found


def is_read_back(given: BasicSet | Set) -> bool:
    """Tell whether isl, reading the text of a set, restores a set with this text."""
    return _is_read_back(isinstance(given, BasicSet), str(given))


@lru_cache(maxsize=4096)
def _is_read_back(is_basic: bool, text: str) -> bool:
    try:
        return str(BasicSet(text) if is_basic else Set(text)) == text
    except isl.Error:  # a dimension has the name of an isl function
        return False


def as_basic_set(domain: Any, text: str | None = None) -> BasicSet:
    """Convert an islpy or namedisl set to a basic set with named dimensions, or raise an error."""
    if not isinstance(domain, isl.BasicSet):
        domain = as_set(domain, "a domain")
        pieces = domain.coalesce().get_basic_sets()
        if len(pieces) > 1:
            raise KernelError(
                f"the domain '{text or domain}' is a union of {len(pieces)} pieces",
                hint="write its convex hull, and put the rest into a condition: if ...",
            )
        domain = pieces[0] if pieces else isl.BasicSet.empty(domain.get_space())
    for k in range(domain.dim(_SET)):
        if domain.get_dim_name(_SET, k) is None:
            raise KernelError(
                f"axis {k} of the domain '{text or domain}' has no name",
                hint="write the names of loops between the brackets, each once: [i, j]",
            )
    result: BasicSet = domain
    return result


def as_set(given: Any, what: str) -> Set:
    """Convert an islpy or namedisl set to a set of islpy, or raise an error."""
    if isinstance(given, isl.Set):
        return given
    if isinstance(given, isl.BasicSet):
        return isl.Set.from_basic_set(given)
    try:
        return isl.Set(str(given))
    except isl.Error:
        raise KernelError(
            f"{what} is text or a set, not {given!r}", hint="{ [i]: 0 <= i < n }"
        ) from None


# -- restricting a domain to inames ---------------------------------------------------


def restrict(domain: BasicSet, keep: Iterable[str]) -> Set:
    """Project *domain* onto the dimensions *keep*, as a named set; see :func:`keep_dims`."""
    return to_named(keep_dims(domain, keep))


def keep_dims(domain: BasicSet, keep: Iterable[str]) -> BasicSet:
    """Project *domain* onto the dimensions *keep*.

    Only constraints that are connected to *keep* through shared dimensions are used, and
    parameter-only constraints: whether a loop elsewhere is empty does not affect a
    statement outside it.
    """
    names = dim_names(domain)
    wanted = set(keep)
    kept = [k for k, name in enumerate(names) if name in wanted]
    if len(kept) == len(names):
        return domain
    start = kept
    if domain.dim(_DIV):  # quotients connect dimensions as other dimensions do
        domain = domain.lift().flatten()
        quotients = range(len(names), domain.dim(_SET))
        tied = _connected(domain, range(len(names)))[1]
        start = [*kept, *(k for k in quotients if k not in tied)]  # parameter-only quotients
    rest = sorted({*range(domain.dim(_SET))}.difference(kept))
    result, _ = _connected(domain, start)
    for first, count in reversed(_runs(rest)):
        result = result.project_out(_SET, first, count)
    return result


def _runs(positions: list[int]) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    for k in positions:
        if runs and runs[-1][0] + runs[-1][1] == k:
            runs[-1] = (runs[-1][0], runs[-1][1] + 1)
        else:
            runs.append((k, 1))
    return runs


def _connected(domain: BasicSet, start: Iterable[int]) -> tuple[BasicSet, set[int]]:
    """Keep the constraints that reach *start* through shared dimensions; also return those."""
    ndim = domain.dim(_SET)
    result = domain.drop_constraints_involving_dims(_SET, 0, ndim)
    frontier = list(start)
    seen = set(frontier)
    while frontier:
        part = domain.drop_constraints_not_involving_dims(_SET, frontier.pop(), 1)
        result = result.intersect(part)
        for k in _involved(part, 0, ndim):
            if k not in seen:
                seen.add(k)
                frontier.append(k)
    return result, seen


def _involved(domain: BasicSet, first: int, count: int) -> list[int]:
    """Return the dimensions in a range that occur in a constraint, by bisection."""
    if count == 0 or not domain.involves_dims(_SET, first, count):
        return []
    if count == 1:
        return [first]
    half = count // 2
    return _involved(domain, first, half) + _involved(domain, first + half, count - half)


# -- bounds ------------------------------------------------------------------------------


#: Errors show at most this many characters of a function.
_LONGEST_SHOWN: Final = 300


def static_value(value: PwAff, assumptions: Set, *, largest: bool, what: str) -> isl.Aff:
    """Return a piece of *value* that bounds it everywhere, or raise an error.

    Raises :class:`StaticValueFindingError` if no piece is the largest (smallest) under
    the *assumptions*.
    """
    for bound in static_bounds(value, assumptions, largest=largest):
        return bound
    word = "maximum" if largest else "minimum"
    shown = str(value.gist_params(assumptions).coalesce())
    if len(shown) > _LONGEST_SHOWN:
        shown = f"{shown[:_LONGEST_SHOWN]} ..."
    raise StaticValueFindingError(
        f"a static {word} was not found for PwAff '{shown}'\n  while finding {what}\n  hint: "
        "rule out special cases with make_kernel(..., assumptions='n >= 1'), or declare the size"
    )


def static_bounds(value: PwAff, assumptions: Set, *, largest: bool) -> Iterator[isl.Aff]:
    """Yield the pieces of *value* that bound it everywhere, rounded to integers."""
    value = value.coalesce()
    pieces = _simplified(value, assumptions)
    if not pieces:  # of an empty set: any value is a bound
        yield isl.Aff.zero_on_domain(isl.LocalSpace.from_space(value.get_domain_space()))
    context = value.domain().intersect_params(assumptions)
    if len(pieces) == 1:
        yield _whole(pieces[0][1], context, largest=largest)
        return
    for _, piece in pieces:
        candidate = _whole(piece, context, largest=largest)
        is_bound = answer(partial(_bounds, value, candidate, context, largest=largest))
        if is_bound is None:  # the other pieces of such a value are undecided, too
            return
        if is_bound:
            yield candidate


def _whole(piece: isl.Aff, context: Set, *, largest: bool) -> isl.Aff:
    """Round ``n/2`` down, or up for a lower bound, unless *n* is known to be a multiple of 2."""
    down = piece.floor()
    if largest or piece.get_denominator_val().is_one() or context.is_subset(down.eq_set(piece)):
        return down
    return piece.ceil()


def _bounds(value: PwAff, candidate: isl.Aff, context: Set, *, largest: bool) -> bool:
    """Tell whether *candidate* bounds *value* in all of *context*."""
    bound = isl.PwAff.from_aff(candidate)
    good = value.le_set(bound) if largest else value.ge_set(bound)
    return bool(context.is_subset(good))


def _simplified(value: PwAff, assumptions: Set) -> list[tuple[Set, isl.Aff]]:
    pieces = value.get_pieces()
    if len(pieces) == 1:
        return [(pieces[0][0], pieces[0][1])]
    reduced = value.intersect_params(assumptions).coalesce().gist_params(assumptions)
    return [(piece[0], piece[1]) for piece in reduced.get_pieces()]


def dim_max(domain: Set, name: str) -> PwAff:
    """Return the largest value of dimension *name* as a function of the parameters.

    Raises :class:`StaticValueFindingError` if there is none.
    """
    return _end(domain, name, largest=True)


def dim_min(domain: Set, name: str) -> PwAff:
    """Return the smallest value of dimension *name* as a function of the parameters.

    Raises :class:`StaticValueFindingError` if there is none.
    """
    return _end(domain, name, largest=False)


def _end(domain: Set, name: str, *, largest: bool) -> PwAff:
    one = only_dim(domain, name)
    bound = _single_bound(one, upper=largest)  # without isl's search
    if bound is not None:
        return isl.PwAff.alloc(one.params(), bound)
    try:
        return axis_max(one, 0) if largest else axis_min(one, 0)
    except isl.Error:
        raise StaticValueFindingError(
            f"iname '{name}' has no {'last' if largest else 'first'} value",
            because=f"its domain is {domain}",
            hint="bound it on both sides: 0 <= i < n",
        ) from None


def _single_bound(one: Set, *, upper: bool) -> Aff | None:
    """Return the only upper or lower bound, ``None`` if there are several, or multiples."""
    parts = one.get_basic_sets()
    if len(parts) != 1 or parts[0].dim(_DIV):
        return None
    found: isl.Constraint | None = None
    for constraint in parts[0].get_constraints():
        if not constraint.involves_dims(_SET, 0, 1):
            continue
        coefficient = constraint.get_coefficient_val(_SET, 0)
        if constraint.is_equality() or not coefficient.abs().is_one():
            return None
        if coefficient.is_neg() == upper:
            if found is not None:
                return None
            found = constraint
    if found is None:
        return None
    rest = found.get_aff().set_coefficient_val(isl.dim_type.in_, 0, _ZERO)
    rest = rest.project_domain_on_params()
    return rest if upper else rest.neg()


_ZERO = isl.Val.zero(isl.DEFAULT_CONTEXT)


def constant_bounds(domain: Set, name: str) -> Interval:
    """Return the numeric bounds of *name* over all parameters."""
    return numeric_bounds(domain if n_dims(domain) == 1 else only_dim(domain, name)) or Interval()


def numeric_bounds(values: Set) -> Interval | None:
    """Return the bounds of a one-dimensional set over all parameters; ``None`` if empty."""
    low, high = values.dim_min_val(0), values.dim_max_val(0)
    if high.is_nan():
        return None
    return Interval(
        low.to_python() if low.is_int() else None,
        high.to_python() if high.is_int() else None,
    )


def _least(points: Set) -> Set:
    """Return the lexicographically least point.

    isl's ``lexmin`` takes some sets for empty, and some of its minima are too small.
    """
    for k in range(n_dims(points)):
        least = points.dim_min_val(k)
        found = points.fix_val(_SET, k, least)
        while found.is_empty():
            least = least.add(1)
            points = points.lower_bound_val(_SET, k, least)
            least = least.max(points.dim_min_val(k))
            found = points.fix_val(_SET, k, least)
        points = found
    return points


def sample_point(domain: Set) -> dict[str, int] | None:
    """Return one concrete point, dimensions and parameters by name; ``None`` if empty."""
    named = to_named(domain)
    names = param_names(named)
    lifted = named.move_dims(_SET, 0, _PARAM, 0, len(names))
    # small, positive values read best
    positive = lifted
    for k in range(len(names)):
        positive = positive.lower_bound_val(_SET, k, isl.Val.zero(isl.DEFAULT_CONTEXT))
    if not positive.is_empty():
        lifted = _least(positive) if positive.is_bounded() else positive
    point = lifted.sample_point()
    if point.is_void():
        return None
    return dict(zip(names, point_values(point, len(names)), strict=True))
