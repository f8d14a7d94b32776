"""loopy.isl_helpers: queries on isl sets and functions."""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Sequence
from typing import Final, TypeAlias, TypeVar

import islpy as isl
import pymbolic.primitives as p

from kgen.compat.loopy.symbolic import aff_from_expr, pw_aff_to_expr, simplify_via_aff
from kgen.errors import (
    ExpressionToAffineConversionError,
    InvalidValueError,
    KernelError,
    KgenError,
    StaticValueFindingError,
    near_names,
)
from kgen.ir.expr import Expr, minus
from kgen.ir.sets.dims import DimType, dim_names, in_order, project_out_dims, rename_dims, with_dims
from kgen.ir.sets.domain import as_set, static_value
from kgen.ir.sets.quasi_affine import as_pw_aff, set_from_condition

__all__ = [
    "add_and_name_dims",
    "add_eq_constraint_from_names",
    "convexify",
    "duplicate_axes",
    "find_and_rename_dim",
    "iname_rel_aff",
    "is_nonnegative",
    "make_slab",
    "project_out",
    "pw_aff_to_aff",
    "simplify_pw_aff",
    "simplify_via_aff",
    "static_max_of_pw_aff",
    "static_min_of_pw_aff",
    "static_value_of_pw_aff",
]

SetT = TypeVar("SetT", isl.BasicSet, isl.Set)
SetOrMapT = TypeVar("SetOrMapT", isl.BasicSet, isl.Set, isl.BasicMap, isl.Map)
#: A bound of a loop: a number, an expression, or isl's function.
Bound: TypeAlias = Expr | isl.Aff | isl.PwAff

#: The sign of ``bound - iname`` in a relation, and the constant that is added.
_RELATIONS: Final = {"<": (1, -1), "<=": (1, 0), "==": (1, 0), ">=": (-1, 0), ">": (-1, -1)}


class NoSuchDimensionError(KgenError, KeyError):
    """A name that a space of isl does not have; also a ``KeyError``.

    >>> print(NoSuchDimensionError(isl.Space("{ [row] }"), "rwo", ["row"]))
    '{ [row] }' has no dimension 'rwo'
      hint: did you mean 'row'?
    """

    __str__ = RuntimeError.__str__

    def __init__(self, space: isl.Space, name: str, known: Collection[str]) -> None:
        super().__init__(f"'{space}' has no dimension '{name}'", hint=near_names(name, known))


def static_max_of_pw_aff(
    pw_aff: isl.PwAff | isl.Aff, constants_only: bool, context: isl.Set | None = None
) -> isl.Aff:
    """Return one affine function that bounds another from above, where *context* holds.

    *constants_only* asks for a number. Raises :class:`StaticValueFindingError` where there is none.

    >>> rows = isl.PwAff("[n] -> { [n - 1] : n < 8; [7] : n >= 8 }")
    >>> print(static_max_of_pw_aff(rows, constants_only=True))
    [n] -> { [(7)] }
    """
    return _extreme(pw_aff, constants_only, context, largest=True)


def static_min_of_pw_aff(
    pw_aff: isl.PwAff | isl.Aff, constants_only: bool, context: isl.Set | None = None
) -> isl.Aff:
    """Return one affine function that bounds another from below: :func:`static_max_of_pw_aff`.

    >>> rows = isl.PwAff("[n] -> { [n] : n < 8; [8] : n >= 8 }")
    >>> print(static_min_of_pw_aff(rows, True, isl.Set("[n] -> { : n >= 4 }")))
    [n] -> { [(4)] }
    """
    return _extreme(pw_aff, constants_only, context, largest=False)


def _extreme(
    pw_aff: isl.PwAff | isl.Aff, constants_only: bool, context: isl.Set | None, *, largest: bool
) -> isl.Aff:
    value = as_pw_aff(pw_aff)
    if context is not None:
        given = as_set(context, "context")
        given = given.params() if not given.is_params() else given
    else:
        given = isl.Set.universe(value.domain().params().get_space())
    if not constants_only:
        return static_value(value, given, largest=largest, what="a bound")
    inside = value.intersect_params(given)
    bound = inside.max_val() if largest else inside.min_val()
    if not bound.is_int():
        word = "maximum" if largest else "minimum"
        raise StaticValueFindingError(
            f"the {word} of '{value}' is not a number\n  hint: constants_only=False allows an "
            "expression in parameters"
        )
    space = isl.LocalSpace.from_space(value.get_domain_space())
    return isl.Aff.val_on_domain(space, bound)


