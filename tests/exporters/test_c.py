"""Exported functions in C: they compute, and reject what is wrong with a call."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kgen as lp
from kgen.exporters.export import export

FLAGS = (
    *("-std=c11", "-fopenmp", "-Wall", "-Wextra", "-Werror", "-pedantic"),
    *("-O1", "-g", "-shared", "-fPIC"),
)
HUGE = 2**31 - 2**20


def built(folder: Path, *programs: lp.TranslationUnit) -> ctypes.CDLL:
    """Return the library of *programs*, exported to *folder* and compiled without a warning."""
    files = export(programs, folder, targets=["c"], namespace="demo")
    sources = [str(path) for path in files if path.suffix == ".c"]
    library = folder / "demo.so"
    command = ["cc", *FLAGS, f"-I{folder / 'include'}", *sources, "-o", str(library), "-lm"]
    subprocess.run(command, check=True, timeout=60)
    found = ctypes.CDLL(str(library))
    found.demo_last_message.restype = ctypes.c_char_p
    return found


def at(array: np.ndarray[Any, Any], offset: int = 0) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data + offset)


def scale() -> lp.TranslationUnit:
    args = [lp.GlobalArg("a, out", np.float32, shape="n, m"), "..."]
    domain = "{ [i, j]: 0 <= i < n and 0 <= j < m }"
    return lp.make_kernel(domain, "out[i, j] = 2*a[i, j]", args, name="scale")


def turned() -> lp.TranslationUnit:
    """Return a kernel of two launches, with a temporary in global memory between them."""
    code = """
    t[i] = 2*a[i] {id=first}
    ... gbarrier {id=wait, dep=first}
    out[j] = t[n - 1 - j] {dep=wait}
    """
    temporary = lp.TemporaryVariable("t", shape="n", address_space=lp.AddressSpace.GLOBAL)
    args = [lp.GlobalArg("a, out", np.float32, shape="n"), temporary, "..."]
    knl = lp.make_kernel("{ [i, j]: 0 <= i, j < n }", code, args, name="turned")
    knl = lp.split_iname(knl, "i", 32, outer_tag="g.0", inner_tag="l.0")
    return lp.split_iname(knl, "j", 32, outer_tag="g.0", inner_tag="l.0")


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    return built(tmp_path_factory.mktemp("demo"), scale(), turned())


def test_results(demo: ctypes.CDLL) -> None:
    a = np.arange(12, dtype=np.float32).reshape(3, 4)
    out = np.empty_like(a)
    assert demo.demo_scale(at(a), at(out), 4, 3) == 0
    assert (out == 2 * a).all()


@pytest.mark.parametrize("has_workspace", [False, True])
def test_temporaries_are_in_the_workspace(demo: ctypes.CDLL, has_workspace: bool) -> None:
    a, n_bytes = np.arange(70, dtype=np.float32), ctypes.c_size_t()
    out = np.empty_like(a)
    assert demo.demo_turned_workspace(70, ctypes.byref(n_bytes)) == 0
    assert 70 * 4 <= n_bytes.value < 70 * 4 + 64
    memory = np.empty(n_bytes.value // 4 + 16, np.float32)
    workspace = at(memory, -memory.ctypes.data % 64) if has_workspace else None
    assert demo.demo_turned(at(a), at(out), 70, workspace) == 0
    assert (out == 2 * a[::-1]).all()


A, OUT = np.ones((3, 4), np.float32), np.zeros((4, 4), np.float32)
WRONG = {
    "argument 'n' is outside of [0,": (at(A), at(OUT), 4, -3),
    "array 'a' is a null pointer": (None, at(OUT), 4, 3),
    "array 'out' is a null pointer": (at(A), None, 4, 3),
    "array 'a' does not begin at a multiple of 4 bytes": (at(A, 2), at(OUT), 4, 2),
    "array 'a' would have more than 2**62 bytes": (at(A), at(OUT), HUGE, HUGE),
    "'out', which is written, overlaps with array 'a'": (at(OUT, 16), at(OUT), 4, 2),
}


@pytest.mark.parametrize("text", WRONG)
def test_bad_input_is_a_status_and_nothing_is_written(demo: ctypes.CDLL, text: str) -> None:
    assert demo.demo_scale(*WRONG[text]) != 0
    message = demo.demo_last_message().decode()
    assert message.startswith("scale: ")
    assert text in message
    assert not OUT.any()


def test_null_pointers_are_empty_arrays(demo: ctypes.CDLL) -> None:
    assert demo.demo_scale(None, None, 0, 5) == 0
