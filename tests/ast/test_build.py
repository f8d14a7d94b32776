"""Golden code trees: loops, guards, slabs and unrolled copies as an expert would write."""

from __future__ import annotations

import textwrap
from typing import Any

import pytest

import kgen as lp
from kgen.ast.nodes import print_tree
from kgen.lowering import lower
from tests.oracle import Oracle


def code(unit: lp.TranslationUnit) -> str:
    (function,) = lower(unit.default_entrypoint, {"a": "float32"}).functions
    return print_tree(function.body)


def fill(**kwargs: Any) -> lp.TranslationUnit:
    return lp.make_kernel("{[i]: 0 <= i < n}", "a[i] = 0", **kwargs)


def expect(unit: lp.TranslationUnit, text: str) -> None:
    assert code(unit) == textwrap.dedent(text).strip()


def test_a_loop_has_an_exclusive_bound() -> None:
    expect(fill(), "for i = 0 .. n\n  insn()")


def test_a_split_loop_is_bounded_by_a_minimum() -> None:
    expect(
        lp.split_iname(fill(), "i", 16),
        """
        for i_outer = 0 .. (n + 15) // 16
          for i_inner = 0 .. min(16, n - 16*i_outer)
            insn()
        """,
    )


def test_a_divisibility_assumption_removes_the_minimum() -> None:
    expect(
        lp.split_iname(fill(assumptions="n >= 0 and n mod 16 = 0"), "i", 16),
        """
        for i_outer = 0 .. n // 16
          for i_inner = 0 .. 16
            insn()
        """,
    )


