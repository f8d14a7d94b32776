"""Conditions that say something of each other: else branches, and what is shared comes once."""

from __future__ import annotations

import textwrap
from typing import Any

import numpy as np
import pytest

import kgen as lp
from kgen.ast import merge


def body(unit: lp.TranslationUnit) -> str:
    unit = lp.add_dtypes(unit, {"a": np.float32})
    return textwrap.dedent(lp.generate_body(unit))


def choice() -> lp.TranslationUnit:
    text = """
        <> x = a[i]
        if x > 3
            if x > 5
                out[i] = 1
            else
                out[i] = 2
            end
            b[i] = 7
        elif x > 2
            out[i] = 3
        else
            out[i] = 4
        end
        """
    return lp.make_kernel("{[i]: 0 <= i < n}", text, target=lp.ExecutableCTarget())


def test_alternatives_are_asked_about_once() -> None:
    branches = """
          if (x > 3.0f)
          {
            if (x > 5.0f)
              out[i] = 1;
            else
              out[i] = 2;
            b[i] = 7;
          }
          else if (x > 2.0f)
            out[i] = 3;
          else
            out[i] = 4;
        }
        """
    assert body(choice()).endswith(textwrap.dedent(branches).lstrip("\n").rstrip())


def test_alternatives_do_what_they_say() -> None:
    a = np.array([6, 4, 2.5, 0, np.nan], np.float32)
    b = np.zeros(5, np.int32)
    _, result = choice()(a=a, b=b, n=5)
    by_name = dict(zip(("b", "out"), result, strict=True))
    np.testing.assert_array_equal(by_name["out"], [1, 2, 3, 4, 4])
    np.testing.assert_array_equal(by_name["b"], [7, 7, 0, 0, 0])


def test_a_condition_whose_data_changes_is_asked_about_again() -> None:
    knl = lp.make_kernel(
        "{[i]: 0 <= i < n}",
        ["a[i] = -a[i] {if=a[i] > 0, id=one}", "b[i] = 1 {if=not (a[i] > 0), dep=one, id=two}"],
    )
    assert body(knl).count("if (") == 2
    assert "else" not in body(knl)


@pytest.mark.parametrize(("one", "two"), [("i == m", "i != m"), ("i < m", "i >= m")])
def test_what_is_not_so_is_otherwise(one: str, two: str) -> None:
    args = [lp.ValueArg("m", np.int32), ...]
    text = [f"b[i] = 1 {{if={one}}}", f"b[i] = a[i] {{if={two}}}"]
    knl = lp.make_kernel("{[i]: 0 <= i < n}", text, args, target=lp.ExecutableCTarget())
    a = np.arange(9, dtype=np.float32) + 10
    _, (b,) = knl(a=a, m=4)
    at = np.arange(9)
    np.testing.assert_array_equal(b, np.where(at == 4 if "=" in one else at < 4, 1, a))


def test_unequal_is_one_comparison() -> None:
    knl = lp.make_kernel("{[i, j]: 0 <= i, j < n}", "b[i, j] = a[j] {if=i != j}")
    assert "if (j != i)" in body(knl)


def test_variables_start_without_conditions() -> None:
    knl = lp.make_kernel("{[i, j, k]: 0 <= i, j, k < n}", "c[i, j] = sum(k, a[i, k]*a[k, j])")
    knl = lp.split_iname(knl, "i", 16, outer_tag="g.1", inner_tag="l.1")
    knl = lp.split_iname(knl, "j", 16, outer_tag="g.0", inner_tag="l.0")
    knl = lp.add_prefetch(lp.split_iname(knl, "k", 16), "a[k, j]", "k_inner, j_inner")
    assert "\nfloat acc_k_outer_k_inner = 0.0f;\nfor (" in body(knl).replace("\n  ", "\n")


