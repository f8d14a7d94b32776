"""The examples run, at a small size, on each device that there is."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import harness
import numpy as np
import pytest

import kgen as lp
from kgen.exporters.cmake import cmake_folder
from tests.exporters.test_cuda import compiled_for_cuda

EXAMPLES = Path(__file__).parent.parent / "examples"
LISTED = (EXAMPLES / "README.md").read_text()


def run_example(
    name: str, *arguments: str, launcher: Sequence[str] = (), **environment: str
) -> str:
    """Run an example as a user does; return what it prints."""
    command = [*launcher, sys.executable, str(EXAMPLES / name), *arguments]
    path = [str(EXAMPLES.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    done = subprocess.run(
        command,
        cwd=EXAMPLES.parent,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.name)
def test_example_is_listed(path: Path) -> None:
    assert f"[{path.name}]({path.name})" in LISTED


def check_pde_to_code(text: str, function: str) -> None:
    assert text.count(function) == 3
    assert text.count("maximal error against numpy") == 3


def test_pde_to_code_on_the_host() -> None:
    text = run_example("pde_to_code.py", "--device", "c", "--n", "33")
    check_pde_to_code(text, "void evaluate_pde(")


def test_pde_to_code_on_opencl(opencl_queue: Any) -> None:
    platform = opencl_queue.device.platform.name
    text = run_example("pde_to_code.py", "--device=opencl", "--n=33", PYOPENCL_CTX=platform)
    check_pde_to_code(text, "evaluate_pde(")


@pytest.mark.usefixtures("cuda_context")
def test_pde_to_code_on_cuda() -> None:
    text = run_example("pde_to_code.py", "--device=cuda", "--n=33")
    check_pde_to_code(text, "evaluate_pde(")


def test_pde_to_code_notices_a_wrong_result(capsys: pytest.CaptureFixture[str]) -> None:
    program = runpy.run_path(str(EXAMPLES / "pde_to_code.py"))
    main = program["main"]
    main.__globals__["evaluate_in_numpy"] = lambda u: u[1:-1, 1:-1]
    assert main(["--n", "5"]) == 1
    assert "the error is above" in capsys.readouterr().err


def test_reduce_on_the_host() -> None:
    text = run_example("reduce.py", "--n", "10007")
    assert text.count("of 10007 numbers: relative error") == 2


def test_reduce_on_opencl(opencl_queue: Any) -> None:
    platform = opencl_queue.device.platform.name
    text = run_example("reduce.py", "--device=opencl", "--n=300007", PYOPENCL_CTX=platform)
    assert text.count("of 300007 numbers: relative error") == 2


@pytest.mark.usefixtures("cuda_context")
def test_reduce_on_cuda() -> None:
    text = run_example("reduce.py", "--device=cuda", "--n=300007")
    assert text.count("of 300007 numbers: relative error") == 2


def test_reduce_notices_a_wrong_result() -> None:
    program = runpy.run_path(str(EXAMPLES / "reduce.py"))
    program["main"].__globals__["OPERATIONS"] = {"sum": np.max}
    assert program["main"](["--n", "500"]) == 1


def test_histogram_on_the_host() -> None:
    text = run_example("histogram.py", "--n", "10007")
    assert text.count("0 of 256 counters differ") == 4


def test_histogram_on_opencl(opencl_queue: Any) -> None:
    platform = opencl_queue.device.platform.name
    text = run_example("histogram.py", "--device=opencl", "--n=10007", PYOPENCL_CTX=platform)
    assert text.count("0 of 256 counters differ") == 8


@pytest.mark.usefixtures("cuda_context")
def test_histogram_on_cuda() -> None:
    text = run_example("histogram.py", "--device=cuda", "--n=10007")
    assert text.count("0 of 256 counters differ") == 8


PROGRAMS = {
    "dg.py": "300 elements: maximal error",
    "spmv.py": "all stages: maximal error",
    "compact.py": "of 300 numbers packed",
    "particles.py": "300 particles in",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_program_on_the_host(name: str) -> None:
    assert PROGRAMS[name] in run_example(name, "--n=300")


@pytest.mark.parametrize("name", PROGRAMS)
def test_program_on_opencl(name: str, opencl_queue: Any) -> None:
    platform = opencl_queue.device.platform.name
    text = run_example(name, "--device=opencl", "--n=300", PYOPENCL_CTX=platform)
    assert PROGRAMS[name] in text


@pytest.mark.usefixtures("cuda_context")
@pytest.mark.parametrize("name", PROGRAMS)
def test_program_on_cuda(name: str) -> None:
    assert PROGRAMS[name] in run_example(name, "--device=cuda", "--n=300")


@pytest.mark.parametrize(
    ("name", "reference"),
    [
        ("dg.py", "divergence_in_numpy"),
        ("spmv.py", "multiply_in_numpy"),
        ("compact.py", "compact_in_numpy"),
        ("particles.py", "count_in_numpy"),
    ],
)
def test_program_notices_a_wrong_result(
    name: str, reference: str, capsys: pytest.CaptureFixture[str]
) -> None:
    main = runpy.run_path(str(EXAMPLES / name))["main"]
    right = main.__globals__[reference]
    main.__globals__[reference] = lambda *data: 1 + right(*data)
    assert main(["--n", "50"]) == 1
    assert "the error is above" in capsys.readouterr().err


#: Examples with the harness, small: all of them check themselves, and end with an error otherwise.
SMALL = {
    "advection.py": ["--n=4"],
    "fem.py": ["--n=8"],
    "fft.py": ["--n=20"],
    "heat_wave.py": ["--n=48", "--steps=6"],
    "image_filters.py": ["--n=100"],
    "kuramoto.py": ["--n=3", "--steps=10"],
    "lattice_boltzmann.py": ["--n=20", "--steps=5"],
    "life.py": ["--n=40", "--steps=20"],
    "mandelbrot.py": ["--n=40"],
    "multigrid.py": ["--n=16"],
    "nbody.py": ["--n=50", "--steps=2"],
    "option_prices.py": ["--n=5000"],
    "sparse_solvers.py": ["--n=8"],
}


def run_small(name: str, device: str, *more: str) -> None:
    run = runpy.run_path(str(EXAMPLES / name))
    run["main"]([f"--device={device}", *SMALL[name], *more])


@pytest.fixture(autouse=True)
def measure_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harness, "ROUNDS", 1)


@pytest.mark.parametrize("name", SMALL)
def test_small_example_on_the_host(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    picture = tmp_path / "result.png"
    run_small(name, "c", f"--picture={picture}")
    text = capsys.readouterr().out
    assert "times as fast" in text
    assert picture.exists() or "matplotlib is not installed" in text


@pytest.mark.parametrize("name", SMALL)
def test_small_example_on_opencl(
    name: str, opencl_queue: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYOPENCL_CTX", opencl_queue.device.platform.name)
    run_small(name, "opencl")


@pytest.mark.usefixtures("cuda_context")
@pytest.mark.parametrize("name", SMALL)
def test_small_example_on_cuda(name: str) -> None:
    run_small(name, "cuda")


@pytest.mark.parametrize("name", SMALL)
def test_small_example_has_a_title_and_few_lines(name: str) -> None:
    text = (EXAMPLES / name).read_text()
    _, title, line, *_ = text.splitlines()
    assert line == "=" * len(title)
    assert text.count("\n") < 120


def test_small_example_notices_a_wrong_result() -> None:
    main = runpy.run_path(str(EXAMPLES / "life.py"))["main"]
    main.__globals__["generation_in_numpy"] = lambda old, new: None
    with pytest.raises(SystemExit, match="the error is above the limit"):
        main(["--n=40", "--steps=2"])


def test_a_picture_without_matplotlib_is_missed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    run_small("life.py", "c", f"--picture={tmp_path / 'life.png'}")
    assert "matplotlib is not installed" in capsys.readouterr().out


def run_mpi_heat(mpiexec: str, count: int, *arguments: str, **environment: str) -> None:
    launcher = [mpiexec, "-n", str(count)]
    # Open MPI refuses to start more ranks than there are cores, and to start as root
    environment["OMPI_ALLOW_RUN_AS_ROOT"] = environment["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] = "1"
    environment["OMPI_MCA_rmaps_base_oversubscribe"] = "1"
    options = ["--steps=20", *arguments]
    text = run_example("mpi_heat.py", *options, launcher=launcher, **environment)
    assert f"{count} ranks" in text
    assert "equal to one rank, bit for bit: True" in text


def test_mpi_heat_on_the_host(mpiexec: str) -> None:
    run_mpi_heat(mpiexec, 3, "--shape", "50", "40")


def test_mpi_heat_in_blocks_of_few_points(mpiexec: str) -> None:
    run_mpi_heat(mpiexec, 4, "--shape", "5", "7", "--in-turn")


def test_mpi_heat_on_opencl(mpiexec: str, opencl_queue: Any) -> None:
    platform = opencl_queue.device.platform.name
    options = ("--device=opencl", "--shape", "150", "140")
    run_mpi_heat(mpiexec, 2, *options, PYOPENCL_CTX=platform)


@pytest.mark.usefixtures("cuda_context")
def test_mpi_heat_on_cuda(mpiexec: str) -> None:
    run_mpi_heat(mpiexec, 2, "--device=cuda", "--shape", "150", "140")


@pytest.mark.usefixtures("mpiexec")
def test_mpi_heat_notices_a_wrong_result() -> None:
    text = (
        f"import runpy; main = runpy.run_path({str(EXAMPLES / 'mpi_heat.py')!r})['main']; "
        "main.__globals__['solve_in_numpy'] = lambda shape, steps: 2; "
        "raise SystemExit(main(['--steps=5']))"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "the result is wrong" in done.stderr


@pytest.mark.parametrize("options", [[], ["--stand-in"]])
def test_blas_call(options: list[str]) -> None:
    assert "300 layers by" in run_example("blas_call.py", "--n=300", *options)


def test_blas_call_notices_a_wrong_result(capsys: pytest.CaptureFixture[str]) -> None:
    main = runpy.run_path(str(EXAMPLES / "blas_call.py"))["main"]
    main.__globals__["STAND_IN"] = main.__globals__["STAND_IN"].replace("alpha *", "2 * alpha *")
    assert main(["--n", "5", "--stand-in"]) == 1
    assert "the error is above" in capsys.readouterr().err


@pytest.fixture(scope="module")
def cxx_host(cmake: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder in which the programs of ``cxx_host/`` are built, but those for CUDA."""
    folder = tmp_path_factory.mktemp("cxx_host")
    build_cxx_host(cmake, folder, "-DPDE_CUDA=OFF")
    return folder