@pytest.mark.parametrize(
    ("domain", "guard"),
    [
        ("0 <= i < n", "if 9*gid(0) + lid(0) + 6 < n"),
        ("m <= i < n", "9*gid(0) + 9*m // 9 + lid(0) + 6 < n"),
    ],
)
def test_guards_of_copies_that_are_blocks_apart_are_those_of_the_elements(
    domain: str, guard: str
) -> None:
    args = [lp.GlobalArg("a", shape="n"), lp.ValueArg("m, n"), ...]
    knl = lp.make_kernel(f"{{[i]: {domain}}}", "a[i] = i", args, assumptions="m >= 0 and n >= 1")
    knl = lp.split_iname(knl, "i", 9, outer_tag="g.0")
    knl = lp.split_iname(knl, "i_inner", 3, outer_tag="unr", inner_tag="l.0")
    assert guard in code(knl)
    lowered = lower(knl.default_entrypoint, {"a": "float32"})
    for n in range(1, 21):
        Oracle(lowered.kernel, {"m": n // 3, "n": n}).check(lowered.functions)


def test_unrolled_copies_have_flat_guards_and_the_first_none() -> None:
    expect(
        lp.split_iname(fill(assumptions="n >= 0"), "i", 4, inner_tag="unr"),
        """
        for i_outer = 0 .. (n + 3) // 4
          insn(i_inner=0)
          if 4*i_outer + 1 < n
            insn(i_inner=1)
          if 4*i_outer + 2 < n
            insn(i_inner=2)
          if 4*i_outer + 3 < n
            insn(i_inner=3)
        """,
    )


def test_a_final_slab_leaves_the_bulk_without_guards() -> None:
    text = code(lp.split_iname(fill(), "i", 4, slabs=(0, 1), inner_tag="unr"))
    bulk, slab = text.split("let i_outer")
    assert bulk.count("if") == 1
    assert slab.count("if") == 3


def test_bounds_in_a_slab_are_those_of_elements() -> None:
    knl = lp.split_iname(fill(assumptions="n >= 1"), "i", 4, slabs=(0, 1), inner_tag="unr")
    assert "if 4*i_outer + 3 < n" in code(knl)
    knl = lp.split_iname(fill(assumptions="n >= 1"), "i", 4, slabs=(0, 1))
    slab = "let i_outer = (n - 1) // 4\nfor i_inner = 0 .. n - 4*i_outer\n  insn()"
    assert code(knl).endswith(slab)


def test_axes_of_one_work_item_are_not_read() -> None:
    knl = lp.split_iname(fill(), "i", 1, outer_tag="g.0", inner_tag="l.0")
    expect(knl, "insn(i_outer=gid(0), i_inner=0)")


def test_hardware_axes_have_no_loop_and_one_guard() -> None:
    expect(
        lp.split_iname(fill(), "i", 128, outer_tag="g.0", inner_tag="l.0"),
        """
        if 128*gid(0) + lid(0) < n
          insn(i_outer=gid(0), i_inner=lid(0))
        """,
    )


def test_neighbours_share_their_guard() -> None:
    knl = lp.make_kernel("{[i]: 0 <= i < n}", "b[i] = 1\na[i] = 0")
    knl = lp.split_iname(knl, "i", 128, outer_tag="g.0", inner_tag="l.0")
    assert code(knl).count("if") == 1


def test_nests_of_one_shape_share_one_question_to_isl() -> None:
    knl = lp.make_kernel("{[i, j]: 0 <= i, j < n}", "a[i] = 1\na[j] = 2 {dep=insn}")
    expect(
        knl,
        """
        for i = 0 .. n
          insn()
        for j = 0 .. n
          insn_0()
        """,
    )


def test_an_affine_condition_becomes_a_bound() -> None:
    expect(
        lp.make_kernel("{[i]: 0 <= i < n}", "a[i] = 0 {if=i > 3}"),
        "for i = 4 .. n\n  insn()",
    )


def test_a_data_dependent_condition_stays_a_condition() -> None:
    knl = lp.make_kernel("{[i]: 0 <= i < n}", "b[i] = 0 {if=a[i] > 0.5}")
    assert "if a[i] > 0.5" in code(knl)


def test_a_triangle_has_dependent_bounds() -> None:
    knl = lp.make_kernel("{[i, j]: 0 <= i < n and 0 <= j <= i}", "a[i, j] = 0")
    expect(knl, "for i = 0 .. n\n  for j = 0 .. i + 1\n    insn()")


def test_slabs_of_work_groups_leave_the_bulk_without_guards() -> None:
    knl = lp.split_iname(fill(), "i", 128, outer_tag="g.0", inner_tag="l.0", slabs=(0, 1))
    expect(
        knl,
        """
        if gid(0) + 1 < (n + 127) // 128
          insn(i_outer=gid(0), i_inner=lid(0))
        else
          if 128*gid(0) + lid(0) < n
            insn(i_outer=gid(0), i_inner=lid(0))
        """,
    )


@pytest.mark.parametrize("n", [1, 4, 5, 8, 9, 13])
@pytest.mark.parametrize("slabs", [(0, 1), (1, 0), (1, 1), (2, 3)])
def test_slabs_of_work_groups_run_everything_once(n: int, slabs: tuple[int, int]) -> None:
    knl = lp.make_kernel("{[i, j]: 0 <= i, j < n}", "a[i, j] = 0", target=lp.CudaTarget())
    knl = lp.split_iname(knl, "i", 4, outer_tag="g.1", inner_tag="l.1", slabs=slabs)
    knl = lp.split_iname(knl, "j", 4, outer_tag="g.0", inner_tag="unr", slabs=slabs)
    lowered = lower(knl.default_entrypoint, {"a": "float32"})
    Oracle(lowered.kernel, {"n": n}).check(lowered.functions)


def test_a_condition_is_a_bound_also_next_to_a_strided_loop() -> None:
    args = [lp.GlobalArg("a", shape=("n", "n")), ...]
    domain = "{[i, j]: 0 <= i, j < n and i mod 3 = 0}"
    knl = lp.make_kernel(domain, "a[i, j] = 0 {if=j<i}", args, assumptions="n >= 0")
    expect(knl, "for i = 3 .. n by 3\n  for j = 0 .. i\n    insn()")


def test_launches_are_passed_what_their_conditions_say() -> None:
    text = """
        a[i] = 1  {id=first}
        ... gbarrier  {id=wait, dep=first}
        b[i] = 2  {dep=wait, if=i >= n}
        """
    data = [lp.ValueArg("n, m", "int32"), lp.GlobalArg("a, b", "int32"), ...]
    knl = lp.make_kernel("{ [i]: 0 <= i < 1 }", text, data, assumptions="0 <= m <= n")
    code = lp.generate_code_v2(lp.tag_inames(knl, "i:g.0")).device_code()
    assert "if (n == 0)" in code
    assert "kgen_kernel_0(int const n, __global" in code


def test_a_launch_names_no_loop_of_another_launch() -> None:
    text = """
        for k
            ... gbarrier                         {id=b}
            a[i, k] = k {id=w, dep=b, inames=i:k, if=i != k}
            ... gbarrier                         {id=c, dep=w}
            out[i, k] = k {id=r, dep=c, inames=i:k}
        end
        """
    args = [lp.GlobalArg("a, out", "int32", shape="8, 6"), ...]
    knl = lp.make_kernel("{ [k, i]: 3 <= k < 6 and 0 <= i < 8 }", text, args)
    knl = lp.split_iname(lp.split_iname(knl, "k", 4), "k_outer", 3)
    knl = lp.tag_inames(knl, "i:l.0, k_outer_inner:ilp.seq")
    knl = lp.duplicate_inames(knl, "k_inner", within="id:r or id:c")
    _, first, second = lp.generate_code_v2(knl).device_code().split("__kernel ")
    assert "k_inner_0" not in first
    assert "k_outer_inner = 1 - (k_inner_0 + 2) / 4" in second
