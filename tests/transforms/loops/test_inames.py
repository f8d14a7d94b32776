"""Instructions moved into and out of loops; nesting."""

from __future__ import annotations

import pytest

import kgen as lp
from kgen.transforms.loops.inames import (
    add_inames_for_unused_hw_axes,
    add_inames_to_insn,
    get_iname_duplication_options,
    has_schedulable_iname_nesting,
    remove_inames_from_insn,
    remove_unused_inames,
)
from kgen.transforms.loops.rename import duplicate_inames
from tests.transforms.helpers import domain, instructions, kernel_of, same_set


def two() -> lp.TranslationUnit:
    text = ["a[i] = 0 {id=one}", "b[i, j] = sum(k, c[k]) {id=two}"]
    return lp.make_kernel("{[i, j, k]: 0 <= i, j, k < 8}", text)


def test_instructions_enter_loops() -> None:
    assert instructions(add_inames_to_insn(two(), "j", "id:one"))[0] == "i,j: a[i] = 0"
    with pytest.raises(lp.TransformError, match="'two' reduces over 'k' and cannot be inside"):
        add_inames_to_insn(two(), frozenset("k"), "id:two")


def test_instructions_leave_loops_that_they_do_not_need() -> None:
    knl = add_inames_to_insn(two(), "j", "id:one")
    assert instructions(remove_inames_from_insn(knl, frozenset("j"), "id:one"))[0] == "i: a[i] = 0"
    with pytest.raises(lp.TransformError, match="instruction 'one' cannot leave loop 'i'"):
        remove_inames_from_insn(knl, "i", "id:one")


def test_unused_loops_are_projected_out() -> None:
    knl = lp.make_kernel("{[i, j, k]: 0 <= i < n and i <= 2*j < m and 0 <= k < 4}", "a[i] = 0")
    knl = lp.prioritize_loops(knl, "i,j")
    left = kernel_of(remove_unused_inames(knl))
    assert (set(left.inames), left.loop_priority) == ({"i"}, ())
    before = domain(knl, "i")
    assert same_set(domain(left, "i"), str(before))
    assert set(kernel_of(remove_unused_inames(knl, "k")).inames) == {"i", "j"}
    assert remove_unused_inames(two()) is not None


def test_a_loop_that_bounds_another_is_used() -> None:
    knl = lp.make_kernel(
        ["{[i]: 0 <= i < n}", "{[j]: 0 <= j < i}", "{[k]: 0 <= k < 4}"], "a[j] = 0 {inames=j}"
    )
    assert set(kernel_of(remove_unused_inames(knl)).inames) == {"i", "j"}
    assert set(kernel_of(remove_unused_inames(knl, "i")).inames) == {"i", "j", "k"}
    assert len(kernel_of(remove_unused_inames(knl)).domains) == 2


def crossed() -> lp.TranslationUnit:
    text = ["a[i, j] = 0 {id=both}", "b[j] = 0 {id=only_j}", "c[i] = 0 {id=only_i}"]
    return lp.make_kernel("{[i, j]: 0 <= i, j < 8}", text)


def test_loops_that_cross_do_not_nest() -> None:
    assert has_schedulable_iname_nesting(two())
    assert not has_schedulable_iname_nesting(crossed())
    assert has_schedulable_iname_nesting(lp.tag_inames(crossed(), "i:g.0"))


def test_each_option_lets_crossed_loops_nest() -> None:
    options = list(get_iname_duplication_options(crossed()))
    assert [(iname, str(within)) for iname, within in options] == [
        ("i", "(id:both)"),
        ("i", "(id:only_i)"),
        ("j", "(id:both)"),
        ("j", "(id:only_j)"),
    ]
    for iname, within in options:
        assert has_schedulable_iname_nesting(duplicate_inames(crossed(), iname, within))
    assert not list(get_iname_duplication_options(two()))


def test_missing_hardware_axes_are_added() -> None:
    knl = lp.tag_inames(crossed(), "i:l.0, j:l.1")
    assert [text.split(":")[0] for text in instructions(add_inames_for_unused_hw_axes(knl))] == (
        ["i,j", "i,j", "i,j"]
    )
    part = add_inames_for_unused_hw_axes(knl, within="id:only_i")
    assert [text.split(":")[0] for text in instructions(part)] == ["i,j", "j", "i,j"]


def test_an_axis_with_several_inames_is_no_choice() -> None:
    text = ["a[i] = 0 {id=a}", "b[j] = 0 {id=b}", "c[0] = 1 {id=c}"]
    knl = lp.tag_inames(lp.make_kernel("{[i, j]: 0 <= i, j < 8}", text), "i:l.0, j:l.0")
    with pytest.raises(lp.TransformError, match=r"'c' is not on axis 'l\.0', which has 2 inames"):
        add_inames_for_unused_hw_axes(knl)


def test_the_hint_for_an_axis_leaves_out_no_instance() -> None:
    """Loop ``i`` has no value where ``k`` is 5, and ``r`` always has."""
    domain = ["{[k]: 0 <= k < 6}", "{[i]: k < i < 6}", "{[r]: 0 <= r < 6}"]
    text = ["a[k, i] = 0 {id=a}", "c[k] = 1 {id=c}", "b[r] = 1 {id=b}"]
    knl = lp.tag_inames(lp.make_kernel(domain, text), "i:l.0, r:l.0")
    with pytest.raises(lp.TransformError, match=r"add_inames_to_insn\(kernel, 'r', 'id:c'\)"):
        add_inames_for_unused_hw_axes(knl)
    with pytest.raises(lp.ScheduleError, match=r"add_inames_to_insn\(kernel, 'r', 'id:c'\)"):
        lp.generate_body(knl)
    knl = lp.tag_inames(knl, "r:for", force=True)
    with pytest.raises(lp.ScheduleError, match="in others, 'i' among them, some of its instances"):
        lp.generate_body(knl)


def test_every_way_to_divide_loops_that_do_not_nest() -> None:
    rows = ["i:j:k:l:m", "j:k:l:m", "k:l:m", "i:l:m", "m"]
    text = [f"a{n}[l, m] = 1 {{inames={inames}, id=s{n}}}" for n, inames in enumerate(rows[:4])]
    knl = lp.make_kernel("{ [i,j,k,l,m]: 0<=i,j,k,l,m<4 }", text, silenced_warnings="overwritten*")
    options = [(name, str(within)) for name, within in lp.get_iname_duplication_options(knl)]
    assert len(set(options)) == len(options) == 10
    assert [name for name, _ in options] == ["i"] * 2 + ["j"] * 2 + ["k"] * 6
    assert ("k", "(id:s0) or (id:s2)") in options or ("k", "(id:s0 or id:s2)") in options


def test_what_does_not_nest_may_be_inside_of_what_does() -> None:
    text = [
        f"a{n}[m] = 1 {{inames={loops}}}" for n, loops in enumerate(["m:i:j", "m:i", "m:j", "k"])
    ]
    domain = "{ [i,j,k,m]: 0<=i,j,k,m<4 }"
    knl = lp.make_kernel(domain, text[:3], silenced_warnings="overwritten*")
    assert not lp.has_schedulable_iname_nesting(knl)
    for name, within in lp.get_iname_duplication_options(knl):
        assert name in "ij"
        assert lp.has_schedulable_iname_nesting(lp.duplicate_inames(knl, name, within))
    nested = lp.make_kernel(domain, text[:2], silenced_warnings="overwritten*")
    assert [*lp.get_iname_duplication_options(nested)] == []
