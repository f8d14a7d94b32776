"""Sums of lanes, which gcc keeps in registers where it does not unroll the loop around them."""

from __future__ import annotations

import platform
import re
import subprocess
from typing import Any

import numpy as np
import pytest

import kgen as lp
from kgen.runtime.toolchain import find_c_compiler

PRAGMA = '#pragma GCC optimize ("no-loop-unroll-and-jam")'


def code_of(text: str, *data: Any) -> str:
    knl = lp.make_kernel("{ [i]: 0 <= i < n }", text, [*data, ...], target=lp.ExecutableCTarget())
    return lp.generate_code_v2(lp.autoschedule(knl)).all_code()


def stored(code: str) -> int:
    """Return how many instructions store vectors on the stack."""
    words = ["-O3", "-march=x86-64-v3", "-std=gnu11", "-fopenmp", "-xc", "-S", "-o-", "-"]
    found = subprocess.run(
        [*find_c_compiler(), *words], input=code, capture_output=True, text=True, check=True
    )
    return len(re.findall(r"vmov[au]pd\s+%ymm\d+, -?\d*\(%[a-z0-9]+\)", found.stdout))


def test_sums_of_lanes_stay_in_registers() -> None:
    code = code_of("out = sum(i, a[i])", lp.GlobalArg("a", np.float64, shape="n"))
    assert code.count(PRAGMA) == 1
    words = [*find_c_compiler(), "--version"]
    version = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    if platform.machine() != "x86_64" or "Free Software Foundation" not in version:
        pytest.skip("gcc for x86-64 stores vectors on the stack")
    assert stored(code) < stored(code.replace(PRAGMA, ""))


def test_lanes_without_sums_need_no_pragma() -> None:
    assert PRAGMA not in code_of("out[i] = 2*a[i]", lp.GlobalArg("a", np.float64, shape="n"))
