"""The domains of loops inside of loops on the host."""

from __future__ import annotations

import islpy as isl
import numpy as np

import kgen as lp
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


def test_a_domain_whose_gist_has_several_pieces_stays_as_it_is() -> None:
    """Elements of a ring are fetched in a launch of its own, in a loop on the host."""
    knl = lp.make_kernel(
        ["{ [i]: 0 <= i < n }", "{ [j]: i < j < n }"],
        "out[i, j] = a[j % 3] {if=i != 2}",
        [lp.GlobalArg("a", "int32", shape="3"), lp.GlobalArg("out", "int32", shape="n, n"), ...],
        assumptions="n >= 1",
        target=lp.ExecutableCTarget(),
    )
    knl = lp.split_iname(knl, "j", 5)
    space = lp.AddressSpace.GLOBAL
    knl = lp.add_prefetch(knl, "a", "j_inner", default_tag=None, temporary_address_space=space)
    a, out = np.array([5, 7, 9], np.int32), np.zeros((8, 8), np.int32)
    knl(a=a, out=out, n=8)
    expected = [[a[j % 3] if i < j and i != 2 else 0 for j in range(8)] for i in range(8)]
    np.testing.assert_array_equal(out, expected)
