"""Whole kernels are accepted by the compiler of every target."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kgen.targets.c import CTarget
from kgen.targets.cuda import CudaTarget
from kgen.targets.opencl import PyOpenCLTarget
from tests.targets.programs import modules_for
from tests.targets.support import compile_c, compile_cuda, merge_sources

if TYPE_CHECKING:
    import pyopencl as cl


def test_c(tmp_path: Path) -> None:
    modules = modules_for(CTarget()).values()
    sources = [text for m in modules for text in (m.device_source, m.host_source)]
    library = compile_c(merge_sources(sources), tmp_path)
    for module in modules:
        for launch in module.launches:
            assert hasattr(library, launch.function)


def test_opencl(opencl_queue: cl.CommandQueue) -> None:
    pyopencl = pytest.importorskip("pyopencl")
    modules = modules_for(PyOpenCLTarget()).values()
    source = merge_sources(module.device_source for module in modules)
    program = pyopencl.Program(opencl_queue.context, source).build()
    names = {kernel.function_name for kernel in program.all_kernels()}
    assert names == {launch.function for module in modules for launch in module.launches}


def test_cuda(nvcc: str, tmp_path: Path) -> None:
    modules = modules_for(CudaTarget()).values()
    compile_cuda(merge_sources(module.device_source for module in modules), tmp_path, nvcc)
    entries = (tmp_path / "code.ptx").read_text()
    for module in modules:
        for launch in module.launches:
            assert f".entry {launch.function}(" in entries
