"""Loops over lanes with remainders, conditions, types of several widths, gathers and sums."""

from __future__ import annotations

import platform
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kgen as lp
from kgen.runtime.c import FLAGS
from kgen.runtime.toolchain import find_c_compiler

#: By name: the code, and the types of its arrays; ``k`` has subscripts, ``out`` the results.
CASES = {
    "remainder": ("out[i] = 2*x[i] + y[i]", "x:f4 y:f4 out:f4"),
    "condition": ("out[i] = x[i] {if=y[i] > 0.5}", "x:f4 y:f4 out:f4"),
    "two conditions": ("out[i] = 2*x[i] {if=x[i] > y[i]}\nout[i] = y[i] {if=x[i] <= y[i]}", "f8"),
    "choice": ("out[i] = if(x[i] > 0.5, x[i]/y[i], if(y[i] > 0.5, 1, 2))", "f4"),
    "and": ("out[i] = if(x[i] > 0.5 and y[i] < 0.5, 1, 0)", "x:f4 y:f4 out:i4"),
    "single and double": ("out[i] = x[i]*y[i]", "x:f4 y:f8 out:f8"),
    "double to single": ("out[i] = cast(np.float32, x[i]*y[i])", "x:f8 y:f8 out:f4"),
    "int, single, double": ("out[i] = k[i]*x[i] + y[i]", "k:i4 x:f4 y:f8 out:f8"),
    "condition on int": ("out[i] = x[i] {if=k[i] > 9}", "k:i4 x:f8 out:f8"),
    "condition on single": ("out[i] = x[i] {if=y[i] > 0.5}", "x:f8 y:f4 out:f8"),
    "bytes": ("out[i] = cast(np.uint8, (b[i] + 1) // 2)", "b:u1 out:u1"),
    "condition on bool": ("out[i] = x[i] {if=b[i]}", "b:? x:f4 out:f4"),
    "bool": ("out[i] = b[i] and x[i] > 0.5", "b:? x:f4 out:?"),
    "gather": ("out[i] = x[k[i]]", "x:f4 k:i4 out:f4"),
    "gather and product": ("out[i] = x[k[i]]*y[i]", "x:f8 y:f8 k:i4 out:f8"),
    "functions": ("out[i] = sqrt(x[i]) + abs(y[i]) + floor(9*x[i])", "f4"),
    "function under a condition": ("out[i] = exp(x[i]) {if=y[i] > 0.5}", "f4"),
    "function in a choice": ("out[i] = if(x[i] > 0.5, exp(sin(x[i])), y[i])", "f4"),
    "power beside a choice": ("out[i] = y[i]**1.5*if(x[i] > 0.5, 2, 3)", "f8"),
    "sum of functions": ("out[0] = sum(i, if(x[i] > 0.5, log(x[i]), 0))", "x:f8 out:f8"),
    "extrema": ("out[i] = min(max(x[i], 0.25), y[i])", "f4"),
    "sum": ("out[0] = sum(i, x[i])", "x:f4 out:f4"),
    "sum of products": ("out[0] = sum(i, x[i]*y[i])", "x:f4 y:f8 out:f8"),
    "sum of a gather": ("out[0] = sum(i, x[k[i]]*y[i])", "x:f8 y:f8 k:i4 out:f8"),
    "sum under a condition": ("out[0] = sum(i, if(k[i] > 9, x[i], 0))", "k:i4 x:f8 out:f8"),
    "count": ("out[0] = sum(i, if(x[i] > 0.5, 1, 0))", "x:f4 out:i4"),
    "maximum": ("out[0] = max(i, x[i])", "x:f8 out:f8"),
    "place of the maximum": ("v, out[0] = argmax(i, x[i], i)", "x:f8 out:i4"),
    "product": ("out[0] = product(i, 0.9 + 0.2*x[i])", "x:f8 out:f8"),
}


def plain(case: str, **more: Any) -> lp.TranslationUnit:
    code, types = CASES[case]
    listed = types if ":" in types else " ".join(f"{name}:{types}" for name in ("x", "y", "out"))
    pairs = dict(item.split(":") for item in listed.split())
    arrays = [lp.GlobalArg(name, np.dtype(dtype), shape="n") for name, dtype in pairs.items()]
    return lp.make_kernel(
        "{ [i]: 0 <= i < n }",
        code,
        [*arrays, ...],
        assumptions="n >= 1",
        target=lp.ExecutableCTarget(),
        seq_dependencies=True,
        **more,
    )


def in_lanes(case: str, lanes: int = 16) -> lp.TranslationUnit:
    return lp.split_iname(plain(case), "i", lanes, inner_tag="vec")


def arguments(knl: lp.TranslationUnit, n: int) -> dict[str, Any]:
    random, made = np.random.default_rng(n), dict[str, Any]()
    for arg in knl.default_entrypoint.args:
        if isinstance(arg, lp.GlobalArg) and arg.name != "v":
            dtype = arg.dtype.numpy_dtype
            high = n if dtype.kind in "iu" else 1
            numbers = random.random(n)
            is_bool = dtype.kind == "b"
            made[arg.name] = numbers > 0.5 if is_bool else (high * numbers).astype(dtype)
    return made


@pytest.mark.parametrize("case", CASES)
def test_results_for_any_remainder(case: str) -> None:
    knl, vectors = plain(case), in_lanes(case)
    for n in (1, 15, 16, 17, 63, 100):
        expected, found = arguments(knl, n), arguments(knl, n)
        knl(**expected, n=n)
        vectors(**found, n=n)
        np.testing.assert_allclose(found["out"], expected["out"], rtol=1e-5)


#: What processors have no vectors for that compilers would choose.
_SCALAR = {"gather", "gather and product", "sum of a gather"}


@pytest.mark.parametrize("case", sorted(CASES.keys() - _SCALAR))
def test_compilers_make_vectors(case: str, tmp_path: Path) -> None:
    compiler = find_c_compiler()
    version = subprocess.run([*compiler, "--version"], capture_output=True, text=True, check=True)
    if platform.machine() != "x86_64" or "Free Software Foundation" not in version.stdout:
        pytest.skip("gcc for x86-64 says which loops it vectorizes")
    path = tmp_path / "kernel.c"
    lanes = 64 if "bool" in case else 16
    knl = lp.assume(in_lanes(case, lanes), f"n mod {lanes} = 0")
    code = lp.generate_code_v2(knl).device_code()
    path.write_text(code)
    flags = [*FLAGS[:1], "-O3", "-march=x86-64-v3", "-fno-math-errno", "-fno-trapping-math"]
    report = subprocess.run(
        [*compiler, *flags, "-fopenmp-simd", "-fopt-info-vec-optimized", "-S", path, "-o-"],
        capture_output=True,
        text=True,
        check=True,
    ).stderr
    made = {int(line.split(":")[1]) for line in report.splitlines() if "vectorized" in line}
    lines = code.splitlines()
    tiles = [k for k, line in enumerate(lines, 1) if line.startswith("    #pragma omp simd")]
    assert tiles
    for start in tiles:
        end = next(k for k in range(start, len(lines)) if lines[k].startswith("  }"))
        assert made & set(range(start, end + 1)), lines[start]
