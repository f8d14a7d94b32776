"""Loops that isl is asked for one by one."""

from __future__ import annotations

import islpy as isl
import pytest

import kgen as lp
from kgen.ast import levels
from kgen.ast.complete import build_ast
from kgen.ir.sets.dims import SetKey, without_param_constraints
from kgen.ir.stages import DeviceKernel
from kgen.schedule.to_isl import Nest


def questions(knl: lp.TranslationUnit, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the number of loops in each question to isl that the code of *knl* takes."""
    asked: list[int] = []

    def ask(kernel: DeviceKernel, nest: Nest) -> tuple[Nest, isl.AstNode]:
        asked.append(len(nest.loops))
        return build_ast(kernel, nest)

    monkeypatch.setattr(levels, "build_ast", ask)
    lp.generate_code_v2(knl)
    return asked


def test_equal_loops_of_a_nest_are_one_question(monkeypatch: pytest.MonkeyPatch) -> None:
    domain = "{[i, j, k]: 0 <= i, j, k < n and i, j, k <= m}"
    knl = lp.make_kernel(domain, "a[i, j, k] = 1", target=lp.CTarget())
    assert questions(lp.assume(knl, "n >= 1 and m >= 0"), monkeypatch) == [1]


def test_an_inner_loop_takes_the_outer_one_for_a_parameter(monkeypatch: pytest.MonkeyPatch) -> None:
    knl = lp.make_kernel("{[i, j]: 0 <= j <= i, m and i < n}", "a[i, j] = 1", target=lp.CTarget())
    assert questions(knl, monkeypatch) == [1]


def test_loops_from_one_bound_to_another_are_no_question(monkeypatch: pytest.MonkeyPatch) -> None:
    knl = lp.make_kernel(
        "{[i, j]: 0 <= j <= i < n}", ["a[i, j] = 1", "b[i] = 2"], target=lp.CTarget()
    )
    assert questions(knl, monkeypatch) == []


@pytest.mark.parametrize(
    ("given", "of_loop"),
    [
        ("(x - l) mod 16 = 0 and 0 <= x < m and m >= 3", "(x - l) mod 16 = 0 and 0 <= x < m"),
        ("0 <= x < m and (l - m) mod 5 = 2", "0 <= x < m"),
        ("x >= 0 and 2*floor(x/5) < m", None),
        ("3*floor(x/3) >= x - 1 and 9*floor(x/9) >= m and 9*floor(x/9) < l", None),
        ("exists (e: -3 <= e <= 0 and 16*e >= -x and 20*e <= 3 - x)", None),
    ],
)
def test_what_is_said_of_parameters_alone_is_no_matter_of_a_loop(
    given: str, of_loop: str | None
) -> None:
    texts = given, of_loop or given
    one, other = (isl.BasicSet(f"[l, m] -> {{ [x] : {text} }}") for text in texts)
    assert without_param_constraints(one).is_equal(other)


def test_nests_of_one_shape_are_one_question_where_strides_are_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    domains = [f"{{[{i}]: 0 <= {i} < n and {i} mod 3 = 1}}" for i in "ijk"]
    knl = lp.make_kernel(domains, [f"{n}[{i}] = 1" for n, i in zip("abc", "ijk", strict=True)])
    assert questions(knl, monkeypatch) == [1]


def test_sets_are_one_key_whatever_the_order_of_their_constraints() -> None:
    texts = "[n] -> { [i] : 0 <= i < n }", "[n] -> { [i] : i < n and i >= 0 }"
    one, same, other = (isl.Set(text) for text in (*texts, "[n] -> { [i] : 0 <= i <= n }"))
    assert len({SetKey(one), SetKey(same), SetKey(other)}) == 2


def test_a_quotient_of_numbers_in_a_bound_is_no_endless_question() -> None:
    domains = ["{ [i]: 0 <= i < n and i mod 2 = 0 }", "{ [u]: 0 <= u < 2 }"]
    knl = lp.make_kernel(domains, "out[i] = 7*u {if=i < u}", [lp.GlobalArg("out", shape="n"), ...])
    code = lp.generate_code_v2(lp.tag_inames(knl, "i:g.0")).device_code()
    assert "  if (gid(0) == 0)\n    out[gid(0)] = 7" in code