def is_nonnegative(expr: Expr, over_set: isl.Set) -> bool:
    """Tell whether an affine expression is at least 0 in all of a set.

    >>> from kgen.symbolic import parse
    >>> is_nonnegative(parse("i - 2"), isl.Set("{ [i]: 2 <= i < 9 }"))
    True
    """
    whole = as_set(over_set, "over_set")
    below = set_from_condition(whole.get_space(), p.Comparison(expr, "<", 0))
    return bool(whole.intersect(below).is_empty())


def project_out(set: isl.Set, inames: Iterable[str]) -> isl.Set:
    """Return the values that the other dimensions of a set take.

    >>> print(project_out(isl.Set("{ [i, j]: 0 <= i <= j < 9 }"), ["j"]))
    { [i] : 0 <= i <= 8 }
    """
    return project_out_dims(set, inames)


# -- functions ----------------------------------------------------------------------------------


def static_value_of_pw_aff(
    pw_aff: isl.PwAff | isl.Aff, constants_only: bool, context: isl.Set | None = None
) -> isl.Aff:
    """Return the one affine function that equals another, where *context* holds.

    *constants_only* asks for a number. Raises :class:`StaticValueFindingError` where there is none.

    >>> size = isl.PwAff("[n] -> { [n] : n < 8; [8] : n >= 8 }")
    >>> print(static_value_of_pw_aff(size, True, isl.Set("[n] -> { : n > 8 }")))
    [n] -> { [(8)] }
    """
    low, high = (_extreme(pw_aff, constants_only, context, largest=end) for end in (False, True))
    if not low.plain_is_equal(high):
        raise StaticValueFindingError(
            f"'{pw_aff}' has no one value: it is between '{low}' and '{high}'"
        )
    return high


def simplify_pw_aff(pw_aff: isl.PwAff | isl.Aff, context: isl.Set | None = None) -> isl.PwAff:
    """Return a function in as few pieces as isl finds, without what *context* implies.

    >>> print(simplify_pw_aff(isl.PwAff("[n] -> { [n] : n > 3; [n] : n <= 3 }")))
    [n] -> { [(n)] }
    """
    value = as_pw_aff(pw_aff)
    if context is not None:
        value = value.gist_params(as_set(context, "context").params())
    (_, affine), *others = pieces = value.coalesce().get_pieces()
    if others and all(affine.plain_is_equal(other) for _, other in others):
        whole = functools.reduce(isl.Set.union, (domain for domain, _ in pieces))
        return isl.PwAff.alloc(whole.coalesce(), affine)
    return value.coalesce()


def pw_aff_to_aff(pw_aff: isl.PwAff | isl.Aff) -> isl.Aff:
    """Return the function of one piece as it is without conditions.

    Raises :class:`ExpressionToAffineConversionError` for a function of several pieces.

    >>> print(pw_aff_to_aff(isl.PwAff("[n] -> { [2*n] : n > 3 }")))
    [n] -> { [(2n)] }
    """
    pieces = as_pw_aff(pw_aff).coalesce().get_pieces()
    if len(pieces) != 1:
        raise ExpressionToAffineConversionError(
            f"'{pw_aff}' is not one affine function, but one of {len(pieces)} pieces"
        )
    return pieces[0][1]


# -- sets and maps ------------------------------------------------------------------------------


def convexify(domain: isl.Set | isl.BasicSet) -> isl.BasicSet:
    """Return a set as one without alternatives.

    Raises :class:`KernelError` if it is not convex.

    >>> print(convexify(isl.Set("{ [i]: 0 <= i < 4 or 4 <= i < 8 }")))
    { [i] : 0 <= i <= 7 }
    """
    whole = as_set(domain, "domain").coalesce()
    hull = whole.simple_hull()
    if not hull.to_set().is_equal(whole):
        raise KernelError(
            f"'{whole}' is not convex",
            hint="one domain has no alternatives; use a condition, or several loops",
        )
    return hull


def make_slab(
    space: isl.Space,
    iname: str | tuple[DimType, int],
    start: Bound,
    stop: Bound,
    iname_multiplier: int = 1,
) -> isl.BasicSet:
    """Return where ``start <= iname_multiplier*iname < stop``.

    *iname* is the name of a dimension, or its kind and position. Bounds are numbers, expressions or
    isl's functions. Raises a ``KeyError`` for a name that *space* does not have.

    >>> space = isl.Space.create_from_names(isl.DEFAULT_CONTEXT, set=["i"], params=["n"])
    >>> print(make_slab(space, "i", 2, p.Variable("n") + 1))
    [n] -> { [i] : 2 <= i <= n }
    """
    name = iname if isinstance(iname, str) else str(space.get_dim_name(*iname))
    _place(space, name)
    value = iname_multiplier * p.Variable(name)
    inside = (p.Comparison(_expr(start), "<=", value), p.Comparison(value, "<", _expr(stop)))
    return convexify(set_from_condition(space, p.LogicalAnd(inside)))


