"""Every expression, compiled for every target; its values are numpy's."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from kgen.targets.builder import CFamilyTarget
from kgen.targets.c import CTarget
from kgen.targets.cuda import CudaTarget
from kgen.targets.module import Module
from kgen.targets.opencl import PyOpenCLTarget
from tests.targets.expressions import CASES, Case, N
from tests.targets.support import call, compile_c, compile_cuda, merge_sources, module_of

if TYPE_CHECKING:
    import pyopencl as cl

NUMBERS = range(len(CASES))
NAMES = [case.text for case in CASES]


def modules(target: CFamilyTarget) -> list[Module]:
    return [
        module_of(case.instruction, case.dtypes, target=target, name=f"case{k}")
        for k, case in enumerate(CASES)
    ]


def output(module: Module) -> np.ndarray[Any, Any]:
    (dtype,) = [info.dtype for info in module.arguments if info.name == "out"]
    return np.zeros(N, dtype)


def check(case: Case, given: np.ndarray[Any, Any]) -> None:
    expected = case.expected(np.arange(N, dtype=np.int32), **case.arrays())
    kinds = (np.float32, np.complex64)
    is_single = any(dtype in kinds for dtype in (*case.dtypes.values(), given.dtype))
    np.testing.assert_allclose(given, expected, rtol=3e-6 if is_single else 1e-13)


@pytest.fixture(scope="module")
def c_modules() -> list[Module]:
    return modules(CTarget())


@pytest.fixture(scope="module")
def library(c_modules: list[Module], tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    source = merge_sources(module.device_source for module in c_modules)
    return compile_c(source, tmp_path_factory.mktemp("c"))


@pytest.mark.parametrize("k", NUMBERS, ids=NAMES)
def test_c(k: int, c_modules: list[Module], library: ctypes.CDLL) -> None:
    out = output(c_modules[k])
    call(library, c_modules[k], {**CASES[k].arrays(), "out": out, "n": N})
    check(CASES[k], out)


@pytest.fixture(scope="module")
def cl_modules() -> list[Module]:
    return modules(PyOpenCLTarget())


@pytest.fixture(scope="module")
def program(cl_modules: list[Module], opencl_queue: cl.CommandQueue) -> cl.Program:
    pyopencl = pytest.importorskip("pyopencl")
    source = merge_sources(module.device_source for module in cl_modules)
    built: cl.Program = pyopencl.Program(opencl_queue.context, source).build()
    return built


@pytest.mark.parametrize("k", NUMBERS, ids=NAMES)
def test_opencl(
    k: int, cl_modules: list[Module], program: cl.Program, opencl_queue: cl.CommandQueue
) -> None:
    array = pytest.importorskip("pyopencl.array")
    out = array.to_device(opencl_queue, output(cl_modules[k]))
    on_device = {
        name: array.to_device(opencl_queue, values) for name, values in CASES[k].arrays().items()
    }
    given: dict[str, Any] = {name: values.data for name, values in on_device.items()}
    given |= {"out": out.data, "n": np.int32(N)}
    kernel = getattr(program, cl_modules[k].launches[0].function)
    parameters = cl_modules[k].launches[0].parameters
    kernel(opencl_queue, (1,), (1,), *(given[name] for name in parameters))
    check(CASES[k], out.get())


def test_cuda(nvcc: str, tmp_path: Path) -> None:
    source = merge_sources(module.device_source for module in modules(CudaTarget()))
    compile_cuda(source, tmp_path, nvcc)


def test_cuda_values(cuda_context: Any) -> None:
    compiler = pytest.importorskip("pycuda.compiler")
    gpuarray = pytest.importorskip("pycuda.gpuarray")
    of_cases = modules(CudaTarget())
    source = merge_sources(module.device_source for module in of_cases)
    built = compiler.SourceModule(source, no_extern_c=True)
    for case, module in zip(CASES, of_cases, strict=True):
        on_device = {name: gpuarray.to_gpu(values) for name, values in case.arrays().items()}
        out = gpuarray.to_gpu(output(module))
        given = {name: values.gpudata for name, values in on_device.items()}
        given |= {"out": out.gpudata, "n": np.int32(N)}
        (launch,) = module.launches
        function = built.get_function(launch.function)
        function(*(given[name] for name in launch.parameters), grid=(1, 1), block=(1, 1, 1))
        check(case, out.get())
