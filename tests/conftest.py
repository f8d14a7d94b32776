"""Fixtures that stand for what a machine may lack, and what to do where it does.

``device`` and ``backend`` stand for several, on which a test runs in turn.
A test that needs an OpenCL device, a CUDA device, nvcc, CMake, gfortran or MPI asks for the fixture
of that name and is skipped, with the reason, where there is none. ``KGEN_REQUIRE`` names those
whose absence is a failure instead (``KGEN_REQUIRE=opencl,nvcc``). ``KGEN_OPENCL_PLATFORM`` is a
part of the OpenCL platform's name; without it PoCL is taken, else the first platform.
"""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import hypothesis
import pytest

from tests.backends import BACKENDS, DEVICES, Backend

if TYPE_CHECKING:
    import pyopencl as cl

MARKER_OF_FIXTURE = {
    "opencl_queue": "opencl",
    "opencl_headers": "opencl_headers",
    "cuda_context": "cuda",
    "nvcc": "nvcc",
    "cmake": "cmake",
    "gfortran": "fortran",
    "mpiexec": "mpi",
}

# The suite checks the same examples in every run; --hypothesis-profile=explore looks for others.
hypothesis.settings.register_profile("kgen", deadline=None, print_blob=True, derandomize=True)
hypothesis.settings.register_profile("explore", deadline=None, print_blob=True)
hypothesis.settings.load_profile("kgen")

POCL = "portable computing language"
_CACHE_ROOT = pytest.StashKey[Path]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add what rewrites expected text."""
    parser.addoption(
        "--update-docs", action="store_true", help="write what examples print into docs/"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Give the run cache folders of its own, shared by its workers: no test may need a warm one."""
    if not hasattr(config, "workerinput"):
        root = Path(tempfile.mkdtemp(prefix="kgen-tests-"))
        config.stash[_CACHE_ROOT] = root
        os.environ["XDG_CACHE_HOME"] = str(root)
        if os.environ.pop("PYTHONDONTWRITEBYTECODE", ""):  # programs of tests import all of kgen
            os.environ["PYTHONPYCACHEPREFIX"] = str(root / "bytecode")


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove what pytest_configure made."""
    root = config.stash.get(_CACHE_ROOT, None)
    if root is not None:
        shutil.rmtree(root, ignore_errors=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark each test with the devices that its fixtures stand for."""
    for item in items:
        names = getattr(item, "fixturenames", ())
        params = item.callspec.params if hasattr(item, "callspec") else {}
        markers = {MARKER_OF_FIXTURE[name] for name in names if name in MARKER_OF_FIXTURE}
        chosen = params.get("device"), params.get("backend")
        markers |= {name for name in DEVICES if name in chosen}
        for marker in markers:
            item.add_marker(marker)


def required() -> frozenset[str]:
    """Return the names in KGEN_REQUIRE, which must be markers."""
    names = frozenset(filter(None, os.environ.get("KGEN_REQUIRE", "").split(",")))
    known = sorted(MARKER_OF_FIXTURE.values())
    if not names.issubset(known):
        raise pytest.UsageError(f"KGEN_REQUIRE is {sorted(names)}; the known names are {known}")
    return names


def lacks(need: str, reason: str) -> NoReturn:
    """Skip the test for *reason*, or fail it where KGEN_REQUIRE names *need*."""
    if need in required():
        pytest.fail(f"KGEN_REQUIRE names {need}: {reason}", pytrace=False)
    pytest.skip(reason)


