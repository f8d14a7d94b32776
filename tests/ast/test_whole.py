"""Loops around unrolled copies: whole iterations have no guards."""

from __future__ import annotations

import textwrap
from typing import Any

import numpy as np
import pytest

import kgen as lp
from kgen import linalg
from kgen.ast import whole
from kgen.ast.nodes import print_tree
from kgen.lowering import lower
from tests.oracle import Oracle

F32 = np.float32


def product(tag: str = "unr", **kwargs: Any) -> lp.TranslationUnit:
    """Multiply matrices of any size: tiles of 4 x 4 in local memory, 2 x 2 sums in a work-item."""
    knl = lp.make_kernel(
        "{ [i, j, k]: 0 <= i, j, k < n }",
        "c[i, j] = sum(k, a[i, k]*b[k, j])",
        [lp.GlobalArg("a, b, c", F32, shape="n, n"), "..."],
        assumptions="n >= 1",
        **kwargs,
    )
    for name, axis in (("i", 1), ("j", 0)):
        knl = lp.split_iname(knl, name, 4, outer_tag=f"g.{axis}")
        knl = lp.split_iname(knl, f"{name}_inner", 2, inner_tag=f"l.{axis}", outer_tag="ilp")
    knl = lp.split_iname(knl, "k", 2, inner_tag=tag)
    outer = "i_outer, j_outer, k_outer"
    rows, columns = (f"{n}_inner_outer, {n}_inner_inner" for n in "ij")
    knl = lp.add_prefetch(knl, "a", f"{rows}, k_inner", fetch_outer_inames=outer)
    return lp.add_prefetch(knl, "b", f"k_inner, {columns}", fetch_outer_inames=outer)


def tree_of(unit: lp.TranslationUnit, *sizes: int) -> str:
    lowered = lower(unit.default_entrypoint)
    for n in sizes:
        Oracle(lowered.kernel, {"n": n}).check(lowered.functions)
    return "\n".join(print_tree(function.body) for function in lowered.functions)


def test_a_group_runs_whole_steps_without_guards() -> None:
    text = tree_of(product(), 1, 2, 3, 4, 5, 8, 9)
    head = """
        let k_outer_whole = n // 2 if 4*gid(1) + 3 < n and 4*gid(0) + 3 < n else 0
        for k_outer = 0 .. k_outer_whole
        """
    _, loops = text.split(textwrap.dedent(head).strip())
    inside, rest = loops.split("for k_outer = k_outer_whole .. (n + 1) // 2")
    assert "if " not in inside
    assert inside.count("_update(") == 2 * 2 * 2
    assert "for k_inner = 0 .. min(2, n - 2*k_outer)" in rest
    assert rest.count("_update(") == 2 * 2


@pytest.mark.parametrize("stages", [2, 3])
def test_pipelines_are_right_for_sizes_around_those_of_tiles(stages: int) -> None:
    knl = lp.pipeline(product(), "k_outer", stages, "a_fetch, b_fetch")
    assert tree_of(knl, 1, 2, 3, 4, 5, 7, 8).count("let k_outer_whole") == 2


@pytest.mark.parametrize("tag", ["unr", "for"])
@pytest.mark.parametrize("n", [1, 4, 7, 12, 13])
def test_products_of_any_size(device: Any, tag: str, n: int) -> None:
    a, b = np.random.default_rng(n).random((2, n, n), F32)
    _, (c,) = device(product(tag), a=a, b=b)
    np.testing.assert_allclose(c, a @ b, rtol=1e-5)


def scaled(length: int, domain: str = "0 <= i < n", **kwargs: Any) -> lp.TranslationUnit:
    text = "out[i + 9] = 2*i"
    knl = lp.make_kernel(f"{{ [i]: {domain} }}", text, target=lp.CTarget(), **kwargs)
    return lp.split_iname(knl, "i", length, inner_tag="unr")


def test_a_loop_ends_where_an_iteration_is_not_whole() -> None:
    copies = "".join(f"\n  insn(i_inner={k})" for k in range(8))
    assert tree_of(scaled(8), 0, 1, 8, 13, 16) == (
        "let i_outer_whole = max(0, n // 8)\n"
        f"for i_outer = 0 .. i_outer_whole{copies}\n"
        "for i_outer = i_outer_whole .. (n + 7) // 8\n"
        "  for i_inner = 0 .. min(8, n - 8*i_outer)\n"
        "    insn()"
    )


