"""isl's functions by the names of dimensions, and by axes of sets that have none."""

from __future__ import annotations

import islpy as isl

from kgen.ir.sets.dims import axis_max, axis_min, functions_of, least_on_axis, union_of


def test_the_union_of_nothing_is_none() -> None:
    parts = [isl.Set(f"{{ [i] : i = {k} }}") for k in range(3)]
    union = union_of(iter(parts))
    assert union is not None
    assert union.is_equal(isl.Set("{ [i] : 0 <= i <= 2 }"))
    assert union_of(part for part in parts if part.is_empty()) is None


def test_ends_of_an_axis_without_a_name() -> None:
    values = isl.Set("[n] -> { [a, b] : 1 <= a <= 5 and 2 <= b < n }")
    low, high = axis_min(values, 1), axis_max(values, 1)
    assert str(high.sub(low)) == "[n] -> { [(-3 + n)] : n >= 3 }"
    assert least_on_axis(values, 0).to_python() == 1


def test_the_functions_of_a_relation_by_name() -> None:
    found = functions_of(isl.Map("{ [z] -> [i = 3 - z, j = 2z] }"))
    assert {name: str(value) for name, value in found.items()} == {
        "i": "{ [z] -> [(3 - z)] }",
        "j": "{ [z] -> [(2z)] }",
    }