def import_or_lack(module: str, need: str) -> Any:
    """Import an optional package for the fixture of *need*."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        lacks(need, f"no {module} ({error})")


def choose_platform(platforms: list[cl.Platform], wanted: str) -> cl.Platform:
    """Return the platform whose name holds *wanted*; without one PoCL, else the first."""
    for platform in platforms:
        if (wanted.lower() or POCL) in platform.name.lower():
            return platform
    if wanted or not platforms:
        names = [platform.name for platform in platforms]
        lacks("opencl", f"no OpenCL platform matches {wanted!r}; there are {names}")
    return platforms[0]


@pytest.fixture(scope="session")
def opencl_queue() -> cl.CommandQueue:
    """Return a queue on the first device of the chosen OpenCL platform."""
    pyopencl = import_or_lack("pyopencl", "opencl")
    try:
        platforms = pyopencl.get_platforms()
    except pyopencl.LogicError as error:  # how the loader says that it found none
        lacks("opencl", f"no OpenCL platform ({error})")
    chosen = choose_platform(platforms, os.environ.get("KGEN_OPENCL_PLATFORM", ""))
    context = pyopencl.Context([chosen.get_devices()[0]])
    queue: cl.CommandQueue = pyopencl.CommandQueue(context)
    return queue


@pytest.fixture(scope="session")
def opencl_headers(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    """Return what the C compiler is passed for programs that use OpenCL."""
    code = tmp_path_factory.mktemp("opencl") / "code.c"
    code.write_text("#include <CL/cl.h>\nint main(void) { return clReleaseEvent(NULL) == 0; }\n")
    command = ["cc", "-DCL_TARGET_OPENCL_VERSION=120", str(code), "-lOpenCL"]
    found = subprocess.run(
        [*command, "-o", str(code.with_suffix(""))], capture_output=True, text=True, check=False
    )
    if found.returncode:
        lacks("opencl_headers", f"no OpenCL for C programs ({found.stderr.splitlines()[0]})")
    return ("-lOpenCL",)


@pytest.fixture(scope="session")
def cuda_context() -> Iterator[Any]:
    """Make the first CUDA device's primary context current, for pycuda."""
    driver = import_or_lack("pycuda.driver", "cuda")
    try:
        driver.init()
        device = driver.Device(0)
    except driver.Error as error:
        lacks("cuda", f"no CUDA device ({error})")
    context = device.retain_primary_context()
    context.push()
    yield context
    context.pop()


@pytest.fixture(scope="session", params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> Backend:
    """Return where the test runs: on the host, on OpenCL and on CUDA in turn."""
    return BACKENDS[request.param](request.getfixturevalue)


@pytest.fixture(scope="session", params=DEVICES)
def device(request: pytest.FixtureRequest) -> Backend:
    """Return the device on which the test runs: OpenCL's and CUDA's in turn."""
    return BACKENDS[request.param](request.getfixturevalue)


@pytest.fixture(scope="session")
def nvcc() -> str:
    """Return the path of the CUDA compiler: the PATH's, else that of the extra ``nvcc``."""
    installed = Path(sysconfig.get_path("purelib")).glob("nvidia/cu*/bin/nvcc")
    path = shutil.which("nvcc") or next(map(str, sorted(installed)), None)
    if path is None:
        lacks("nvcc", "no nvcc on the PATH, nor the extra 'nvcc'")
    return path


@pytest.fixture(scope="session")
def cmake() -> str:
    """Return the path of CMake."""
    return _on_path("cmake", "cmake")


@pytest.fixture(scope="session")
def gfortran() -> str:
    """Return the path of GNU's compiler for Fortran."""
    return _on_path("gfortran", "fortran")


@pytest.fixture(scope="session")
def mpiexec() -> str:
    """Return the path of what starts ranks: that of the package beside mpi4py, else MPI's own."""
    import_or_lack("mpi4py", "mpi")
    beside = Path(sys.executable).with_name("mpiexec")
    return str(beside) if beside.exists() else _on_path("mpiexec", "mpi")


def _on_path(command: str, need: str) -> str:
    path = shutil.which(command)
    if path is None:
        lacks(need, f"no {command} on the PATH (Debian: apt install {command})")
    return path


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what tests put on record with ``record_property``."""
    for report in terminalreporter.getreports("passed"):
        for name, value in report.user_properties:
            terminalreporter.write_line(f"{name}: {value}")
