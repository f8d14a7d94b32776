"""The dimensions of isl sets by name: the only module that uses isl's dimension numbers.

isl's functions take a kind of dimension, a position and a count; the functions here take names. The
simplifying idea: a set whose dimensions are all moved to parameters (a *named* set) can
be intersected and projected by name, since isl aligns parameters by itself. Dimensions without
names (subscripts of an array) are identified by *axis*, counted from 0.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias, TypeVar

import islpy as isl

BasicSet: TypeAlias = isl.BasicSet
Set: TypeAlias = isl.Set
Map: TypeAlias = isl.Map
Space: TypeAlias = isl.Space
Row: TypeAlias = isl.Constraint
DimType: TypeAlias = isl.dim_type
SetT = TypeVar("SetT", isl.BasicSet, isl.Set)
AnySetT = TypeVar("AnySetT", isl.Set, isl.Map, isl.UnionSet)
MovedT = TypeVar("MovedT", isl.BasicSet, isl.Set, isl.Map)
SpaceT = TypeVar("SpaceT", isl.BasicSet, isl.Set, isl.Space)
WithParams: TypeAlias = isl.BasicSet | isl.Set | isl.Map | isl.Space | isl.PwAff

_PARAM = isl.dim_type.param
_SET = isl.dim_type.set
_IN = isl.dim_type.in_
_OUT = isl.dim_type.out
_DIV = isl.dim_type.div
_CST = isl.dim_type.cst


def isl_int(value: int) -> isl.Val:
    """Return an integer of any size as an isl value."""
    if abs(value) < 1 << 31:
        return isl.Val.int_from_si(isl.DEFAULT_CONTEXT, value)
    return isl.Val.read_from_str(isl.DEFAULT_CONTEXT, str(value))


def _at(domain: BasicSet | Set | Map | Space, kind: isl.dim_type, name: str) -> int:
    """Return the position of a dimension; -1 if there is none of that kind."""
    space = domain.get_space() if isinstance(domain, isl.BasicSet) else domain
    return int(space.find_dim_by_name(kind, name))


def union_of(parts: Iterable[AnySetT]) -> AnySetT | None:
    """Return the union of sets or relations; ``None`` if there are none."""
    rest = iter(parts)
    first = next(rest, None)
    return (
        None
        if first is None
        else functools.reduce(lambda one, other: one.union(other), rest, first)
    )


class SetKey:
    """A set as a dictionary key: keys are equal if the constraints are the same."""

    __slots__ = ("_hash", "_set")

    def __init__(self, values: Set) -> None:
        self._set = values
        self._hash = hash(values)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SetKey) and self._set.plain_is_equal(other._set)


# -- names and numbers ----------------------------------------------------------------


def _names(domain: WithParams, kind: isl.dim_type) -> tuple[str, ...]:
    return tuple(str(domain.get_dim_name(kind, k)) for k in range(domain.dim(kind)))


def dim_names(domain: BasicSet | Set) -> tuple[str, ...]:
    """Return the names of the set dimensions."""
    return _names(domain, _SET)


def param_names(domain: WithParams) -> tuple[str, ...]:
    """Return the names of the parameters."""
    return _names(domain, _PARAM)


def dim_name(domain: Set, axis: int) -> str:
    """Return the name of one of the set dimensions."""
    return str(domain.get_dim_name(_SET, axis))


def in_names(relation: Map) -> tuple[str, ...]:
    """Return the names of the input dimensions of a relation."""
    return _names(relation, _IN)


def has_dim(domain: BasicSet | Set | Space, name: str) -> bool:
    """Tell whether a set has the dimension *name*."""
    return _at(domain, _SET, name) >= 0


def has_param(domain: BasicSet | Set | Space, name: str) -> bool:
    """Tell whether a set has the parameter *name*."""
    return _at(domain, _PARAM, name) >= 0


def space_without(space: Space, names: Iterable[str]) -> Space:
    """Return the space without the dimensions *names*."""
    for name in names:
        space = space.drop_dims(_SET, _at(space, _SET, name), 1)
    return space


def n_dims(domain: BasicSet | Set) -> int:
    """Return the number of dimensions of a set, with names or without."""
    return int(domain.dim(_SET))


def n_constraints(basic: BasicSet) -> int:
    """Return the number of equations and inequalities of a set."""
    return int(basic.n_constraint())


def n_axes(relation: Map) -> int:
    """Return the number of output dimensions of a relation."""
    return int(relation.dim(_OUT))


def n_quotients(basic: BasicSet | isl.BasicMap) -> int:
    """Return the number of quotients, or other existential variables, in constraints."""
    return int(basic.dim(_DIV))


def existential_coefficients(basic: isl.BasicMap, *, has_range: bool) -> Iterator[list[int]]:
    """Yield the nonzero coefficients of existential variables in each constraint.

    With *has_range*, the range counts as existential, as it is once it is projected out.
    """
    kinds = (_OUT, _DIV) if has_range else (_DIV,)
    if sum(map(basic.dim, kinds)) < 2:
        return
    order = (*kinds, *(kind for kind in (_CST, _PARAM, _IN, _OUT, _DIV) if kind not in kinds))
    n_columns = sum(map(basic.dim, kinds))
    for rows in (basic.equalities_matrix(*order), basic.inequalities_matrix(*order)):
        for row in range(rows.rows()):
            numbers = (rows.get_element_val(row, at).to_python() for at in range(n_columns))
            yield [abs(number) for number in numbers if number]


def without_quotients(relation: isl.Map) -> isl.Map:
    """Return a superset of *relation*: without constraints that have quotients.

    >>> print(without_quotients(isl.Map("{ [i] -> [j = i] : i mod 2 = 0 and i >= 0 }")))
    { [i] -> [j = i] : i >= 0 }
    """
    result = isl.Map.empty(relation.get_space())
    for part in relation.get_basic_maps():
        plain = part.drop_constraints_involving_dims(_DIV, 0, n_quotients(part))
        result = result.union(isl.Map.from_basic_map(plain.remove_divs()))
    return result


def have_names(domain: Set) -> bool:
    """Tell whether each dimension has a name."""
    return all(domain.has_dim_name(_SET, k) for k in range(domain.dim(_SET)))


# -- adding, removing, renaming ---------------------------------------------------------


def params_space(names: Collection[str]) -> Space:
    """Return the space of sets that have these parameters, and no dimensions."""
    space = isl.Space.params_alloc(isl.DEFAULT_CONTEXT, len(names))
    for k, name in enumerate(names):
        space = space.set_dim_name(_PARAM, k, name)
    return space


def with_params(domain: SpaceT, names: Iterable[str]) -> SpaceT:
    """Append the missing ones of the parameters *names*."""
    for name in names:
        if _at(domain, _PARAM, name) < 0:
            at = domain.dim(_PARAM)
            domain = domain.insert_dims(_PARAM, at, 1).set_dim_name(_PARAM, at, name)
    return domain


def with_dims(domain: SpaceT, names: Sequence[str], at: int | None = None) -> SpaceT:
    """Append the dimensions *names*, or insert them at the position *at*."""
    at = domain.dim(_SET) if at is None else at
    return name_dims(domain.insert_dims(_SET, at, len(names)), names, at)


def with_axes(domain: Set, count: int) -> Set:
    """Prepend unnamed dimensions."""
    return domain.insert_dims(_SET, 0, count)


def name_dims(domain: SpaceT, names: Iterable[str], first: int = 0) -> SpaceT:
    """Name the dimensions starting at the axis *first*."""
    for k, name in enumerate(names, first):
        domain = domain.set_dim_name(_SET, k, name)
    return domain


def rename_dims(domain: SetT, names: Mapping[str, str]) -> SetT:
    """Rename set dimensions and parameters, all at once."""
    for kind in (_SET, _PARAM):
        for k in range(domain.dim(kind)):
            new = names.get(str(domain.get_dim_name(kind, k)))
            if new is not None:
                domain = domain.set_dim_name(kind, k, new)
    return domain


def rename_param(named: SetT, old: str, new: str) -> SetT:
    """Rename an existing parameter."""
    return named.set_dim_name(_PARAM, _at(named, _PARAM, old), new)


def project_out_params(named: SetT, names: Iterable[str]) -> SetT:
    """Project out the existing ones of the parameters *names*."""
    for name in names:
        at = _at(named, _PARAM, name)
        if at >= 0:
            named = named.project_out(_PARAM, at, 1)
    return named


def project_out_unused_params(domain: SetT) -> SetT:
    """Drop the parameters that no constraint depends on."""
    for k in reversed(range(domain.dim(_PARAM))):
        if not domain.involves_dims(_PARAM, k, 1):
            domain = domain.project_out(_PARAM, k, 1)
    return domain


def project_out_dims(domain: SetT, names: Iterable[str]) -> SetT:
    """Project dimensions out, one after the other."""
    for name in names:
        domain = domain.project_out(_SET, _at(domain, _SET, name), 1)
    return domain


def without_params(domain: SetT) -> SetT:
    """Project all parameters out."""
    return domain.project_out(_PARAM, 0, domain.dim(_PARAM))


def outer_dims(domain: SetT, count: int) -> SetT:
    """Project a set onto its first *count* dimensions."""
    return domain.project_out(_SET, count, domain.dim(_SET) - count)


def only_dim(domain: SetT, name: str) -> SetT:
    """Project a set onto one dimension."""
    return only_axis(domain, _at(domain, _SET, name))


def only_axis(domain: SetT, axis: int) -> SetT:
    """Project a set onto one dimension."""
    only = outer_dims(domain, axis + 1)
    return only.project_out(_SET, 0, axis) if axis else only


def in_order(domain: SetT, names: Sequence[str]) -> SetT:
    """Reorder the dimensions, and add the missing ones of *names*."""
    if dim_names(domain) != tuple(name for name in names if has_dim(domain, name)):
        domain = domain.move_dims(_PARAM, domain.dim(_PARAM), _SET, 0, domain.dim(_SET))
        return from_named(domain, names)
    for k, name in enumerate(names):
        if not has_dim(domain, name):
            domain = with_dims(domain, (name,), k)
    return domain


def free_dim(domain: Set, name: str) -> Set:
    """Project out a dimension and add it again, without constraints."""
    at = _at(domain, _SET, name)
    return with_dims(domain.project_out(_SET, at, 1), (name,), at)


def add_axis(space: Space) -> Space:
    """Append an unnamed dimension, for the value of a function."""
    return space.add_dims(_OUT, 1)


# -- moving between kinds ---------------------------------------------------------------


def to_named(domain: BasicSet | Set) -> Set:
    """Move all set dimensions to parameters."""
    if isinstance(domain, isl.BasicSet):
        domain = isl.Set.from_basic_set(domain)
    return domain.move_dims(_PARAM, domain.dim(_PARAM), _SET, 0, domain.dim(_SET))


def from_named(named: SetT, names: Sequence[str]) -> SetT:
    """Make the parameters *names* the set dimensions, in that order."""
    for k, name in enumerate(names):
        at = _at(named, _PARAM, name)
        if at < 0:
            named = named.insert_dims(_SET, k, 1).set_dim_name(_SET, k, name)
        else:
            named = named.move_dims(_SET, k, _PARAM, at, 1)
    return named


def _moved(domain: MovedT, names: Iterable[str], old: isl.dim_type, new: isl.dim_type) -> MovedT:
    for name in names:
        domain = domain.move_dims(new, domain.dim(new), old, _at(domain, old, name), 1)
    return domain


def dims_to_params(domain: SetT, names: Iterable[str]) -> SetT:
    """Move dimensions to the end of the parameters."""
    return _moved(domain, names, _SET, _PARAM)


def params_to_dims(domain: SetT, names: Iterable[str]) -> SetT:
    """Move parameters to the end of the dimensions."""
    return _moved(domain, names, _PARAM, _SET)


def in_to_params(relation: Map, names: Iterable[str]) -> Map:
    """Move input dimensions of a relation to the end of the parameters."""
    return _moved(relation, names, _IN, _PARAM)


def outer_dim_to_param(domain: Set, name: str) -> Set:
    """Move the first dimension to the end of the parameters, and name it."""
    at = domain.dim(_PARAM)
    return domain.move_dims(_PARAM, at, _SET, 0, 1).set_dim_name(_PARAM, at, name)


def with_range_name(relation: Map, name: str) -> Map:
    """Set the tuple name of the range of a relation."""
    return relation.set_tuple_name(_OUT, name)


def range_name(relation: Map) -> str:
    """Return the tuple name of the range of a relation."""
    return str(relation.get_tuple_name(_OUT))


def relation_from(points: Set, count: int) -> Map:
    """Return the relation of the first *count* dimensions to the others."""
    return isl.Map.from_range(points).move_dims(_IN, 0, _OUT, 0, count)


def pairs_of(relation: Map) -> Set:
    """Return the pairs of a relation: points with the dimensions of domain and range."""
    return relation.move_dims(_OUT, 0, _IN, 0, relation.dim(_IN)).range()


# -- values -----------------------------------------------------------------------------


def param_variable(space: Space, name: str) -> isl.Aff:
    """Return a parameter as an affine expression over a space."""
    at = _at(space, _PARAM, name)
    return isl.Aff.var_on_domain(isl.LocalSpace.from_space(space), _PARAM, at)


def axis_variable(space: Space, axis: int) -> isl.Aff:
    """Return a dimension as an affine expression over a space."""
    return isl.Aff.var_on_domain(isl.LocalSpace.from_space(space), _SET, axis)


def variable(space: Space, name: str) -> isl.Aff:
    """Return a dimension, or a parameter, as an affine expression over a space."""
    at = _at(space, _SET, name)
    return axis_variable(space, at) if at >= 0 else param_variable(space, name)


def param_polynomial(space: Space, name: str) -> isl.QPolynomial:
    """Return a parameter as a polynomial over a space."""
    at = _at(space, _PARAM, name)
    return isl.QPolynomial.var_on_domain(space, _PARAM, at)


def fix_param_values(domain: SetT, values: Mapping[str, int]) -> SetT:
    """Fix the existing ones of some parameters to values; they stay parameters."""
    for k, name in enumerate(param_names(domain)):
        if name in values:
            domain = domain.fix_val(_PARAM, k, isl_int(values[name]))
    return domain


def bound_param(domain: Set, name: str, low: int | None = None, high: int | None = None) -> Set:
    """Bound a parameter from below, from above, or both."""
    return _bound(domain, _PARAM, name, low, high)


def bound_dim(domain: Set, name: str, low: int | None = None, high: int | None = None) -> Set:
    """Bound a dimension from below, from above, or both."""
    return _bound(domain, _SET, name, low, high)


def _bound(domain: Set, kind: isl.dim_type, name: str, low: int | None, high: int | None) -> Set:
    at = _at(domain, kind, name)
    if low is not None:
        domain = domain.lower_bound_val(kind, at, isl_int(low))
    return domain if high is None else domain.upper_bound_val(kind, at, isl_int(high))


def not_negative(domain: Set, axis: int) -> Set:
    """Bound a dimension from below by 0."""
    return domain.lower_bound_val(_SET, axis, isl.Val.zero(isl.DEFAULT_CONTEXT))


def least_value(domain: Set, name: str) -> isl.Val:
    """Return the least value of a dimension: an infinity if unbounded, NaN for an empty set."""
    return least_on_axis(domain, _at(domain, _SET, name))


def largest_value(domain: Set, name: str) -> isl.Val:
    """Return the largest value of a dimension: an infinity if unbounded, NaN for an empty set."""
    return domain.dim_max_val(_at(domain, _SET, name))


def least_on_axis(domain: Set, axis: int) -> isl.Val:
    """Return the least value of a dimension: an infinity if unbounded, NaN for an empty set."""
    return domain.dim_min_val(axis)


def axis_min(domain: Set, axis: int) -> isl.PwAff:
    """Return the least value of a dimension as a function of the parameters."""
    return domain.dim_min(axis)


def axis_max(domain: Set, axis: int) -> isl.PwAff:
    """Return the largest value of a dimension as a function of the parameters."""
    return domain.dim_max(axis)


def functions_of(relation: Map) -> dict[str, isl.PwAff]:
    """Return each output dimension of a single-valued relation as a function."""
    affs = relation.as_pw_multi_aff()
    names = (str(relation.get_dim_name(_OUT, k)) for k in range(relation.dim(_OUT)))
    return {name: affs.get_pw_aff(k) for k, name in enumerate(names)}


def are_bounded(domain: Set, name: str) -> tuple[bool, bool]:
    """Tell whether a dimension has a least and a largest value in terms of the parameters."""
    at = _at(domain, _SET, name)
    return domain.dim_has_lower_bound(_SET, at), domain.dim_has_upper_bound(_SET, at)


def point_values(point: isl.Point, count: int) -> tuple[int, ...]:
    """Return the values of the dimensions of a point."""
    return tuple(point.get_coordinate_val(_SET, k).to_python() for k in range(count))


def param_values(point: isl.Point, names: Sequence[str]) -> dict[str, int]:
    """Return the values of the parameters *names* of a point."""
    return {n: point.get_coordinate_val(_PARAM, k).to_python() for k, n in enumerate(names)}


# -- constraints ------------------------------------------------------------------------


def rows_of(domain: BasicSet | Set) -> Iterator[Row]:
    """Yield the constraints of all pieces of a set."""
    return (row for part in domain.get_basic_sets() for row in part.get_constraints())


def involves_quotient(row: Row) -> bool:
    """Tell whether a constraint has a quotient, or another existential variable."""
    return bool(row.involves_dims(_DIV, 0, row.dim(_DIV)))


def involved_axes(row: Row) -> list[int]:
    """Return the dimensions that occur in a constraint, by number."""
    return [k for k in range(row.dim(_SET)) if row.involves_dims(_SET, k, 1)]


def _involved(row: Row | BasicSet | Set | isl.Aff, kind: isl.dim_type) -> tuple[str, ...]:
    numbers = range(row.dim(kind))
    return tuple(str(row.get_dim_name(kind, k)) for k in numbers if row.involves_dims(kind, k, 1))


def involved_dims(row: Row | BasicSet) -> tuple[str, ...]:
    """Return the dimensions that occur in a constraint."""
    return _involved(row, _SET)


def involved_params(row: Row | isl.Aff | Set) -> tuple[str, ...]:
    """Return the parameters that occur in a constraint, or in one of a set."""
    return _involved(row, _PARAM)


def coefficient(row: Row, axis: int) -> isl.Val:
    """Return the coefficient of a dimension in a constraint."""
    return row.get_coefficient_val(_SET, axis)


def param_coefficient(row: Row, name: str) -> isl.Val:
    """Return the coefficient of a parameter in a constraint."""
    return row.get_coefficient_val(_PARAM, _at(row.get_space(), _PARAM, name))


def with_coefficients(row: Row, values: Mapping[int, int], constant: int) -> Row:
    """Set the coefficients of dimensions in a constraint, and the constant."""
    for axis, value in values.items():
        row = row.set_coefficient_val(_SET, axis, _val(value))
    return row.set_constant_val(_val(constant))


def _val(value: int) -> int | isl.Val:
    """Return an integer in the form that isl accepts fastest."""
    return value if abs(value) < 1 << 31 else isl_int(value)


def free_axis(domain: BasicSet, axis: int) -> BasicSet:
    """Remove all constraints on a dimension."""
    return domain.eliminate(_SET, axis, 1)


def free_inner(domain: BasicSet, axis: int) -> BasicSet:
    """Remove all constraints on the dimensions after one."""
    return domain.eliminate(_SET, axis + 1, domain.dim(_SET) - axis - 1)


def free_outer(domain: BasicSet, axis: int) -> BasicSet:
    """Remove all constraints on the dimensions before one."""
    return domain.eliminate(_SET, 0, axis)


def constraints_on(domain: BasicSet, names: Iterable[str]) -> BasicSet:
    """Keep the constraints that involve one of the dimensions *names*, or no dimension."""
    result = domain.drop_constraints_involving_dims(_SET, 0, domain.dim(_SET))
    for name in names:
        at = _at(domain, _SET, name)
        result = result.intersect(domain.drop_constraints_not_involving_dims(_SET, at, 1))
    return result


def without_param_constraints(values: BasicSet) -> BasicSet:
    """Drop parameter-only constraints, also those with their own existential variables.

    A quotient of the loop need not be related to it by a constraint, because isl omits what follows
    from its definition. In that case, everything stays.
    """
    found = _without_parameters(values)
    if not values.dim(_DIV):
        return found
    given = values.to_set().params()
    return found if found.to_set().intersect_params(given).is_subset(values.to_set()) else values


def _without_parameters(values: BasicSet) -> BasicSet:
    while (other := _other_div(values)) is not None:
        rest = values.drop_constraints_involving_dims(_DIV, other, 1)
        if rest.plain_is_equal(values):  # isl keeps a constant quotient until it looks for these
            rest = values.detect_equalities()
        if rest.plain_is_equal(values):
            return values
        values = rest
    others = values.drop_constraints_involving_dims(_SET, 0, 1)
    if others.involves_dims(_DIV, 0, others.dim(_DIV)):
        return values
    return values.drop_constraints_not_involving_dims(_SET, 0, 1)


def _other_div(values: BasicSet) -> int | None:
    """Return an existential variable that constraints do not connect to the loop."""
    if not values.dim(_DIV):
        return None
    rows = values.get_constraints()
    divs = [{at for at in range(row.dim(_DIV)) if row.involves_dims(_DIV, at, 1)} for row in rows]
    tied = {at for row, d in zip(rows, divs, strict=True) if _is_of_loop(row) for at in d}
    while more := {at for d in divs if not d.isdisjoint(tied) for at in d} - tied:
        tied |= more
    return next((at for d in divs for at in d if at not in tied), None)


def _is_of_loop(row: isl.Constraint) -> bool:
    return bool(row.involves_dims(_SET, 0, 1))
