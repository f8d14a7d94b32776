"""Functions of several lanes at once, and arithmetic that may change results."""

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
from kgen.targets.lane_functions import GNU_LANE_FUNCTIONS

UNARY = sorted(name for name, (count, _) in GNU_LANE_FUNCTIONS.items() if count == 1)


def lanes(
    code: str, dtype: Any = np.float64, tag: str | None = "vec", **options: Any
) -> lp.TranslationUnit:
    knl = lp.make_kernel(
        "{ [i]: 0 <= i < n }",
        code,
        [lp.GlobalArg("a, out", dtype, shape="n"), ...],
        target=lp.ExecutableCTarget(**options),
        seq_dependencies=True,
    )
    return lp.split_iname(knl, "i", 8, inner_tag=tag)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_all_functions(dtype: Any) -> None:
    rows = "\n".join(f"out[{k}, i] = {name}(a[i])" for k, name in enumerate(UNARY))
    shape = f"{len(UNARY)}, n"
    arrays = [lp.GlobalArg("a", dtype, "n"), lp.GlobalArg("out", dtype, shape), ...]
    target = lp.ExecutableCTarget()
    plain = lp.make_kernel("{ [i]: 0 <= i < n }", rows, arrays, target=target)
    a = np.random.default_rng(1).uniform(1, 1.0000001, 37).astype(dtype)  # for acosh and acos
    a[::2] = np.linspace(0.1, 0.9, 19)
    out = lp.split_iname(plain, "i", 8, inner_tag="vec")(a=a)[1][0]
    expected = plain(a=a)[1][0]
    assert np.array_equal(np.isnan(out), np.isnan(expected))
    with np.errstate(invalid="ignore"):
        error = np.abs(out - expected) / np.spacing(np.abs(expected))
    assert np.nanmax(error) <= 5


def test_calls_are_of_vectors(tmp_path: Path) -> None:
    compiler = find_c_compiler()
    version = subprocess.run([*compiler, "--version"], capture_output=True, text=True, check=True)
    if platform.machine() != "x86_64" or "Free Software Foundation" not in version.stdout:
        pytest.skip("gcc for x86-64 has functions of vectors")
    path = tmp_path / "kernel.c"
    path.write_text(lp.generate_code_v2(lanes("out[i] = exp(a[i]) + pow(a[i], 1.5)")).device_code())
    flags = [*FLAGS[:1], "-O3", "-fno-math-errno", "-fopenmp-simd", "-Wall", "-Wextra", "-Werror"]
    subprocess.run([*compiler, *flags, "-S", path, "-o", tmp_path / "kernel.s"], check=True)
    text = (tmp_path / "kernel.s").read_text()
    assert "_ZGVbN2v_exp" in text
    assert "_ZGVbN2vv_pow" in text


def test_calls_and_conditions_are_in_different_loops() -> None:
    knl = lanes("<> e = exp(a[i])\n<> r = e\nr = -1 {if=a[i] > 0.5}\nout[i] = r + sin(a[i])")
    whole = lp.generate_body(lp.assume(knl, "n mod 8 = 0"))
    assert whole.count("#pragma omp simd") == 3
    a = np.linspace(0, 1, 24)
    expected = np.where(a > 0.5, -1, np.exp(a)) + np.sin(a)
    np.testing.assert_allclose(knl(a=a)[1][0], expected, rtol=1e-14)


def test_operands_are_read_only_under_the_condition() -> None:
    knl = lanes("out[i] = if(i > 2, exp(a[i - 3]), -1) {id=s}")
    assert lp.verify(knl).ok
    a = np.linspace(0, 1, 21)
    expected = [-1, -1, -1, *np.exp(a[:-3])]
    np.testing.assert_allclose(knl(a=a)[1][0], expected, rtol=1e-14)


def test_functions_of_what_earlier_lanes_compute_stay_in_order() -> None:
    knl = lanes("out[i] = if(a[i] > 0, exp(-out[i - 1]), 1) {if=i > 0}")
    assert "lane[" not in lp.generate_body(knl)
    a, out, expected = np.linspace(-1, 1, 21), np.zeros(21), np.zeros(21)
    for k in range(1, 21):
        expected[k] = np.exp(-expected[k - 1]) if a[k] > 0 else 1
    np.testing.assert_allclose(knl(a=a, out=out)[1][0], expected, rtol=1e-14)


def test_other_loops_call_functions_of_one_number() -> None:
    knl = lanes("out[i] = exp(a[i])", tag=None)
    assert "kgen_lanes" not in lp.generate_code_v2(knl).device_code()


def test_fast_math_is_for_one_kernel() -> None:
    fast = lanes("out[i] = a[i]/3", np.float32, fast_math=True)
    assert "#pragma GCC optimize" in lp.generate_code_v2(fast).device_code()
    a = np.arange(9, dtype=np.float32)
    np.testing.assert_allclose(fast(a=a)[1][0], a / 3, rtol=1e-6)
    assert np.float32(1e-40) * np.float32(0.5) > 0  # numbers are not flushed to 0


def test_fast_math_keeps_the_instructions_for_roots() -> None:
    a = np.linspace(1, 2, 1000, dtype=np.float32)
    (out,) = lanes("out[i] = sqrt(a[i])", np.float32, fast_math=True)(a=a)[1]
    np.testing.assert_array_equal(out, np.sqrt(a))


def test_fast_math_is_a_choice() -> None:
    wrong: Any = "yes"
    with pytest.raises(lp.KgenError, match="'fast_math' of a CTarget is True or False, not 'yes'"):
        lp.CTarget(fast_math=wrong)
