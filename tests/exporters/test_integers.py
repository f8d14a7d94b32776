"""Integers of the host in C: the values of Python's, or the nearest of 64 bits."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path
from typing import Any

import pymbolic.primitives as p
import pytest
from pymbolic import parse
from pymbolic.mapper.evaluator import evaluate

import kgen
from kgen.errors import CodegenError
from kgen.exporters.integers import IntegerWriter

SUPPORT = Path(kgen.__file__).parent / "exporters" / "support"
EXPRESSIONS: list[Any] = [
    p.Max((parse("n"), parse("m"))) - p.Min((parse("n"), parse("3*m"))),
    p.If(p.Comparison(parse("n"), "<", parse("m")), parse("n"), parse("2*m")) + 1,
    *map(parse, ["(n + 31) // 32", "4*n*m - 3", "n*m*n*m", "(n - 7) % 5", "n // (m - 2)"]),
    *map(parse, ["n - m - 9", "n**3", "m**0", "-n*n*n*n*n", "(n + m) % 7 + n // 3"]),
]
NUMBERS = [0, 1, -1, 5, 2**31 - 1, -(2**31), 2**40]


def compiled(expr: Any, tmp_path: Path) -> Any:
    """Return a function of n and m in C, which ends the process where numbers overflow."""
    limits = (-(2**62), 2**62)
    written = IntegerWriter("kgen_", {"n": limits, "m": limits}).text(expr)
    function = f"int64_t f(int64_t n, int64_t m) {{ return {written}; }}"
    code = tmp_path / "f.c"
    code.write_text(f'#include "kgen_support.h"\n{function}\n')
    flags = ["-shared", "-fPIC", "-fsanitize=undefined", "-fno-sanitize-recover", f"-I{SUPPORT}"]
    subprocess.run(["cc", *flags, str(code), "-o", str(tmp_path / "f.so")], check=True, timeout=60)
    f = ctypes.CDLL(str(tmp_path / "f.so")).f
    f.argtypes, f.restype = [ctypes.c_int64] * 2, ctypes.c_int64
    return f


@pytest.mark.parametrize("expr", EXPRESSIONS, ids=str)
def test_values(expr: Any, tmp_path: Path) -> None:
    f = compiled(expr, tmp_path)
    for n in NUMBERS:
        for m in NUMBERS:
            if m != 2:
                expected: Any = evaluate(expr, {"n": n, "m": m})
                assert abs(f(n, m) - expected) <= max(0, abs(expected) - 2**63 + 4)


def test_differences_of_large_numbers_are_too_large(tmp_path: Path) -> None:
    f = compiled(parse("8*n - 8*m"), tmp_path)
    assert f(2**61 + 9, 2**61 + 2) == 2**63 - 1
    assert f(2**40 + 9, 2**40) == 72


def test_other_functions_are_rejected() -> None:
    with pytest.raises(CodegenError, match=r"the number f\(n\) cannot be computed"):
        IntegerWriter("", {}).text(parse("f(n)"))
