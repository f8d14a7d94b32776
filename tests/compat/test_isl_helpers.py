"""Functions on isl's sets that programs for loopy import from loopy.isl_helpers."""

from __future__ import annotations

from typing import Any

import islpy as isl
import pytest
from pymbolic import var

import kgen.compat.loopy as lp
from kgen.compat.loopy import isl_helpers as helpers
from kgen.compat.loopy.symbolic import aff_from_expr

SPACE = isl.Space.create_from_names(isl.DEFAULT_CONTEXT, set=["i", "j"], params=["n"])
TRIANGLE = isl.Set("[n] -> { [i, j]: 0 <= i < n and 0 <= j <= i }")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("i", 0, var("n")), "0 <= i < n"),
        (("i", aff_from_expr(SPACE, var("j") + 1), 10), "j < i < 10"),
        (((isl.dim_type.set, 1), 0, 9, 2), "0 <= 2*j < 9"),
    ],
)
def test_a_slab_has_a_lower_and_an_upper_bound(arguments: tuple[Any, ...], expected: str) -> None:
    slab = helpers.make_slab(SPACE, *arguments)
    assert isinstance(slab, isl.BasicSet)
    assert slab.is_equal(isl.BasicSet(f"[n] -> {{ [i, j]: {expected} }}"))


@pytest.mark.parametrize("relation", ["<", "<=", "==", ">=", ">"])
def test_a_relation_as_a_function_that_is_not_negative(relation: str) -> None:
    function = helpers.iname_rel_aff(SPACE, "i", relation, var("n"))
    expected = isl.Set(f"[n] -> {{ [i, j]: i {relation.replace('==', '=')} n }}")
    zero = isl.Aff.zero_on_domain(isl.LocalSpace.from_space(SPACE))
    found = function.eq_set(zero) if relation == "==" else function.ge_set(zero)
    assert found.is_equal(expected)


def test_what_has_no_such_dimension_or_relation() -> None:
    with pytest.raises(KeyError, match="has no dimension 'ii'\n  hint: did you mean 'i'"):
        helpers.make_slab(SPACE, "ii", 0, 4)
    with pytest.raises(KeyError, match="has no dimension 'k'"):
        helpers.find_and_rename_dim(TRIANGLE, isl.dim_type.set, "k", "l")
    with pytest.raises(ValueError, match="'!=' is not a relation"):
        helpers.iname_rel_aff(SPACE, "i", "!=", var("n"))


def test_dimensions_are_equal_added_and_renamed() -> None:
    diagonal = helpers.add_eq_constraint_from_names(TRIANGLE, "i", "j")
    assert diagonal.is_equal(isl.Set("[n] -> { [i, j]: 0 <= i < n and j = i }"))
    wider = helpers.add_and_name_dims(diagonal, isl.dim_type.set, ["k"])
    renamed = helpers.find_and_rename_dim(wider, isl.dim_type.set, "k", "l")
    assert renamed.is_equal(isl.Set("[n] -> { [i, j, l]: 0 <= i < n and j = i }"))


def test_copies_of_dimensions_have_the_constraints_of_all() -> None:
    copied = helpers.duplicate_axes(TRIANGLE, ["i", "j"], ["a", "b"])
    both = "0 <= i < n and 0 <= j <= i and 0 <= a < n and 0 <= b <= a"
    assert copied.is_equal(isl.Set(f"[n] -> {{ [i, j, a, b]: {both} }}"))


def test_only_convex_sets_are_one_basic_set() -> None:
    halves = isl.Set("{ [i]: 0 <= i < 4 or 4 <= i < 8 }")
    assert helpers.convexify(halves).is_equal(isl.BasicSet("{ [i]: 0 <= i < 8 }"))
    with pytest.raises(lp.LoopyError, match="is not convex"):
        helpers.convexify(isl.Set("{ [i]: 0 <= i < 4 or 6 <= i < 8 }"))


def test_functions_of_one_value_and_of_one_piece() -> None:
    size = isl.PwAff("[n] -> { [n] : n > 3; [0] : n <= 3 }")
    large = isl.Set("[n] -> { : n > 5 }")
    assert str(helpers.static_value_of_pw_aff(size, False, large)) == "[n] -> { [(n)] }"
    assert str(helpers.simplify_pw_aff(size, large)) == "[n] -> { [(n)] }"
    assert str(helpers.pw_aff_to_aff(isl.PwAff("[n] -> { [n + 1] }"))) == "[n] -> { [(1 + n)] }"
    with pytest.raises(lp.StaticValueFindingError):
        helpers.static_value_of_pw_aff(size, constants_only=False)
    with pytest.raises(lp.ExpressionToAffineConversionError, match="one of 2 pieces"):
        helpers.pw_aff_to_aff(size)
