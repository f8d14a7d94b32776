"""Functions of map_instructions that return nonsense, and priorities of loops that do not exist."""

from __future__ import annotations

from typing import Any

import pymbolic.primitives as p
import pytest

import kgen as lp


def two_loops(**settings: Any) -> lp.TranslationUnit:
    args = [lp.GlobalArg("a", "float32", shape="n, n"), ...]
    return lp.make_kernel("{ [i, j]: 0 <= i, j < n }", "a[i, j] = i", args, name="knl", **settings)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"assignee": p.Variable("i")}, "'i' cannot be assigned to: it is an iname"),
        ({"assignee": p.Variable("n")}, "'n' cannot be assigned to: it is a parameter"),
        ({"within_inames": frozenset()}, "uses 'i', and is not inside of this loop"),
        ({"expression": p.Subscript(5, 1)}, "5 in instruction .* has subscripts"),
    ],
)
def test_an_instruction_that_no_code_can_run_is_refused(changes: Any, problem: str) -> None:
    with pytest.raises(lp.KgenError, match=problem) as info:
        lp.map_instructions(two_loops(), None, lambda insn: insn.copy(**changes))
    assert "in kernel 'knl'" in str(info.value)
    assert "hint:" in str(info.value)


def fail(insn: lp.InstructionBase) -> lp.InstructionBase:
    raise ZeroDivisionError


def test_what_the_function_raises_is_passed_on() -> None:
    with pytest.raises(ZeroDivisionError):
        lp.map_instructions(two_loops(), None, fail)


@pytest.mark.parametrize("priority", ["zz", "j,zz,i", ["zz"], {("zz", "i")}])
def test_a_priority_of_a_loop_that_does_not_exist_warns(priority: Any) -> None:
    with pytest.warns(lp.KgenWarning, match="loop_priority has 'zz', which is no iname"):
        knl = two_loops(loop_priority=priority)
    assert knl["knl"].loop_priority == ((("j", "i"),) if priority == "j,zz,i" else ())


@pytest.mark.parametrize("priority", ["", ",", [[]], [""]])
def test_an_empty_priority_is_none(priority: Any) -> None:
    assert two_loops(loop_priority=priority)["knl"].loop_priority == ()


@pytest.mark.parametrize(("predicates", "runs"), [(None, 1), ([5], 1), ([2.5], 1), ([5, 0], 0)])
def test_numbers_are_conditions(predicates: Any, runs: int) -> None:
    knl = lp.make_kernel("{ [i]: 0 <= i < 3 }", "out[i] = 1", target=lp.ExecutableCTarget())
    knl = lp.map_instructions(knl, None, lambda insn: insn.copy(predicates=predicates))
    _, (out,) = knl()
    assert out.tolist() == [runs] * 3


@pytest.mark.parametrize("predicate", [None, object(), b"x", (), ""])
def test_other_objects_are_no_conditions(predicate: Any) -> None:
    knl = lp.make_kernel("{ [i]: 0 <= i < 3 }", "out[i] = 1")
    with pytest.raises(lp.KgenError, match=r"condition of an instruction|expected an expression"):
        lp.map_instructions(knl, None, lambda insn: insn.copy(predicates=[predicate]))
