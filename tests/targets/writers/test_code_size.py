"""Loops that are unrolled as often as their code stays in the cache of instructions."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kgen as lp
from tests.targets.support import compile_cuda


def product(tag: str, target: Any, columns: int = 35) -> lp.TranslationUnit:
    """Return rows of a product, each a straight sum, in a loop with *tag*."""
    knl = lp.make_kernel(
        f"{{ [e, i, j]: 0 <= e < n and 0 <= i < 35 and 0 <= j < {columns} }}",
        "out[e, i] = sum(j, d[i, j]*u[e, j])",
        [lp.GlobalArg("d, u", np.float32, shape=lp.auto), ...],
        target=target,
    )
    knl = lp.split_iname(knl, "e", 128, outer_tag="g.0", inner_tag="l.0")
    return lp.tag_inames(lp.prioritize_loops(knl, "i,j"), {"j": "unr", "i": tag})


def factor(knl: lp.TranslationUnit) -> int:
    (found,) = re.findall(r"#pragma (?:GCC )?unroll (\d+)", lp.generate_code_v2(knl).device_code())
    return int(found)


@pytest.mark.parametrize("target", [lp.CudaTarget(), lp.OpenCLTarget(), lp.CTarget()])
def test_factors_that_are_given(target: Any) -> None:
    assert factor(product("unr.5", target)) == factor(product("unr_hint.5", target)) == 5


def test_long_bodies_are_unrolled_less_often() -> None:
    factors = [factor(product("unr.auto", lp.CudaTarget(), n)) for n in (2, 8, 35, 200)]
    assert factors == sorted(factors, reverse=True)
    assert factors[0] == 35  # all of it
    assert factors[-1] == 1


def test_code_stays_below_the_limit(nvcc: str, tmp_path: Path) -> None:
    """The text of PTX has about a line for each instruction."""
    lines: dict[str, int] = {}
    for tag in ("unr", "unr.auto"):
        code = lp.generate_code_v2(product(tag, lp.CudaTarget())).device_code()
        compile_cuda(code, tmp_path, nvcc)
        text = (tmp_path / "code.ptx").read_text()
        lines[tag] = len(re.findall(r"^\t[a-z].*;$", text, re.MULTILINE))
    assert lines["unr"] > 35 * 35
    assert lines["unr.auto"] < 1024


def test_names_of_tags() -> None:
    knl = product("unr.auto", lp.CudaTarget())
    assert "i: unr.auto" in str(knl)
    knl = lp.tag_inames(product("for", lp.CudaTarget()), "i:unr.4")
    assert "i: unr_hint.4" in str(knl)
