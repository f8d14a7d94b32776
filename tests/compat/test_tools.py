"""Helpers for calls of generated code by ctypes."""

from __future__ import annotations

import ctypes
import pickle
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import kgen.compat.loopy as lp
from kgen.compat.loopy import tools
from kgen.compat.loopy.target.c.c_execution import CCompiler

#: Compiles its source as C++, as ISPC does with plain functions of its dialect.
FAKE_ISPC = '#!/bin/sh\n[ "$1" = --pic ] && exec g++ -x c++ -fPIC -c "$2" -o "$4"\n'


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("shape", [(), 5, (1, 3), (3, 4)])
def test_empty_arrays_are_aligned(shape: Any, order: Any) -> None:
    array = tools.empty_aligned(shape, np.complex64, order, n=256)
    plain = np.empty(shape, np.complex64, order)
    assert (array.shape, array.strides, array.dtype) == (plain.shape, plain.strides, plain.dtype)
    assert array.ctypes.data % 256 == 0
    array[...] = 1


def test_pointers_are_those_of_the_first_element() -> None:
    backwards = np.arange(8)[::-2]
    assert tools.cptr_from_numpy(backwards).value == backwards.ctypes.data
    with pytest.raises(lp.LoopyError, match="asked for is a numpy array, not None"):
        tools.cptr_from_numpy(None)


@pytest.fixture
def ispc(tmp_path: Path) -> str:
    path = tmp_path / "ispc"
    path.write_text(FAKE_ISPC)
    path.chmod(0o755)
    return str(path)


def test_a_library_is_built_from_sources_of_both_languages(
    tmp_path: Path, ispc: str, capsys: pytest.CaptureFixture[str]
) -> None:
    twice = 'extern "C" int twice(int n) { return 2*n; }'
    other = 'extern "C" int twice(int n);\nextern "C" int four(int n) { return twice(twice(n)); }'
    sources = [("twice.ispc", twice)], [("four.cpp", other)]
    tools.build_ispc_shared_lib(tmp_path, *sources, ispc_bin=ispc, quiet=False)
    assert ctypes.CDLL(str(tmp_path / "shared.so")).four(3) == 12
    assert f"{ispc} --pic twice.ispc -o twice.ispc.o\n" in capsys.readouterr().out


def test_errors_of_compilers_are_shown(tmp_path: Path, ispc: str) -> None:
    with pytest.raises(lp.CompilationError, match=r"shared\.so\n.*wrong\.cpp"):
        tools.build_ispc_shared_lib(tmp_path, [], [("wrong.cpp", "int = ;")], ispc_bin=ispc)
    missing = re.escape("hint: install it, or pass its path: ispc_bin=...")
    with pytest.raises(lp.CompilationError, match=missing):
        tools.build_ispc_shared_lib(tmp_path, [("a.ispc", "")], [], ispc_bin="/no/such/ispc")


def _toolchain(**changes: Any) -> Any:
    """Return an object with the attributes of codepy's toolchains."""
    lists = ("libraries", "include_dirs", "library_dirs", "undefines")
    held = {"cc": "cc", "cflags": ["-O1", "-fPIC"], "ldflags": ["-shared"], "defines": ["TIMES=3"]}
    return SimpleNamespace(**{name: [] for name in lists} | held | changes, so_ext=".so")


def test_toolchains_describe_compilers() -> None:
    target = lp.ExecutableCTarget(compiler=CCompiler(toolchain=_toolchain()))
    knl = lp.make_kernel(
        "{ [i]: 0<=i<4 }",
        [lp.CInstruction("i", "x[i] = TIMES*i;", assignees="x[i]")],
        [lp.GlobalArg("x", np.float64, shape=4, is_output=True)],
        target=target,
    )
    assert knl()[1][0].tolist() == [0, 3, 6, 9]
    again = pickle.loads(pickle.dumps(knl))  # noqa: S301
    assert again == knl
    assert again.target.compiler.toolchain.cflags == ["-O1", "-fPIC"]


def test_settings_replace_those_of_a_toolchain() -> None:
    compiler = CCompiler(_toolchain(undefines=["A"]), defines=["TIMES=2"], include_dirs="here")
    assert compiler.compile_flags == ("-O1", "-fPIC", "-UA", "-DTIMES=2", "-Ihere")
    assert CCompiler(cflags="-O2").compile_flags == lp.CCompiler(cflags="-O2").compile_flags
    for bad, match in (({"toolchain": "gcc"}, "guess_toolchain"), ({"source_suffix": "cpp"}, "C,")):
        with pytest.raises(lp.KgenError, match=match):
            CCompiler(**bad)
