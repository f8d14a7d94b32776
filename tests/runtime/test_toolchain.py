"""Compilers that are run as programs."""

from __future__ import annotations

import os
import pickle
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kgen as lp
from kgen.errors import CompilationError
from kgen.runtime.cache import DiskCache
from kgen.runtime.toolchain import compile_cubin, find_c_compiler, find_nvcc


def test_the_environment_chooses_the_compiler(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    mine = tmp_path / "mycc"
    mine.touch(mode=0o755)
    monkeypatch.setenv("CC", f"{mine} -m64")
    assert find_c_compiler() == (str(mine), "-m64")
    monkeypatch.setenv("NVCC", "no-such-nvcc")
    with pytest.raises(CompilationError, match=r"no-such-nvcc(.|\n)*variable NVCC"):
        find_nvcc()


def test_nvcc_is_found_below_its_root(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "nvcc").touch(mode=0o755)
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("NVCC", raising=False)
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    assert find_nvcc() == (str(folder / "nvcc"),)


KERNEL = 'extern "C" __global__ void f(float *x) { x[threadIdx.x] *= 2; }'


def test_cubins_are_kept(nvcc: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    disk = DiskCache(tmp_path)
    monkeypatch.setenv("NVCC", nvcc)
    cubin = compile_cubin(disk, KERNEL, ("-arch=sm_90",), "f")
    assert cubin.startswith(b"\x7fELF")
    (entry,) = tmp_path.glob("*/*")
    disk.store(entry.parent.name + entry.name, b"what is kept")
    assert compile_cubin(disk, KERNEL, ("-arch=sm_90",), "f") == b"what is kept"


def test_cuda_code_with_errors(nvcc: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NVCC", nvcc)
    with pytest.raises(CompilationError, match=r"identifier .y. is undefined") as caught:
        compile_cubin(DiskCache(tmp_path), KERNEL.replace("x[", "y["), ("-arch=sm_90",), "f")
    text = str(caught.value)
    path = Path(text[text.index("(/") + 1 : text.index(")")])
    assert "y[" in path.read_text()


#: Starts a process of its own, as gcc does, writes a temporary file, and never ends.
SLOW_COMPILER = """#!/bin/sh
case "$*" in *--version*) echo slow 1.0; exit 0;; esac
sleep 1000 &
echo $! > "$PIDS/child"
echo part > "${TMPDIR:-/tmp}/cc-part.s"
echo $$ > "$PIDS/driver"
wait
"""

CALL_C = """
import kgen as lp
lp.make_kernel("{[i]: 0<=i<8}", "out[i] = i", target=lp.ExecutableCTarget())()
"""

CALL_NVCC = """
from kgen.runtime.cache import process_caches
from kgen.runtime.toolchain import compile_cubin
compile_cubin(process_caches.disk, "code", (), "kernel")
"""


#: The process runs before its starter knows that.
SLOW_START = """
import subprocess, time
start = subprocess.Popen.__init__
def start_slowly(*args, **kwargs):
    start(*args, **kwargs)
    time.sleep(2)
subprocess.Popen.__init__ = start_slowly
"""


def wait_for(condition: Callable[[], object], seconds: float = 60) -> bool:
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.02)
    return bool(condition())


@pytest.mark.parametrize(
    ("variable", "script"),
    [("CC", CALL_C), ("CC", SLOW_START + CALL_C), ("NVCC", CALL_NVCC)],
    ids=["C", "C, slow start", "CUDA"],
)
def test_an_interrupted_compilation_leaves_nothing(
    variable: str, script: str, tmp_path: Path
) -> None:
    folders = {name: tmp_path / name for name in ("pids", "tmp", "cache")}
    for folder in folders.values():
        folder.mkdir()
    compiler = tmp_path / "slow"
    compiler.write_text(SLOW_COMPILER)
    compiler.chmod(0o755)
    environment = {
        **os.environ,
        variable: str(compiler),
        "PIDS": str(folders["pids"]),
        "TMPDIR": str(folders["tmp"]),
        "KGEN_CACHE_DIR": str(folders["cache"]),
    }
    process = subprocess.Popen(
        [sys.executable, "-c", script], env=environment, stderr=subprocess.DEVNULL
    )
    driver = folders["pids"] / "driver"
    assert wait_for(lambda: driver.exists() and driver.read_text())
    pids = [int(file.read_text()) for file in folders["pids"].iterdir()]
    assert len(pids) == 2
    process.send_signal(signal.SIGINT)
    assert process.wait(60) != 0
    assert wait_for(lambda: not any(map(is_running, pids)))
    assert list(folders["tmp"].iterdir()) == []
    kept = [path for path in folders["cache"].rglob("*") if path.is_file()]
    assert all(path.read_bytes().startswith(b"{") for path in kept), "more than generated code"


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def tripled(compiler: lp.CCompiler) -> lp.TranslationUnit:
    code = lp.CInstruction("i", "out[i] = TIMES*i;", assignees="out[i]")
    args = [lp.GlobalArg("out", np.int32, shape=3)]
    target = lp.ExecutableCTarget(compiler=compiler)
    return lp.make_kernel("{ [i]: 0 <= i < 3 }", [code], args, target=target)


def test_a_target_chooses_its_compiler_and_flags(tmp_path: Path) -> None:
    mine, seen = tmp_path / "mycc", tmp_path / "seen"
    mine.write_text(f'#!/bin/sh\necho "$@" >> {seen}\nexec {shlex.join(find_c_compiler())} "$@"\n')
    mine.chmod(0o755)
    chosen = lp.CCompiler(str(mine), "-O1 -g", defines=["TIMES=3"], library_dirs=[str(tmp_path)])
    assert tripled(chosen)()[1][0].tolist() == [0, 3, 6]
    words = seen.read_text().split()
    assert {"-O1", "-g", "-DTIMES=3", f"-L{tmp_path}"} <= {*words}
    assert not {"-O3", "-march=native"} & {*words}


def test_other_flags_are_other_code() -> None:
    results = [tripled(lp.CCompiler(defines=[f"TIMES={n}"]))()[1][0][1] for n in (2, 5, 2)]
    assert results == [2, 5, 2]


def test_a_target_without_its_compiler_or_library() -> None:
    with pytest.raises(CompilationError, match=r"no no-such-cc(.|\n)*CCompiler\(cc="):
        tripled(lp.CCompiler("no-such-cc", defines="TIMES=1"))()
    with pytest.raises(CompilationError, match="no-such-library"):
        tripled(lp.CCompiler(libraries=["no-such-library"], defines="TIMES=1"))()


def test_compilers_of_targets_are_checked_and_kept() -> None:
    wrong: list[dict[str, Any]] = [{"cc": ""}, {"cflags": [3]}, {"libraries": 3}]
    for fields in wrong:
        with pytest.raises(lp.KgenError, match="of a CCompiler"):
            lp.CCompiler(**fields)
    with pytest.raises(lp.KgenError, match="compiler"):
        lp.ExecutableCTarget(compiler="gcc")  # type: ignore[arg-type]
    knl = tripled(lp.CCompiler(cflags=["-O1"]))
    assert pickle.loads(pickle.dumps(knl)).target == knl.target != lp.ExecutableCTarget()  # noqa: S301
    assert lp.ExecutableCTarget() == lp.ExecutableCTarget(None)


FULL_DISK = """
import resource
import numpy as np
import kgen as lp
knl = lp.make_kernel("{ [i]: 0 <= i < 3 }", "out[i] = 2*a[i]", target=lp.ExecutableCTarget())
resource.setrlimit(resource.RLIMIT_FSIZE, (%d, %d))
try:
    knl(a=np.zeros(3))
except lp.CompilationError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("size", "message"), [(20, "cannot be written"), (5000, "compiler rejects")]
)
def test_a_full_disk_is_an_error_of_the_compilation(
    size: int, message: str, tmp_path: Path
) -> None:
    folders = {"KGEN_CACHE_DIR": str(tmp_path / "cache"), "TMPDIR": str(tmp_path)}
    script = FULL_DISK % (size, size)
    shown = subprocess.run(
        [sys.executable, "-B", "-c", script],
        check=False,
        env={**os.environ, **folders},
        capture_output=True,
        text=True,
    )
    assert (shown.returncode, message in shown.stdout) == (0, True), shown
    assert not [path for path in tmp_path.rglob("*") if path.name.startswith("partial-")]


def test_a_folder_for_temporary_files_that_is_missing(
    nvcc: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("NVCC", nvcc)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "missing"))
    with pytest.raises(CompilationError, match=r"temporary files(.|\n)*variable TMPDIR"):
        compile_cubin(DiskCache(tmp_path), KERNEL + "// new", ("-arch=sm_90",), "f")
