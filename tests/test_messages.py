"""What users read: messages in the words of what they wrote, and kernels in one line."""

from __future__ import annotations

import pytest

import kgen as lp


def test_kernels_and_programs_are_one_short_line() -> None:
    unit = lp.make_kernel("{ [i, j]: 0 <= i, j < n }", "out[i, j] = 2*a[i, j]", name="twice")
    assert repr(unit["twice"]) == "<kernel 'twice': 2 loops, 1 instruction, 3 arguments>"
    assert repr(unit) == "<program: <kernel 'twice': 2 loops, 1 instruction, 3 arguments>>"


def test_subscripts_that_are_no_loop_variables_are_named() -> None:
    with pytest.raises(lp.KgenError, match="'j' is an argument, and no loop variable: add it"):
        lp.make_kernel("{ [i]: 0 <= i < 8 }", "out[i, j] = 1.0*i")


def test_without_work_items_messages_speak_of_iterations() -> None:
    unit = lp.make_kernel(
        "{ [i, j]: 0 <= i, j < 8 }", ["out[i] = 1.0*i", "out[j] = 2.0*j"], target=lp.CTarget()
    )
    with pytest.raises(lp.VariableAccessNotOrdered) as caught:
        lp.generate_code_v2(unit)
    assert "an iteration with j = 0" in str(caught.value)
    assert "work-item" not in str(caught.value)