def test_sums_inside_of_sums_stay_where_they_count() -> None:
    knl = lp.make_kernel(
        "{[i, j, k]: 0 <= i, j < n and 0 <= k < 3}",
        "p[i] = sum(j, if(i != j, 1/sum(k, (a[i, k] - a[j, k])**2), 0))",
        [lp.GlobalArg("a", shape="n, 3"), ...],
        target=lp.ExecutableCTarget(),
    )
    assert body(knl).count("!=") == 1
    assert "      acc_j += 1.0f / acc_k;" in body(knl)
    a = np.random.default_rng(1).random((5, 3))
    square = ((a[:, None] - a) ** 2).sum(axis=2) + np.diag([np.inf] * 5)
    _, (p,) = knl(a=a)
    np.testing.assert_allclose(p, (1 / square).sum(axis=1))


def test_a_tree_comes_once_for_bulk_and_slab(device: Any) -> None:
    knl = lp.make_kernel("{[i]: 0 <= i < n}", "out = sum(i, a[i])", assumptions="n >= 1")
    knl = lp.split_iname(knl, "i", 8, inner_tag="l.0", outer_tag="g.0", slabs=(0, 1))
    loads = """
        if (gid(0) + 1 < (n + 7) / 8)
          acc_i_outer_i_inner += a[8 * gid(0) + lid(0)];
        else if (8 * gid(0) + lid(0) < n)
          acc_i_outer_i_inner += a[8 * gid(0) + lid(0)];
        if (lid(0) >= 4)
        """
    typed = lp.add_dtypes(knl, {"a": np.float32})
    code = lp.generate_code_v2(typed).device_code()
    assert textwrap.indent(textwrap.dedent(loads).strip(), "  ") in code
    for n in (1, 8, 21):
        _, (out,) = device(knl, a=np.arange(n, dtype=np.float32))
        assert out == n * (n - 1) / 2


def test_names_that_nothing_uses_go() -> None:
    text = """
        <> x = a[i] {id=x}
        if i == n - 1
            last[0] = x {dep=x}
        end
        """
    knl = lp.make_kernel("{[i]: 0 <= i < n}", text, target=lp.ExecutableCTarget())
    knl = lp.split_iname(lp.add_dtypes(knl, {"a": np.float32}), "i", 4)
    assert "int const i_" not in lp.generate_body(knl)
    _, (last,) = knl(a=np.arange(7, dtype=np.float32))
    assert last == 6


def test_statements_under_one_condition_are_merged_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def merged(count: int) -> int:
        """Return how often neighbours are looked at, in loops under one condition."""
        asked: list[Any] = []
        named = merge._named

        def counted(node: Any) -> Any:
            asked.append(node)
            return named(node)

        monkeypatch.setattr(merge, "_named", counted)
        domains = ["{[i]: 0 <= i < n}", *(f"{{[j{k}]: 0 <= j{k} < 9}}" for k in range(count))]
        text = [f"out{k}[i, j{k}] = a[i]" for k in range(count)]
        knl = lp.make_kernel(domains, text)
        knl = lp.split_iname(knl, "i", 16, outer_tag="g.0", inner_tag="l.0")
        assert body(knl).count("if") == 1
        monkeypatch.undo()
        return len(asked)

    assert 0 < merged(40) < 2.3 * merged(20)


def test_guards_are_not_joined_across_a_change_of_what_they_read() -> None:
    knl = lp.make_kernel(
        ["{[b]: 0<=b<n}", "{[k]: 0<=k<e and k<2}", "{[l]: 0<=l<e and l<1}"],
        """
        for b
            <> e = cnt[b]
            out[b] = out[b] + k + 1
            e = e - 1  {if=e > 0}
            out[b] = out[b] + 10*(l + 1)
        end
        """,
        [lp.GlobalArg("cnt,out", np.int32, shape="n"), ...],
        seq_dependencies=True,
        target=lp.ExecutableCTarget(),
    )
    count, out = np.arange(4, dtype=np.int32), np.zeros(4, np.int32)
    lp.tag_inames(knl, "k:unr, l:unr")(cnt=count, out=out)
    assert out.tolist() == [0, 1, 13, 13]
