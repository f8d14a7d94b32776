"""Exported libraries in projects of CMake: as a folder of these, and installed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import kgen as lp
from kgen.exporters.cmake import cmake_folder
from kgen.exporters.export import library_files
from kgen.runtime.c import EXACT_ROOTS
from kgen.runtime.toolchain import find_c_compiler, knows
from tests.exporters import kernels
from tests.exporters.test_c import scale, turned

MAIN = """
#include "demo.hpp"
#include <cstdio>
int main() {
  float a[2][1] = {{1}, {2}}, b[2][1];
  demo::scale(a, b);
  std::printf("%.0f", b[1][0]);
}
"""
PROJECT = """
cmake_minimum_required(VERSION 3.18)
project(program LANGUAGES CXX)
{library}
add_executable(program main.cpp)
target_link_libraries(program PRIVATE demo::c)
"""


KERNELS = """
import kgen as lp
args = [lp.GlobalArg("a, out", "float32", shape="n, m"), ...]
domain = "{ [i, j]: 0 <= i < n and 0 <= j < m }"
scale = lp.make_kernel(domain, "out[i, j] = 2*a[i, j]", args, name="scale")
"""
GENERATED = """
find_package(kgen REQUIRED)
kgen_add_library(demo SCRIPT ../kernels.py:scale TARGETS c)
"""


def run(*command: str | Path) -> str:
    """Return what a command prints, of which all must be well."""
    done = subprocess.run(command, check=False, timeout=120, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def built(cmake: str, folder: Path, library: str, *options: str) -> Path:
    """Return the program of a project in *folder* that has the library by a line of CMake."""
    folder.mkdir()
    (folder / "main.cpp").write_text(MAIN)
    (folder / "CMakeLists.txt").write_text(PROJECT.format(library=library))
    run(cmake, "-S", folder, "-B", folder / "build", *options)
    run(cmake, "--build", folder / "build")
    return folder / "build" / "program"


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a library."""
    folder = tmp_path_factory.mktemp("demo")
    lp.export([scale(), turned()], folder, targets="c", namespace="demo")
    return folder


