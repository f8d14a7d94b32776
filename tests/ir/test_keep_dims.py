"""A loop that no constraint ties to a statement has no say in whether it runs."""

from __future__ import annotations

import islpy as isl
import pytest

import kgen as lp
from kgen.ir.sets.domain import irredundant_text, keep_dims
from kgen.ir.sets.text import parse_domain


@pytest.mark.parametrize(
    "other",
    ["0 <= j < m", "0 <= j < m and j mod 2 = 0", "exists e: j = 2*e and 0 <= e < m"],
)
def test_a_loop_elsewhere_may_be_empty(other: str) -> None:
    kept = keep_dims(parse_domain(f"{{ [i, j]: 0 <= i < n and {other} }}"), ["i"])
    assert kept.is_equal(isl.BasicSet("[m, n] -> { [i]: 0 <= i < n }"))


def test_a_loop_that_depends_on_another_one_matters() -> None:
    kept = keep_dims(parse_domain("{ [i, j]: 0 <= i < n and 0 <= 2*j < i and j >= 1 }"), ["i"])
    assert kept.is_equal(isl.BasicSet("[n] -> { [i]: 3 <= i < n }"))


def test_a_stride_ties_loops_together() -> None:
    kept = keep_dims(parse_domain("{ [i, j]: 0 <= i < n and (i + j) mod 2 = 0 and j = 1 }"), ["i"])
    assert kept.is_equal(isl.BasicSet("[n] -> { [i]: 0 <= i < n and i mod 2 = 1 }"))


def test_a_copied_reduction_does_not_wait_for_loops_elsewhere() -> None:
    domain = "{ [i, j]: 1 <= i < n and 0 <= j < m and j mod 2 = 0 }"
    knl = lp.make_kernel(domain, "a[i] = sum(j, j)\nb[0] = sum(j, j)", target=lp.CTarget())
    copied = lp.realize_reduction(knl).default_entrypoint.domains[-1]
    want = isl.BasicSet("[m, n] -> { [j_0]: 0 <= j_0 < m and j_0 mod 2 = 0 }")
    assert copied.is_equal(want)


def test_the_text_of_a_digest_leaves_a_domain_as_it_is() -> None:
    """isl would find ``i = k = 3``, and so ``n >= 4``, which is not said of the loop over j."""
    domain = isl.BasicSet("[n] -> { [i, j, k] : 3 <= i < n and 0 <= j < n and i <= k <= 3 }")
    assert "n >= 4" in irredundant_text(domain)
    assert str(keep_dims(domain, ["j"])) == "[n] -> { [j] : 0 <= j < n }"
