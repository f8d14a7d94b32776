"""C code that writes whole arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kgen as lp


def filled(target: Any, code: str, **shape: Any) -> lp.TranslationUnit:
    return lp.make_kernel(
        "{[i]: 0<=i<8}",
        [lp.CInstruction("", code, assignees="buf", id="c"), "o = sum(i, buf[i]) {dep=c}"],
        [lp.TemporaryVariable("buf", np.float32, **shape), ...],
        target=target,
    )


def test_an_assignee_of_c_code_without_subscripts_is_the_whole_array() -> None:
    knl = filled(lp.ExecutableCTarget(), "for (int q = 0; q < 8; ++q) buf[q] = 2*q;", shape=8)
    assert knl()[1][0] == 56


def test_elements_that_assignments_write_need_subscripts() -> None:
    with pytest.raises(lp.KernelError, match="'buf' is used with no subscripts"):
        lp.make_kernel(
            "{[i]: 0<=i<8}",
            ["buf = 1 {id=c}", "o = sum(i, buf[i]) {dep=c}"],
            [lp.TemporaryVariable("buf", np.float32, shape=8), ...],
        )
