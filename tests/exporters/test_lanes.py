"""Exported functions in C with lanes and threads: no warnings, results, alignment, sharing."""

from __future__ import annotations

import ctypes
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kgen as lp
from kgen.exporters.export import export
from kgen.runtime.toolchain import find_c_compiler
from tests.exporters.libraries import load

WARNINGS = ("-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic")
#: By name of the function: its code.
CODES = {
    "plain": "out[i] = 2*x[i] + y[i]",
    "masked": "out[i] = exp(x[i]) {if=y[i] > 0.5}",
    "chosen": "out[i] = if(x[i] > y[i], x[i]**1.5, max(y[i], 0.25))",
    "streamed": "out[i] = 2*x[i] {tags=!streaming_store}",
    "gathered": "out[i] = x[k[i]]*d[i]",
    "total": "out[0] = sum(i, x[i]*d[i])",
    "largest": "out[0] = max(i, x[i])",
}


def program(name: str, **split: Any) -> lp.TranslationUnit:
    code = CODES[name]
    alignment = 64 if name == "streamed" else None
    types = {"x": "f4", "y": "f4", "d": "f8", "k": "i4", "out": "f4"}
    arrays = [
        lp.GlobalArg(array, np.dtype(dtype), shape="n", alignment=alignment)
        for array, dtype in types.items()
        if f"{array}[" in code
    ]
    target = lp.ExecutableCTarget()
    knl = lp.make_kernel(
        "{ [i]: 0 <= i < n }", code, [*arrays, ...], name=name, target=target, assumptions="n >= 1"
    )
    return lp.split_iname(knl, "i", 16, inner_tag="vec", **split)


def built(folder: Path, *flags: str) -> ctypes.CDLL:
    programs = [program(name) for name in CODES]
    programs[0] = program("plain", outer_tag="g.0")
    files = export(programs, folder, targets=["c"], namespace="demo")
    sources = [str(path) for path in files if path.suffix == ".c"]
    library = folder / "demo.so"
    command = [*find_c_compiler(), *WARNINGS, *flags, f"-I{folder / 'include'}", *sources]
    more = ["-shared", "-fPIC", "-o", str(library), "-lm"]
    subprocess.run([*command, *more], check=True, timeout=60)
    found = ctypes.CDLL(str(library))
    found.demo_last_message.restype = ctypes.c_char_p
    return found


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    return built(tmp_path_factory.mktemp("demo"), "-fopenmp", "-O3", "-march=native")


@pytest.mark.parametrize("flags", [["-fopenmp", "-O1"], ["-O2", "-Wno-unknown-pragmas"]])
def test_there_are_no_warnings(flags: list[str], tmp_path: Path) -> None:
    built(tmp_path, *flags)


def line(dtype: str, n: int = 53) -> Any:
    """Return an array that begins at a line of the cache."""
    memory = np.zeros(n + 16, dtype)
    first = -memory.ctypes.data % 64 // memory.itemsize
    return memory[first : first + n]


def at(array: Any, offset: int = 0) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data + offset)


def test_results(demo: ctypes.CDLL) -> None:
    x, y, d, out = line("f4"), line("f4"), line("f8"), line("f4")
    random, k = np.random.default_rng(1), np.arange(53, dtype=np.int32)[::-1].copy()
    x[:], y[:], d[:] = random.random(53), random.random(53), random.random(53)
    assert demo.demo_plain(at(x), at(y), at(out), 53) == 0
    np.testing.assert_allclose(out, 2 * x + y, rtol=1e-6)
    assert demo.demo_masked(at(x), at(y), at(out), 53) == 0
    np.testing.assert_allclose(out, np.where(y > 0.5, np.exp(x), 2 * x + y), rtol=1e-6)
    assert demo.demo_chosen(at(x), at(y), at(out), 53) == 0
    np.testing.assert_allclose(out, np.where(x > y, x**1.5, np.maximum(y, 0.25)), rtol=1e-5)
    assert demo.demo_streamed(at(x), at(out), 53) == 0
    np.testing.assert_array_equal(out, 2 * x)
    assert demo.demo_gathered(at(x), at(d), at(k), at(out), 53) == 0
    np.testing.assert_allclose(out, x[::-1] * d, rtol=1e-6)
    assert demo.demo_total(at(x), at(d), at(out), 53) == 0
    assert out[0] == pytest.approx(x @ d, rel=1e-6)
    assert demo.demo_largest(at(x), at(out), 53) == 0
    assert out[0] == x.max()


def test_arrays_that_are_less_aligned_than_declared_are_rejected(demo: ctypes.CDLL) -> None:
    x, out = line("f4"), line("f4")
    assert demo.demo_streamed(at(x, 16), at(out), 40) != 0
    text = "array 'x' does not begin at a multiple of 64 bytes"
    assert text in demo.demo_last_message().decode()


def test_calls_at_once_share_the_threads(tmp_path: Path) -> None:
    wait = "__atomic_store_n(&mine[i], 1, 5); while (!__atomic_load_n(&other[0], 5));"
    count = "extern int omp_get_num_threads(void); mine[i] = omp_get_num_threads();"
    names = lp.GlobalArg("mine, other", np.int32, shape=4)
    programs = [
        lp.make_kernel(
            "{ [i]: 0 <= i < 4 }",
            [lp.CInstruction("i", code, read_variables="other", assignees="mine[i]")],
            [names],
            name=name,
            target=lp.ExecutableCTarget(threads=4),
        )
        for name, code in (("wait", wait), ("count", count))
    ]
    knls = [lp.tag_inames(knl, "i:g.0") for knl in programs]
    found = load(tmp_path, knls, "c")
    mine, other, team = np.zeros((3, 4), np.int32)
    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(found.demo_wait, at(mine), at(other))
        while not mine[0] and not call.done():
            pass
        status = found.demo_count(at(team), at(other))
        other[0] = 1
    assert status == call.result() == 0
    assert team.tolist() == [2] * 4