@pytest.mark.parametrize("domain", ["-8 <= i < n", "8 <= i < n", "0 <= i < n and i < m"])
def test_loops_may_begin_and_end_anywhere(domain: str) -> None:
    lowered = lower(scaled(8, domain).default_entrypoint)
    assert "whole" in print_tree(lowered.functions[0].body)
    for n, m in ((-9, -6), (-5, 3), (-3, -8), (0, 0), (5, 2), (8, 3), (9, 12), (23, 16), (16, 24)):
        Oracle(lowered.kernel, {"n": n, "m": m}).check(lowered.functions)


@pytest.mark.parametrize("layout", [{}, {"dim_tags": "N0,sep"}, {"dim_tags": "N0,vec"}])
def test_copies_stay_that_choose_a_variable(layout: dict[str, Any]) -> None:
    domains = ["{ [i]: 0 <= i < n }", "{ [l, s]: 0 <= l, s < 8 }"]
    text = """
        <> t[l] = a[i, l] {id=load}
        out[i, s] = t[7 - s] + 1 {dep=load,if=8*i + s < m}
        """
    data = [lp.GlobalArg("a, out", F32, shape="n, 8", **layout), lp.ValueArg("m", "int32")]
    knl = lp.make_kernel(domains, text, [*data, "..."], target=lp.CudaTarget())
    knl = lp.tag_inames(lp.assume(knl, "n >= 0"), "l:unr, s:unr")
    lowered = lower(knl.default_entrypoint)
    for m in (0, 2, 17, 24):
        Oracle(lowered.kernel, {"n": 3, "m": m}).check(lowered.functions)
    assert "for s" not in print_tree(lowered.functions[0].body)
    assert "i_whole" in lp.generate_body(knl)


def test_elements_of_separate_arrays_need_numbers() -> None:
    array = lp.GlobalArg("out", F32, shape="n, 8", dim_tags="N0,sep")
    domains = ["{ [i]: 0 <= i < n }", "{ [s]: 0 <= s < 8 }"]
    code = "out[i, s] = 1 {if=8*i + s < m}"
    knl = lp.make_kernel(domains, code, [array, lp.ValueArg("m", "int32"), "..."])
    assert lp.generate_body(lp.tag_inames(knl, "s:unr")).count("out_s7[i] = 1.0f") == 2


def test_few_and_many_copies_stay_under_guards(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "whole" not in tree_of(scaled(whole.MIN_GUARDED - 1))
    monkeypatch.setattr(whole, "MAX_COPIES", 15)
    assert "whole" not in tree_of(scaled(16))


def test_loops_that_are_never_whole_stay() -> None:
    assert "whole" not in tree_of(scaled(16, assumptions="n < 16"), 3, 15)


def test_loops_for_the_rest_alone_have_guards_in_no_second_version() -> None:
    knl = linalg.build("ij,jk->ik", [F32, F32], lp.ExecutableCTarget())
    code = lp.generate_body(lp.autoschedule(knl))
    assert "j_outer_whole" not in code
    assert code.count("for (int j_outer = 0; j_outer < (Nj + 255) / 256; ++j_outer)") == 2


def test_a_loop_without_a_largest_value_begins_where_whole_iterations_let_it() -> None:
    """Loop j ends at i + 1, for which there is no number; that it begins at 0 is known."""
    knl = lp.make_kernel(
        [
            "{ [i]: 0 <= i <= n and i mod 2 = 1 }",
            "{ [j, u]: i - 1 <= j <= i + 1 and 0 <= u < 4 }",
            "{ [f]: 1 <= f < 4 }",
            "{ [w]: 0 <= w < 4 }",
        ],
        """
        t[f - 1] = i {id=t, inames=i:j:f}
        v[w] = t[1] - k[w] {id=v, dep=t, inames=i:j:w}
        out[j, u, i] = v[3 - u] + v[0] {dep=v, inames=i:j:u}
        """,
        [
            lp.TemporaryVariable("t", "int32", shape="3"),
            lp.TemporaryVariable("v", "int32", shape="4"),
            lp.GlobalArg("k", "int32", shape="4"),
            lp.GlobalArg("out", "int32", shape="n + 4, 4, n + 2"),
            "...",
        ],
        assumptions="n >= 0 and n mod 3 = 0",
        target=lp.CTarget(),
    )
    knl = lp.split_iname(knl, "i", 4, inner_tag="ilp", slabs=(1, 0))
    assert not lp.verify(knl).violated
