"""Compilers that are run as programs."""

from __future__ import annotations

from pathlib import Path

import pytest

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
