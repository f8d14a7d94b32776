"""Which loop is around which."""

from __future__ import annotations

import pytest

import kgen as lp
from kgen.ir.stages import PreparedKernel
from kgen.schedule.place import schedule_kernel


def tree(unit: lp.TranslationUnit) -> str:
    text = str(schedule_kernel(PreparedKernel(unit.default_entrypoint)))
    return "\n".join(line[2:] for line in text.splitlines()[1:])


def test_a_loop_around_more_instructions_is_outside() -> None:
    knl = lp.make_kernel("{[i, j]: 0 <= i, j < n}", "a[i] = 0 {id=a}\nb[i, j] = 1 {id=b, dep=a}")
    assert tree(knl) == "for i\n  run a\n  for j\n    run b"


def test_the_declared_priority_decides_between_equals() -> None:
    knl = lp.make_kernel("{[i, j]: 0 <= i, j < n}", "a[i, j] = 0")
    assert tree(lp.prioritize_loops(knl, "j,i")) == "for j\n  for i\n    run insn"


def test_without_priority_the_unit_stride_is_innermost() -> None:
    knl = lp.make_kernel("{[i, j]: 0 <= i, j < n}", "a[j, i] = 0")
    assert tree(knl) == "for j\n  for i\n    run insn"


def test_priority_is_advice_where_inclusion_decides() -> None:
    knl = lp.make_kernel("{[i, j]: 0 <= i, j < n}", "a[i] = 0 {id=a}\nb[i, j] = 1 {id=b, dep=a}")
    assert tree(lp.prioritize_loops(knl, "j,i")).startswith("for i")


def test_priorities_combine_over_several_calls() -> None:
    knl = lp.make_kernel("{[i, j, k]: 0 <= i, j, k < n}", "a[i, j, k] = 0")
    knl = lp.prioritize_loops(lp.prioritize_loops(knl, "k,i"), "i,j")
    assert tree(knl) == "for k\n  for i\n    for j\n      run insn"


def test_contradicting_priorities_are_refused() -> None:
    knl = lp.make_kernel("{[i, j]: 0 <= i, j < n}", "a[i, j] = 0")
    knl = lp.prioritize_loops(lp.prioritize_loops(knl, "i,j"), "j,i")
    with pytest.raises(lp.KgenError, match="priorities of 'i', 'j' contradict"):
        tree(knl)


def test_overlapping_loops_are_refused_with_the_mend() -> None:
    knl = lp.make_kernel(
        "{[i, j]: 0 <= i, j < n}",
        "a[i] = 0 {id=a}\nb[i, j] = 1 {id=b}\nc[j] = 2 {id=c}",
    )
    with pytest.raises(lp.KgenError, match="duplicate_inames") as caught:
        tree(knl)
    assert "'b' is inside both" in str(caught.value)


def test_a_loop_whose_bounds_depend_on_another_goes_inside() -> None:
    knl = lp.make_kernel(["{[i]: 0 <= i < n}", "[i] -> {[j]: 0 <= j < i}"], "a[j, i] = 0")
    assert tree(knl) == "for i\n  for j\n    run insn"


def test_ordered_loops_go_outside() -> None:
    knl = lp.make_kernel("{[i, t]: 0 <= i, t < n}", "a[t, i] = 0")
    knl = lp.tag_inames(knl, {"i": "ord"})
    assert tree(knl).startswith("for i")


def test_the_error_names_the_value_that_brought_an_instruction_into_a_loop() -> None:
    knl = lp.make_kernel(
        "{[i, j, k]: 0 <= i, j, k < 8}",
        "t[k] = a[i, k] {id=fill}\nw[j] = a[j, 0] {id=w}\nout[j] = w[j]*t[j] {id=use}",
        silenced_warnings="*",
    )
    with pytest.raises(lp.KgenError, match="'use' does not use 'i', but reads 't'") as caught:
        tree(knl)
    assert "remove_inames_from_insn(kernel, 'i', 'id:use')" in str(caught.value)
    assert "for k" in tree(lp.remove_inames_from_insn(knl, "i", "id:use"))


def test_the_error_names_a_few_of_many_instructions() -> None:
    rows = "\n".join(f"a{n}[i] = 0 {{id=a{n}}}" for n in range(6))
    knl = lp.make_kernel("{[i, j]: 0 <= i, j < 8}", f"{rows}\nb[i, j] = 1\nc[j] = 2 {{id=c}}")
    with pytest.raises(lp.KgenError, match="'a0', 'a1', 'a2' and 3 others are only inside 'i'"):
        tree(knl)
