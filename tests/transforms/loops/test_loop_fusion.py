"""Loops that may become one."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import kgen as lp
from tests.transforms.helpers import assert_same_results

N = 6


def program(text: str, *domains: str) -> lp.TranslationUnit:
    arrays = lp.GlobalArg("a, b, c, d", np.float64, shape=(N + 2,))
    knl = lp.make_kernel([*domains], text, [arrays, ...])
    return lp.remove_unused_arguments(knl)


def found(knl: lp.TranslationUnit, loops: str) -> list[str]:
    groups = lp.get_kennedy_unweighted_fusion_candidates(knl, loops.split(","))
    return ["".join(sorted(group)) for group in groups.values()]


def check(knl: lp.TranslationUnit, loops: str, groups: list[str]) -> None:
    """Fuse, and see that the results stay."""
    assert found(knl, loops) == groups
    fused = lp.rename_inames_in_batch(
        knl, lp.get_kennedy_unweighted_fusion_candidates(knl, loops.split(","))
    )
    kernel = knl.default_entrypoint
    data = {arg.name: 1.0 + np.arange(N + 2) for arg in kernel.args if arg.name in "abcd"}
    assert_same_results(knl, fused, data)


IJ = f"{{ [i,j]: 0<=i,j<{N} }}"
PAIR = "b[i] = 2*a[i] {{id=b}}\nc[j] = {} {{id=c, dep=b}}"


@pytest.mark.parametrize(
    ("value", "groups"),
    [
        ("b[j]", ["ij"]),
        ("b[j] + a[j]", ["ij"]),
        ("b[j + 1]", ["i", "j"]),  # computed by a later iteration
        ("b[j - 1] if j > 0 else 0", ["ij"]),  # by an earlier one
        (f"b[{N - 1} - j]", ["i", "j"]),
    ],
)
def test_no_iteration_may_need_a_later_one(value: str, groups: list[str]) -> None:
    check(program(PAIR.format(value), IJ), "i,j", groups)


def test_what_is_read_before_it_is_overwritten() -> None:
    text = "b[i] = {} {{id=b, dep=*}}\na[j] = 0 {{dep=*b}}"
    check(program(text.format("a[i + 1]"), IJ), "i,j", ["ij"])
    check(program(text.format("a[i - 1] if i > 0 else 0"), IJ), "i,j", ["i", "j"])


def test_what_runs_between_two_loops_keeps_them_apart() -> None:
    text = "b[i] = a[i] {id=b}\nc[0] = sum(k, b[k]) {id=c, dep=b}\nd[j] = a[j] + c[0] {dep=c}"
    check(program(text, IJ, f"{{ [k]: 0<=k<{N} }}"), "i,j", ["i", "j"])


def test_loops_in_several_groups_run_in_their_order() -> None:
    """The third cannot be in the first group, since it waits for a later one."""
    text = "a[i] = 1 {id=a}\nb[j] = a[j+1] {id=b, dep=a}\nc[k] = b[k] {id=c, dep=b}\nd[l] = 2"
    knl = program(text, f"{{ [i,j,k,l]: 0<=i,j,k,l<{N} }}")
    check(knl, "i,j,k,l", ["il", "jk"])


@pytest.mark.parametrize("domain", [f"1<=j<{N}", f"0<=j<={N}", f"0<=j<{N} and j mod 2 = 0"])
def test_loops_with_other_values_stay_apart(domain: str) -> None:
    knl = program("b[i] = 1\nc[j] = 2", f"{{ [i]: 0<=i<{N} }}", f"{{ [j]: {domain} }}")
    check(knl, "i,j", ["i", "j"])


def test_tagged_loops_stay_apart_from_others() -> None:
    knl = lp.tag_inames(program("b[i] = 1\nc[j] = 2", IJ), "j:unr")
    assert found(knl, "i,j") == ["i", "j"]


def test_loops_around_both_count_once() -> None:
    text = """
        b[t] = 0           {id=z}
        b[t] = b[t] + i    {id=b, dep=z, inames=t:i}
        c[t] = b[t] + j    {id=c, dep=b, inames=t:j}
        """
    check(program(text, f"{{ [t,i,j]: 0<=t,i,j<{N} }}"), "i,j", ["i", "j"])
    check(
        program(text.replace("b[t] + j", "a[t] + j"), f"{{ [t,i,j]: 0<=t,i,j<{N} }}"), "i,j", ["ij"]
    )


def test_a_loop_around_one_only_keeps_them_apart() -> None:
    text = "a[t] = 7 {id=a}\nb[i] = a[t] {id=b, dep=a, inames=t:i}\nc[j] = j {id=c}"
    check(program(text, f"{{ [t,i,j]: 0<=t,i,j<{N} }}"), "i,j", ["i", "j"])


def test_the_loops_inside_need_not_be_the_same() -> None:
    knl = lp.make_kernel(
        "{ [i,j,k,l]: 0<=i,j,k,l<4 }", ["b[i,k] = a[i,k] {id=b}", "c[j,l] = b[j,3-l] {dep=b}"]
    )
    assert found(knl, "i,j") == ["ij"]
    assert found(knl, "k,l") == ["k", "l"]


def test_nested_candidates_are_refused() -> None:
    knl = program("b[i] = j", IJ)
    with pytest.raises(lp.TransformError, match="loops 'i' and 'j' cannot both be candidates"):
        found(knl, "i,j")


def test_any_chain_of_shifts_keeps_its_results() -> None:
    for shifts in itertools.product((0, 1), repeat=3):
        reads = [f"{x}[{y} + {s}]" for x, y, s in zip("abc", "ijk", shifts, strict=True)]
        text = "\n".join(
            f"{x}[{y}] = {read} {{id={x}, dep={dep}}}"
            for x, y, read, dep in zip("bcd", "ijk", reads, ("*", "b", "c"), strict=True)
        )
        knl = program(text, f"{{ [i,j,k]: 0<=i,j,k<{N} }}")
        groups = found(knl, "i,j,k")
        assert len(groups) == 1 + shifts[1] + shifts[2]
        check(knl, "i,j,k", groups)


PQST = f"{{ [i,p,q,s,t]: 0<=i,p,q,s,t<{N} }}"


@pytest.mark.parametrize(
    ("text", "loops", "groups"),
    [
        ("b[i] = sum(p, a[p]*i)\nc[i] = sum(s, 3*a[s])", "p,s", ["ps"]),
        ("b[i] = sum(p, a[p]) + i*sum(s, a[s])", "p,s", ["ps"]),
        (
            "b[i] = sum(p, sum(q, a[p]*a[q]))\nc[i] = sum(s, sum(t, a[t] + s))",
            "p,q,s,t",
            ["ps", "qt"],
        ),
        ("b[i] = sum((p, q), a[p]*a[q])\nc[i] = sum((s, t), a[t] + s)", "p,q,s,t", ["ps", "qt"]),
        ("b[i] = sum(p, sum(q, a[p]*a[q]))\nc[i] = sum(s, sum(t, a[t] + s))", "q,t", ["q", "t"]),
        ("<> x = sum(p, a[p]) {id=x}\nb[i] = x + sum(s, a[s]) {dep=x}", "p,s", ["p", "s"]),
        ("b[i] = sum(p, a[p]) {id=b}\nc[q] = sum(s, a[s])", "p,s", ["p", "s"]),
        ("b[i] = sum(p, a[p])\nc[i] = max(s, a[s])", "p,s", ["ps"]),
    ],
)
def test_loops_of_reductions(text: str, loops: str, groups: list[str]) -> None:
    check(program(text, PQST), loops, groups)


def test_loops_of_reductions_with_other_bounds_stay_apart() -> None:
    domain = f"{{ [i,p,q,s,t]: 0<=i,p,s<{N} and 0<=q<=p and 0<=t<=s+1 }}"
    text = "b[i] = sum(p, sum(q, a[q]))\nc[i] = sum(s, sum(t, a[t] + s))"
    assert found(program(text, domain), "p,q,s,t") == ["ps", "q", "t"]


def test_groups_of_reductions_do_not_wait_for_each_other() -> None:
    text = """
        <> x = sum(p, a[p]) {id=x}
        <> y = sum(s, a[s]) {id=y}
        b[i] = sum(q, a[q]) + x {id=b, dep=x}
        c[i] = sum(t, a[t]) + y {id=c, dep=y:b}
    """
    check(program(text, PQST), "p,q,s,t", ["ps", "q", "t"])
