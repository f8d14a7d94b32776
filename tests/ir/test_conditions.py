"""Branches whose instructions change what conditions read."""

from __future__ import annotations

import numpy as np
import pytest

import kgen as lp
from tests.transforms.helpers import run

A = lp.GlobalArg("a", np.float64, shape="n")


def branches(text: str) -> lp.TranslationUnit:
    return lp.make_kernel("{ [i]: 0<=i<n }", f"for i\n{text}\nend", [A, ...])


@pytest.mark.parametrize(
    "text",
    [
        "if a[i] > 2\na[i] = 0\nelse\na[i] = 1\nend",
        "if a[i] > 2\na[i] = 0\nelif i > 1\na[i] = 1\nend",
        "if a[i] > 2\na[i] = 0\nb[i] = 1\nend",
        "if a[i] > 2\nif i > 1\na[i] = 0\nend\nb[i] = 1\nend",
    ],
)
def test_a_changed_condition_of_a_later_instruction_is_refused(text: str) -> None:
    with pytest.raises(lp.KernelError, match="changes a value that the condition of") as error:
        branches(text)
    assert "<> kept = a[i] > 2" in str(error.value)


@pytest.mark.parametrize(
    "condition", ["if t < 9\nb[i] = t {id=b, dep=t}\nend", "b[i] = t {id=b, dep=t, if=t < 9}"]
)
def test_conditions_inside_of_a_branch_read_what_the_branch_computes(condition: str) -> None:
    text = f"if a[i] > 1\n<> t = a[i]**2 {{id=t}}\n{condition}\nend"
    data = [A, lp.GlobalArg("b", np.float64, shape="n"), ...]
    knl = lp.make_kernel("{ [i]: 0<=i<n }", f"for i\n{text}\nend", data)
    results = run(knl, a=np.arange(5.0), b=np.zeros(5))
    assert results["b"].tolist() == [0, 0, 4, 0, 0]
    knl = lp.split_iname(knl, "i", 2, inner_tag="unr")
    assert run(knl, a=np.arange(5.0), b=np.zeros(5))["b"].tolist() == [0, 0, 4, 0, 0]


def test_a_condition_that_a_branch_changes_is_refused_inside_of_it_too() -> None:
    with pytest.raises(lp.KernelError, match="the condition of 'b"):
        branches("if a[i] > 2\na[i] = 0\nif a[i] > 2\nb[i] = 1\nend\nend")


def test_what_the_error_proposes_works() -> None:
    text = """
        <> kept = a[i] > 2 {id=kept, dep=*}
        if kept
            a[i] = 0       {id=set, dep=*kept}
        else
            a[i] = 1       {dep=*set:kept}
        end
        """
    assert run(branches(text), a=np.arange(5.0))["a"].tolist() == [1, 1, 1, 0, 0]


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("if a[i] > 2\na[i] = 0 {dep=*}\nend", [0, 1, 2, 0, 0]),
        (
            "if i > 2\na[i] = 0 {id=x, dep=*}\nelif a[i] > 1\na[i] = 7 {dep=*x}\nend",
            [0, 1, 7, 0, 0],
        ),
        (
            "if a[i] > 2\n<> t = a[i] {id=t, dep=*}\na[i] = t + 1 {dep=*t}\nend",
            [0, 1, 2, 4, 5],
        ),
    ],
)
def test_the_last_instruction_may_change_a_condition(text: str, after: list[float]) -> None:
    assert run(branches(text), a=np.arange(5.0))["a"].tolist() == after


def test_loops_see_the_changed_condition_in_the_next_iteration() -> None:
    text = """
        <> x = a[i] {id=x, dep=*}
        for k
            if x > 1
                x = x - 1 {id=less, dep=x}
            end
        end
        a[i] = x {dep=*less}
        """
    knl = lp.make_kernel("{ [i,k]: 0<=i<n and 0<=k<10 }", f"for i\n{text}\nend", [A, ...])
    assert run(knl, a=np.arange(5.0) + 0.5)["a"].tolist() == [0.5] * 2 + [0.5] * 3
