"""The domains of loops inside of loops on the host."""

from __future__ import annotations

import islpy as isl

from kgen.schedule.host import _with_params


def test_known_constraints_are_dropped_beside_a_quotient_without_a_formula() -> None:
    inner = isl.BasicSet(
        "[m, t, j] -> { [k] : exists (e: t >= 0 and j >= 0 and k >= 0 and 6e >= 3j - 2t - 1 and "
        "120e <= 39j - 40t - 6k + 1 and 120e < m - 42t + 39j - 6k) }"
    )
    known = isl.Set(
        "[m, t, j] -> { : t >= 0 and j >= 0 and 6*floor((3j - 2t - 2)/6) <= 3j - 2t - 6 and "
        "120*floor((3j - 2t - 2)/6) <= 39j - 40t - 119 and "
        "120*floor((3j - 2t - 2)/6) <= m - 42t + 39j - 121 }"
    )
    assert known.is_subset(isl.Set.from_basic_set(inner).params())
    assert _with_params(inner, frozenset(), known).is_equal(isl.BasicSet("{ [k] : k = 0 }"))
