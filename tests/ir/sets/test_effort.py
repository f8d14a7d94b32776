"""isl gives up after so many operations, and what is asked of it then is refused."""

from __future__ import annotations

import contextlib

import islpy as isl
import pytest

import kgen as lp
from kgen.ir.sets import effort
from kgen.ir.sets.effort import answer


def hard() -> isl.Set:
    """Take isl more than a few operations."""
    return isl.Set("[n] -> {[i, j]: 0 <= i < n and i <= j < 9 and (i + j) mod 3 = 1}").lexmin()


def test_a_question_has_no_answer_where_isl_needs_more() -> None:
    assert answer(hard, 50) is None
    found = answer(hard)
    assert found is not None
    assert not found.is_empty()


def test_an_error_taken_for_another_one_does_no_harm() -> None:
    def least_if_any() -> object:
        with contextlib.suppress(isl.Error):  # as if there were none
            return hard()
        return "none"

    assert answer(least_if_any, 50) is None


def test_a_limit_around_another_one_is_in_force_again() -> None:
    def more_than_there_is() -> isl.Set:
        assert answer(hard, 10**6) is None
        return hard()

    assert answer(more_than_there_is, 50) is None
    assert not hard().is_empty()  # behind both there is none


def test_steps_that_take_too_long_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    knl = lp.make_kernel("{[i]: 0 <= i < n}", "a[i] = i", [lp.GlobalArg("a", "int32"), ...])
    monkeypatch.setattr(effort, "STEP", 1)
    monkeypatch.setattr(effort, "STEP_PER_INSTRUCTION", 10)
    with pytest.raises(lp.TransformError, match=r"'kgen_kernel': split_iname takes isl too long"):
        lp.split_iname(knl, "i", 7)
    with pytest.raises(lp.CodegenError, match="takes isl too long"):
        lp.generate_code_v2(knl)
