"""loopy.isl_helpers: queries on isl sets and functions."""

from __future__ import annotations

from collections.abc import Iterable

import islpy as isl
import pymbolic.primitives as p

from kgen.compat.loopy.symbolic import simplify_via_aff
from kgen.errors import StaticValueFindingError
from kgen.ir.expr import Expr
from kgen.ir.sets.dims import project_out_dims
from kgen.ir.sets.domain import as_set, static_value
from kgen.ir.sets.quasi_affine import as_pw_aff, set_from_condition

__all__ = [
    "is_nonnegative",
    "project_out",
    "simplify_via_aff",
    "static_max_of_pw_aff",
    "static_min_of_pw_aff",
]


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
