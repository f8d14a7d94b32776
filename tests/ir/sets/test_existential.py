"""Existential variables that follow from other variables leave the sets that kgen works with."""

from __future__ import annotations

import islpy as isl
import pytest

import kgen as lp
from kgen.ir.sets.dims import n_quotients
from kgen.ir.sets.existential import drop_implied


@pytest.mark.parametrize(
    ("condition", "left"),
    [
        ("exists a: m <= 6*a <= n and m + 1 <= 6*i <= n", 0),
        ("exists a: m <= 6*a <= n and m - 1 <= 6*i <= n", 1),
        ("exists a, b, c: i <= 6*a <= n and i <= 6*b <= n and i <= 6*c <= n", 1),
        ("exists a, b: i <= 6*a <= n and 6*a <= 5*b <= n", 2),
        ("exists a, b: i <= 6*a <= n and i <= 6*b <= n - 1", 1),
        ("i mod 2 = 0 and (exists a: i <= 6*a <= n)", 2),
    ],
)
def test_a_variable_goes_where_another_one_satisfies_its_constraints(
    condition: str, left: int
) -> None:
    values = isl.BasicSet(f"[n, m] -> {{ [i] : 0 <= i < 100 and {condition} }}")
    found = drop_implied(values)
    assert found.is_equal(values)
    assert n_quotients(found) == left


def test_copies_of_a_condition_do_not_pile_up_in_the_domain_of_a_statement() -> None:
    """There were eight existential variables, and isl took minutes for pairs of iterations."""
    text = ["t = a[i - 3] {id=load, inames=i:k}", "b[i - 3, k] = t {id=store, dep=load}"]
    data = [lp.TemporaryVariable("t", address_space=lp.AddressSpace.PRIVATE), ...]
    knl = lp.make_kernel("{ [i, k] : 3 <= i < n + 3 and 0 <= k < 4 }", text, data)
    knl = lp.split_iname(knl, "i", 6, outer_tag="g.0", inner_tag="l.0")
    knl = lp.duplicate_inames(knl, "i_outer", "id:store", tags={"i_outer": "g.0"})
    kernel = lp.split_domain(knl, "{ [k]: k < 3 }").default_entrypoint
    for insn in kernel.instructions:
        domain = kernel.domain_of(kernel.in_order(insn.within_inames))
        assert [n_quotients(part) for part in domain.get_basic_sets()] == [0]