def build_cxx_host(cmake: str, folder: Path, *options: str) -> None:
    """Build the programs of ``cxx_host/``."""
    path = [str(EXAMPLES.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path)}
    found = [f"-Dkgen_DIR={cmake_folder()}", f"-DKGEN_PYTHON={sys.executable}", *options]
    source = str(EXAMPLES / "cxx_host")
    for command in (["-S", source, "-B", str(folder), *found], ["--build", str(folder), "-j2"]):
        done = subprocess.run(
            [cmake, *command], env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr


def run_cxx_host(folder: Path, *programs: str) -> None:
    """Run programs that check their results."""
    for program in programs:
        command = [str(folder / program)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "error <= 1e-" in done.stdout


def test_cxx_host(cxx_host: Path) -> None:
    run_cxx_host(cxx_host, "heat", "cg", "heat_in_c")


@pytest.mark.usefixtures("gfortran")
def test_cxx_host_in_fortran(cxx_host: Path) -> None:
    run_cxx_host(cxx_host, "heat_in_fortran")


@pytest.mark.usefixtures("opencl_queue", "opencl_headers")
def test_cxx_host_on_opencl(cxx_host: Path) -> None:
    run_cxx_host(cxx_host, "heat_opencl", "cg_opencl")


def test_cxx_host_on_cuda(cuda_context: Any, nvcc: str, tmp_path: Path) -> None:
    """Build the programs without CMake, which a GPU host may lack."""
    major, minor = cuda_context.get_device().compute_capability()
    made = runpy.run_path(str(EXAMPLES / "cxx_host" / "kernels.py"))
    programs = [made[name]() for name in ("heat_step", "multiply", "dot", "axpby")]
    files = lp.export(programs, tmp_path, targets="cuda", namespace="pde")
    code = compiled_for_cuda(nvcc, files, tmp_path, f"sm_{major}{minor}")
    for name in ("heat", "cg"):
        source = str(EXAMPLES / "cxx_host" / f"{name}.cpp")
        command = [nvcc, "-DUSE_CUDA", f"-I{tmp_path / 'include'}", source, *map(str, code)]
        subprocess.run([*command, "-lcuda", "-o", str(tmp_path / name)], check=True)
    run_cxx_host(tmp_path, "heat", "cg")


def test_tune_matmul() -> None:
    text = run_example("tune_matmul.py", "96", "3")
    assert "of numpy's" in text
    assert "best" in text
