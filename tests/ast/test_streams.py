"""Stores past the cache: in lanes, and in blocks of them in other loops."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kgen as lp
from kgen.lowering import lower
from kgen.runtime.toolchain import find_c_compiler
from tests.oracle import Oracle


def make(code: str, dtype: Any = np.float32, **options: Any) -> lp.TranslationUnit:
    arrays = [lp.GlobalArg("a, out", dtype, shape="n"), lp.GlobalArg("at", "int32", "n"), ...]
    knl = lp.make_kernel(
        "{ [i]: 0 <= i < n }", code, arrays, target=lp.ExecutableCTarget(), **options
    )
    return lp.tag_instructions(knl, "!streaming_store", "writes:out")


def in_lanes(knl: lp.TranslationUnit) -> lp.TranslationUnit:
    return lp.split_iname(knl, "i", 32, inner_tag="vec")


def test_lanes_are_stored_behind_their_loop() -> None:
    knl = in_lanes(make("out[i] = 2*a[i]", assumptions="n >= 0 and n mod 32 = 0"))
    assert lp.generate_body(knl).splitlines()[2:6] == [
        "    float out_lanes[32] __attribute__ ((aligned (64)));",
        "    #pragma omp simd simdlen(16)",
        "    for (int i_inner = 0; i_inner < 32; ++i_inner)",
        "      out_lanes[i_inner] = 2.0f * a[32 * i_outer + i_inner];",
    ]


def test_other_loops_run_in_blocks() -> None:
    knl = make("out[i] = 2*a[i]", np.float64)
    body = lp.generate_body(knl)
    assert "for (int i_block = 0; i_block < n - 7; i_block += 8)" in body
    assert "kgen_stream(&out[i_block], out_lanes, 64);" in body
    lowered = lower(knl.default_entrypoint)
    for n in (0, 1, 7, 8, 9, 33):
        Oracle(lowered.kernel, {"n": n}).check(lowered.functions)


def test_work_items_and_lanes_of_open_length_run_in_blocks() -> None:
    knl = make("out[i] = 2*a[i]")
    items = lp.split_iname(knl, "i", 64, outer_tag="g.0", inner_tag="l.0")
    for unit in (items, lp.tag_inames(knl, "i:vec")):
        assert "kgen_stream(&out[" in lp.generate_code_v2(unit).device_code()
        for n in (1, 15, 64, 100):
            _, (out,) = unit(a=np.arange(n, dtype=np.float32), at=np.zeros(n, np.int32))
            np.testing.assert_array_equal(out, 2 * np.arange(n))


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int32", "float32", "float64"])
def test_arrays_of_any_size_and_alignment(dtype: Any) -> None:
    for knl in (make("out[i] = a[i] + a[i]", dtype), in_lanes(make("out[i] = 2*a[i]", dtype))):
        for n in (0, 1, 31, 32, 77, 300):
            for offset in (0, 1, 4):
                a, out = np.arange(n + 4).astype(dtype), np.zeros(n + 8, dtype)
                knl(a=a[offset // 2 :][:n], at=np.zeros(n, np.int32), out=out[offset:][:n])
                np.testing.assert_array_equal(out[offset:][:n], 2 * a[offset // 2 :][:n])
                assert not out[offset + n :].any()


@pytest.mark.parametrize(
    "code",
    [
        "out[at[i]] = a[i]",
        "out[i] = out[i] + a[i]",
        "out[n - 1 - i] = a[i]",
        "out[i] = a[i] {if=a[i] > 0}",
        "<> t = a[i]\nout[i] = t",
    ],
)
def test_other_stores_go_to_the_cache(code: str) -> None:
    assert "kgen_stream" not in lp.generate_body(make(code))


def test_no_warnings(tmp_path: Path) -> None:
    for k, knl in enumerate((make("out[i] = a[i]"), in_lanes(make("out[i] = a[i]")))):
        path = tmp_path / f"kernel{k}.c"
        path.write_text(lp.generate_code_v2(knl).device_code())
        flags = ["-std=c11", "-O2", "-fopenmp-simd", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
        words = [*find_c_compiler(), *flags, "-c", str(path), "-o", str(tmp_path / "kernel.o")]
        subprocess.run(words, check=True)