def iname_rel_aff(space: isl.Space, iname: str, rel: str, aff: Bound) -> isl.Aff:
    """Return the function that is at least 0 where ``iname rel aff``, and 0 there for ``==``.

    Raises a ``ValueError`` for another relation than ``<``, ``<=``, ``==``, ``>=``, ``>``, a
    ``KeyError`` for a name that *space* does not have.

    >>> space = isl.Space.create_from_names(isl.DEFAULT_CONTEXT, set=["i"], params=["n"])
    >>> print(iname_rel_aff(space, "i", "<", p.Variable("n")))
    [n] -> { [i] -> [(-1 + n - i)] }
    """
    _place(space, iname)
    if rel not in _RELATIONS:
        raise InvalidValueError(
            f"'{rel}' is not a relation of a loop variable to its bound",
            hint=f"the relations are {', '.join(_RELATIONS)}",
        )
    sign, constant = _RELATIONS[rel]
    return aff_from_expr(space, sign * minus(_expr(aff), p.Variable(iname)) + constant)


def add_eq_constraint_from_names(isl_obj: SetOrMapT, var1: str, var2: str) -> SetOrMapT:
    """Return the part of a set or a map in which two dimensions are equal.

    Raises a ``KeyError`` for a name that it does not have.

    >>> print(add_eq_constraint_from_names(isl.Set("{ [i, j]: 0 <= i, j < 8 }"), "i", "j"))
    { [i, j = i] : 0 <= i <= 7 }
    """
    space = isl_obj.get_space()
    equal = isl.Constraint.equality_alloc(isl.LocalSpace.from_space(space))
    for name, coefficient in ((var1, 1), (var2, -1)):
        equal = equal.set_coefficient_val(*_place(space, name), coefficient)
    return isl_obj.add_constraint(equal)


def add_and_name_dims(isl_obj: SetOrMapT, dt: DimType, names: Sequence[str]) -> SetOrMapT:
    """Return a set or a map with additional last dimensions of one kind.

    >>> print(add_and_name_dims(isl.Set("{ [i]: i < 8 }"), isl.dim_type.set, ["j"]))
    { [i, j] : i <= 7 }
    """
    first = isl_obj.dim(dt)
    isl_obj = isl_obj.add_dims(dt, len(names))
    for place, name in enumerate(names, first):
        isl_obj = isl_obj.set_dim_name(dt, place, name)
    return isl_obj


def find_and_rename_dim(isl_obj: SetOrMapT, dt: DimType, old_name: str, new_name: str) -> SetOrMapT:
    """Return a set or a map in which a dimension of one kind has another name.

    Raises a ``KeyError`` if there is no such dimension.

    >>> print(find_and_rename_dim(isl.Set("{ [i]: i < 8 }"), isl.dim_type.set, "i", "row"))
    { [row] : row <= 7 }
    """
    space = isl_obj.get_space()
    kind, place = _place(space, old_name)
    if kind != dt:
        raise NoSuchDimensionError(space, old_name, space.get_var_dict(dt))
    return isl_obj.set_dim_name(dt, place, new_name)


def duplicate_axes(
    isl_obj: SetT, duplicate_inames: Sequence[str], new_inames: Sequence[str]
) -> SetT:
    """Return a set with copies of some dimensions, for which the same constraints hold.

    Raises a ``KeyError`` for a name that the set does not have.

    >>> print(duplicate_axes(isl.BasicSet("{ [i, j]: 0 <= i < 8 and 0 <= j < 4 }"), ["i"], ["k"]))
    { [i, j, k] : 0 <= i <= 7 and 0 <= j <= 3 and 0 <= k <= 7 }
    """
    for name in duplicate_inames:
        _place(isl_obj.get_space(), name)
    both = with_dims(isl_obj, new_inames)
    copies = rename_dims(isl_obj, dict(zip(duplicate_inames, new_inames, strict=True)))
    return both.intersect(in_order(copies, dim_names(both)))


def _place(space: isl.Space, name: str) -> tuple[DimType, int]:
    """Return the kind and the position of a dimension."""
    places = space.get_var_dict()
    if name not in places:
        raise NoSuchDimensionError(space, name, places)
    return places[name]


def _expr(value: Bound) -> Expr:
    """Write a function of isl as an expression."""
    return pw_aff_to_expr(value) if isinstance(value, isl.Aff | isl.PwAff) else value