@pytest.fixture(scope="module")
def installed(cmake: str, demo: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder in which the library is installed."""
    prefix, build = tmp_path_factory.mktemp("prefix"), tmp_path_factory.mktemp("build")
    run(cmake, "-S", demo, "-B", build)
    run(cmake, "--build", build)
    run(cmake, "--install", build, "--prefix", prefix)
    return prefix


def test_library_in_a_folder_of_the_project(cmake: str, demo: Path, tmp_path: Path) -> None:
    program = built(cmake, tmp_path / "project", f'add_subdirectory("{demo.as_posix()}" demo)')
    assert run(program) == "4"


def test_two_libraries_in_one_project(cmake: str, demo: Path, tmp_path: Path) -> None:
    lp.export(turned(), tmp_path / "other", targets="c", namespace="other")
    folders = f'add_subdirectory("{demo.as_posix()}" demo)\nadd_subdirectory(../other other)'
    folders += "\nlink_libraries(other::c)"
    assert run(built(cmake, tmp_path / "project", folders)) == "4"


def test_installed_library(cmake: str, installed: Path, tmp_path: Path) -> None:
    found = "find_package(demo REQUIRED COMPONENTS c)"
    program = built(cmake, tmp_path / "project", found, f"-DCMAKE_PREFIX_PATH={installed}")
    assert run(program) == "4"


def test_components_that_were_not_built_are_not_found(
    cmake: str, installed: Path, tmp_path: Path
) -> None:
    found = "find_package(demo REQUIRED COMPONENTS opencl)"
    with pytest.raises(AssertionError, match="component 'opencl' was not built"):
        built(cmake, tmp_path / "project", found, f"-DCMAKE_PREFIX_PATH={installed}")


def test_options_of_the_compiler() -> None:
    knl = lp.make_kernel("{ [i]: 0 <= i < 4 }", "out[i] = 1.0", name="ones", target=lp.CTarget())
    knl = lp.set_options(knl, build_options=["-fopenmp", "-DX=$HOME;", "-lblas"])
    text = library_files(knl, targets=("c", "cuda"), namespace="demo")["CMakeLists.txt"]
    assert r'(src/demo_ones.c PROPERTIES COMPILE_OPTIONS "-DX=\$HOME\;")' in text
    assert "demo_ones.cu PROPERTIES" not in text  # the options are for C
    assert 'kgen_library(demo OPENMP\n  LINK "-lblas"\n' in text


def test_options_of_nvcc() -> None:
    knl = lp.make_kernel("{ [i]: 0 <= i < 4 }", "out[i] = 1.0", name="ones", target=lp.CudaTarget())
    knl = lp.set_options(knl, build_options="--use_fast_math")
    text = library_files(knl, targets=("c", "cuda"), namespace="demo")["CMakeLists.txt"]
    assert '(src/demo_ones.cu PROPERTIES COMPILE_OPTIONS "--use_fast_math")' in text
    assert "demo_ones.c PROPERTIES" not in text


def test_openmp(cmake: str, tmp_path: Path) -> None:
    knl = lp.make_kernel("{ [i]: 0 <= i < 4 }", "out[i] = 1.0", name="ones", target=lp.CTarget())
    knl = lp.set_options(knl, build_options="-fopenmp")
    lp.export(knl, tmp_path, targets="c", namespace="demo")
    run(cmake, "-S", tmp_path, "-B", tmp_path / "build")
    run(cmake, "--build", tmp_path / "build")
    flags = (tmp_path / "build/CMakeFiles/demo_c.dir/flags.make").read_text()
    assert "-fopenmp" in flags
    assert "-O3 -fno-math-errno -fno-trapping-math" in flags
    assert (EXACT_ROOTS in flags) == knows(find_c_compiler(), (EXACT_ROOTS,))


@pytest.fixture
def find_kgen(monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    """Return the options with which CMake finds this kgen."""
    monkeypatch.setenv("PYTHONPATH", str(Path(lp.__file__).parent.parent))
    return f"-Dkgen_DIR={cmake_folder()}", f"-DKGEN_PYTHON={sys.executable}"


def test_generated_library(cmake: str, tmp_path: Path, find_kgen: tuple[str, str]) -> None:
    (tmp_path / "kernels.py").write_text(KERNELS)
    program = built(cmake, tmp_path / "project", GENERATED, *find_kgen)
    assert run(program) == "4"
    (tmp_path / "kernels.py").write_text(KERNELS.replace("2*a", "3*a"))
    run(cmake, "--build", program.parent)
    assert run(program) == "6"


def test_errors_of_kgen_end_configuration(
    cmake: str, tmp_path: Path, find_kgen: tuple[str, str]
) -> None:
    (tmp_path / "kernels.py").write_text(KERNELS.replace("scale =", "scaled ="))
    with pytest.raises(AssertionError, match=r"kgen cannot export demo[^$]*there is no 'scale'"):
        built(cmake, tmp_path / "project", GENERATED, *find_kgen)


CUDA = """
#include "demo.hpp"
#include <cstdio>
int main() {
  try { demo::scale(nullptr, demo::device_view<float, 1>(nullptr, {3}), {nullptr, {3}}); }
  catch (demo::error const &error) { std::printf("%s", error.what()); }
}
"""


def test_cuda(cmake: str, nvcc: str, tmp_path: Path) -> None:
    lp.export(kernels.scale(), tmp_path / "demo", targets="cuda", namespace="demo")
    driver = tmp_path / "libcuda.so"
    fake = Path(__file__).with_name("fake_cuda.c")
    run(nvcc, "-shared", "-cudart=none", "-Xcompiler=-fPIC", fake, "-o", driver)
    (tmp_path / "main.cpp").write_text(CUDA)
    project = PROJECT.format(library="add_subdirectory(demo)").replace("demo::c", "demo::cuda")
    (tmp_path / "CMakeLists.txt").write_text(project)
    options = (f"-DCUDA_cuda_driver_LIBRARY={driver}", "-DDEMO_CUDA_ARCHITECTURES=80;90")
    found = run(cmake, "-S", tmp_path, "-B", tmp_path / "build", *options)
    if "demo::cuda is not built" in found:
        pytest.skip("CMake finds no CUDA toolkit, but nvcc alone")
    run(cmake, "--build", tmp_path / "build")
    assert run(tmp_path / "build" / "program") == "scale: array 'a' is a null pointer"
