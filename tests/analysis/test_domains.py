"""Changed loop domains are exact."""

from __future__ import annotations

from typing import Any

import islpy as isl

from kgen.analysis.domains import (
    AffineRow,
    copies_beside,
    copy_dims,
    difference,
    domain_of_copies,
    drop_dims,
    fix_dims,
    intersect_domains,
    rename_params,
    replace_dims,
)
from kgen.ir.language.expressions import parse
from kgen.ir.sets.text import parse_assumptions, parse_domain

TRIANGLE = parse_domain("{[i, j]: 0 <= i < n and 0 <= j < i}")
HALVES: dict[str, Any] = {"i": parse("k + 2*o")}
BIT: tuple[AffineRow, ...] = ({"k": 1}, {"k": -1, 1: 1})


def same(found: isl.BasicSet, text: str) -> bool:
    return bool(isl.Set.from_basic_set(found).is_equal(isl.Set(text)))


def test_dimensions_are_replaced_in_place() -> None:
    expected = "[n] -> {[o, k, j]: 0 <= k <= 1 and 0 <= 2*o + k < n and 0 <= j < 2*o + k}"
    assert same(replace_dims(TRIANGLE, HALVES, ("o", "k"), positive=BIT), expected)


def test_kept_dimensions_are_independent_of_the_new_ones() -> None:
    domain = parse_domain("{[i]: 0 <= i < 4}")
    both = replace_dims(domain, HALVES, ("o", "k"), positive=BIT, keep_old=True)
    assert isl.Set.from_basic_set(both).count_val().to_python() == 16


def test_parameters_are_replaced_without_their_bounds() -> None:
    inner = parse_domain("[i] -> {[j]: 0 <= j < i}")
    assert str(replace_dims(inner, HALVES, ("o", "k"))) == "[o, k] -> { [j] : 0 <= j < 2o + k }"


def test_joined_parameters_stay_bounded() -> None:
    # i = z // 8 and j = z % 8: for z = 9, i is 1 and nothing else.
    inner = parse_domain("[i, j] -> {[k]: j <= k < i}")
    joined = replace_dims(inner, {"i": parse("z // 8"), "j": parse("z % 8")}, ("z",))
    expected = "[z] -> {[k]: z - 8*floor(z/8) <= k < floor(z/8)}"
    assert same(joined, expected)


def test_copies_with_bounds_of_their_own_leave_the_domain() -> None:
    rest, own = copy_dims(parse_domain("{[i, j]: 0 <= i < n and 0 <= j < m}"), {"j": "z"})
    assert str(rest) == "[m, n] -> { [i, j] : 0 <= i < n and 0 <= j < m }"
    assert own is not None
    assert same(own, "[m] -> {[z]: 0 <= z < m}")


def test_copies_bound_by_others_stay_beside_them() -> None:
    joint, own = copy_dims(TRIANGLE, {"i": "z"})
    assert own is None
    assert same(drop_dims(joint, ["i"]), "[n] -> {[z, j]: 0 <= z < n and 0 <= j < z}")


def test_copies_of_copies_are_bounded_like_the_dimensions() -> None:
    once = copies_beside(TRIANGLE, TRIANGLE, {"i": "z"}, {"i": "z"})
    twice = copies_beside(TRIANGLE, once, {"j": "y"}, {"i": "z", "j": "y"})
    assert same(drop_dims(twice, ["i", "j"]), "[n] -> {[z, y]: 0 <= z < n and 0 <= y < z}")
    assert same(drop_dims(twice, ["z", "y"]), "[n] -> {[i, j]: 0 <= i < n and 0 <= j < i}")


def test_copies_for_given_values_of_others() -> None:
    assert str(domain_of_copies(TRIANGLE, {"j": "z"}, {"i"})) == "[n, i] -> { [z] : 0 <= z < i }"
    free = domain_of_copies(TRIANGLE, {"j": "z"}, ())
    assert same(free, "[n] -> {[z]: 0 <= z <= n - 2}")


def test_domains_with_divisions() -> None:
    even = parse_domain("{[i, j]: 0 <= i < n and i mod 2 = 0 and 0 <= j < i}")
    joint, own = copy_dims(even, {"i": "z"})
    found = drop_dims(joint if own is None else own, ["i"] if own is None else [])
    assert same(found, "[n] -> {[z, j]: 0 <= z < n and z mod 2 = 0 and 0 <= j < z}")


def test_a_nest_of_domains_becomes_one() -> None:
    nest = [parse_domain("{[i]: 0 <= i < n}"), parse_domain("[i] -> {[j]: 0 <= j < i}")]
    assert same(intersect_domains(nest), "[n] -> {[i, j]: 0 <= i < n and 0 <= j < i}")


def test_parameters_are_fixed_and_renamed() -> None:
    assert str(fix_dims(TRIANGLE, {"n": 3, "m": 4})) == "{ [i, j] : 0 <= i <= 2 and 0 <= j < i }"
    two = parse_domain("{[i]: n <= i < m}")
    assert same(rename_params(two, {"n": "k"}), "[k, m] -> {[i]: k <= i < m}")
    assert rename_params(two, {"n": "m"}).is_empty()


def test_differences_are_shown_at_a_point() -> None:
    one, other = isl.Set("[n] -> {[i]: 0 <= i < n}"), isl.Set("[n] -> {[j]: 0 < j < n}")
    assert difference(one, other, {"i": "j"}, parse_assumptions("n >= 3")) == {"n": 3, "j": 0}
    assert difference(one, one, {}, parse_assumptions(None)) is None
    swapped = isl.Set("[n] -> {[j, i]: 0 <= i < n and 0 <= j < i}")
    triangle = isl.Set.from_basic_set(TRIANGLE)
    assert difference(triangle, swapped, {}, parse_assumptions(None)) is None
