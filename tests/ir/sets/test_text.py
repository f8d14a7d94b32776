"""Domains read from text."""

from __future__ import annotations

import islpy as isl
import pytest

from kgen.errors import KgenError
from kgen.ir.sets.dims import dim_names
from kgen.ir.sets.text import parse_assumptions, parse_domain, parse_domains


def test_parameters_need_no_declaration() -> None:
    assert parse_domain("{ [i]: 0<=i<n }").is_equal(parse_domain("[n] -> { [i]: 0<=i<n }"))


def test_a_small_joint_domain_stays_joint() -> None:
    (domain,) = parse_domains("{ [i, j]: 0 <= i < n and 0 <= j < m }")
    assert dim_names(domain) == ("i", "j")


def _many(count: int, extra: str = "") -> str:
    bounds = " and ".join(f"0 <= i{k} < n" for k in range(count))
    return f"{{ [{', '.join(f'i{k}' for k in range(count))}]: {bounds}{extra} }}"


def test_very_many_loops_are_read_apart() -> None:
    parts = parse_domains(_many(40))
    assert [dim_names(part) for part in parts] == [(f"i{k}",) for k in range(40)]


def test_loops_that_meet_in_a_condition_stay_together() -> None:
    parts = parse_domains(_many(40, " and i3 + i7 < n and n >= 2"))
    assert ("i3", "i7") in [dim_names(part) for part in parts]


def test_per_iteration_means_the_same_set() -> None:
    text = _many(17, " and i0, i1 <= i2 and n >= 4")
    product = isl.Set("[n] -> { [] }")
    for part in parse_domains(text):
        product = product.flat_product(isl.Set.from_basic_set(part))
    whole = isl.Set(f"[n] -> {text}")
    order = isl.Map(
        f"{{ [{', '.join(dim_names(product))}] -> [{', '.join(f'i{k}' for k in range(17))}] }}"
    )
    assert product.apply(order).is_equal(whole)


def test_a_broken_domain_says_how_one_reads() -> None:
    with pytest.raises(KgenError, match="a domain reads"):
        parse_domain("{ [i: 0<=i<n }")


def test_assumptions_are_sets_of_parameters() -> None:
    assert parse_assumptions("n >= 1").is_equal(isl.Set("[n] -> { : n >= 1 }"))


@pytest.mark.parametrize(
    ("text", "mend"),
    [
        ("[i]: 0<=i<n", "a set is written in braces"),
        ("{i: 0<=i<n}", "the loop variables of a set are written in brackets"),
        ("{[i] 0<=i<n}", "a colon follows"),
        ("{[i]: 0<=i<n and i%2 == 0}", "an equation has one '='"),
        ("{[i]: 0<=i<n*m}", "pass a product of names as a parameter"),
        ("{[i]: 0<=i<f(n)}", "compute the value ahead"),
        ("{[i]: 0<=i<N[0]}", "assign it to a temporary"),
        ("{[i]: 0<i<n-1, 0<j<n}", "conditions that are not joined by 'and'"),
        ("{[i]: 0<=i<n; [j]: 0<=j<n}", "are a list of texts"),
        ("[m] -> {[i]: 0<=i<n}", "in front"),
    ],
)
def test_what_isl_does_not_read_has_a_mend(text: str, mend: str) -> None:
    with pytest.raises(KgenError) as info:
        parse_domain(text)
    assert mend in str(info.value)


def test_commas_join_operands() -> None:
    text = "{ [i, j]: 0 <= i, j < n and 0 <= i + j <= m - 1, n }"
    assert parse_domain(text).is_equal(
        parse_domain("{ [i, j]: 0 <= i < n and 0 <= j < n and 0 <= i + j < m and i + j <= n }")
    )


def test_assumptions_that_never_hold_are_refused() -> None:
    with pytest.raises(KgenError, match="not joined by 'and'"):
        parse_assumptions("n > 1, m > 1")
    with pytest.raises(KgenError, match="'n > 1 and n < 1' holds for no values"):
        parse_assumptions("n > 1 and n < 1")
    with pytest.raises(KgenError, match="an assumption is text or a set, not 3"):
        parse_assumptions(3)
