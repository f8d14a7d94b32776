"""The components on this machine: packages, compilers, devices, the cache, and missing ones."""

from __future__ import annotations

import importlib.metadata as metadata
import platform
import re
import shlex
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kgen.errors import CompilationError, InvocationError
from kgen.ir.optional import DISTRIBUTION
from kgen.ir.target import TargetBase
from kgen.runtime.cache import CacheUsage, process_caches
from kgen.runtime.devices import RunningOn
from kgen.runtime.system import is_administrator
from kgen.runtime.toolchain import (
    compiler_version,
    find_c_compiler,
    find_nvcc,
    knows,
    openmp_flags,
)
from kgen.targets.cuda import PyCudaTarget
from kgen.targets.opencl import PyOpenCLTarget
from kgen.version import VERSION_TEXT

__all__ = ["Compiler", "Installation", "Missing", "Package", "command_for", "find_installation"]

#: The extras of kgen that users of it install.
_EXTRAS = ("opencl", "cuda", "nvcc", "plot")

#: The commands that install a C compiler, OpenMP and drivers, by package manager.
_INSTALLERS = {
    "apt-get": {
        "c": "apt-get install gcc libc6-dev",
        "openmp": "apt-get install libgomp1 libomp-dev",
        "opencl": "apt-get install pocl-opencl-icd",
        "cuda": "apt-get install nvidia-driver",
    },
    "dnf": {
        "c": "dnf install gcc glibc-devel",
        "openmp": "dnf install libgomp libomp-devel",
        "opencl": "dnf install pocl",
        "cuda": "dnf install akmod-nvidia",
    },
    "pacman": {
        "c": "pacman -S gcc",
        "openmp": "pacman -S openmp",
        "opencl": "pacman -S pocl",
        "cuda": "pacman -S nvidia",
    },
    "brew": {
        "c": "xcode-select --install",
        "openmp": "brew install libomp",
        "opencl": "brew install pocl",
    },
    "windows": {
        "c": "pacman -S mingw-w64-ucrt-x86_64-gcc",
        "openmp": "pacman -S mingw-w64-ucrt-x86_64-gcc",
    },
    "conda": {
        "c": "conda install -c conda-forge c-compiler",
        "openmp": "conda install -c conda-forge openmp",
        "opencl": "conda install -c conda-forge pocl",
    },
}
_ELSEWHERE = {
    "cuda": "the driver is at https://www.nvidia.com/drivers",
    "opencl": "the driver of a GPU has it",
}

_TEST_CODE = "#include <math.h>\ndouble root(double x) { return sqrt(x); }\n"


@dataclass(frozen=True, kw_only=True)
class Package:
    """A package that kgen needs, or that an extra of kgen brings."""

    name: str
    #: the supported versions, such as ``>=2025.1``
    needs: str
    #: the installed version, ``None`` if there is none
    version: str | None
    #: the extra, ``None`` for what kgen always needs
    extra: str | None

    @property
    def will_do(self) -> bool:
        """Whether it is installed, in a version that is not too old.

        >>> Package(name="rich", needs=">=13.7", version="13.10.1", extra=None).will_do
        True
        """
        least = re.search(r">=\s*([\d.]+)", self.needs)
        if self.version is None or least is None:
            return self.version is not None
        return _numbers(self.version) >= _numbers(least[1])


@dataclass(frozen=True, kw_only=True)
class Compiler:
    """A compiler: its command, its version text, and its capabilities."""

    command: str
    version: str
    #: it compiles code that includes a header of the C library
    works: bool
    openmp: bool


@dataclass(frozen=True, kw_only=True)
class Missing:
    """A missing component, its purpose, and the command that installs it."""

    what: str
    purpose: str
    command: str
    #: kernels do not run on the host without it
    is_required: bool = False


@dataclass(frozen=True, kw_only=True)
class Installation:
    """The result of :func:`find_installation`."""

    kgen: str
    python: str
    machine: str
    packages: tuple[Package, ...]
    c_compiler: Compiler | None
    cuda_compiler: Compiler | None
    opencl_devices: tuple[RunningOn, ...]
    cuda_devices: tuple[RunningOn, ...]
    cache: CacheUsage
    missing: tuple[Missing, ...]

    @property
    def runs_on_host(self) -> bool:
        """Whether kernels can run on the host."""
        return not any(item.is_required for item in self.missing)


def find_installation() -> Installation:
    """Inspect this machine: packages, compilers, devices, the cache, and missing components.

    >>> found = find_installation()
    >>> found.kgen == VERSION_TEXT, found.cache.folder == str(process_caches.disk.folder)
    (True, True)
    """
    packages = tuple(_packages())
    c_compiler, cuda_compiler = _c_compiler(), _cuda_compiler()
    opencl_devices, opencl_error = _devices(PyOpenCLTarget())
    cuda_devices, cuda_error = _devices(PyCudaTarget())
    missing = [
        *_missing_packages(packages),
        *_missing_for_c(c_compiler),
        *_missing_devices("OpenCL", opencl_devices, opencl_error),
        *_missing_devices("CUDA", cuda_devices, cuda_error),
    ]
    if cuda_compiler is None:
        names = [f"{p.name}{p.needs}" for p in packages if p.extra == "nvcc"]
        missing.append(Missing(what="nvcc, CUDA's compiler", purpose="CUDA", command=_pip(*names)))
    return Installation(
        kgen=VERSION_TEXT,
        python=platform.python_version(),
        machine=platform.platform(),
        packages=packages,
        c_compiler=c_compiler,
        cuda_compiler=cuda_compiler,
        opencl_devices=opencl_devices,
        cuda_devices=cuda_devices,
        cache=process_caches.disk.usage(),
        missing=tuple(missing),
    )


# -- packages ----------------------------------------------------------------------------------


def _packages() -> Iterator[Package]:
    """Yield the requirements in kgen's metadata; nothing if kgen is not installed."""
    try:
        lines = metadata.requires(DISTRIBUTION) or []
    except metadata.PackageNotFoundError:
        return
    for line in lines:
        requirement, _, marker = line.partition(";")
        name, needs = re.findall(r"^([\w.-]+)\s*(.*)$", requirement.strip())[0]
        extra = re.search(r"extra == [\"'](\w+)[\"']", marker)
        if extra is None or extra[1] in _EXTRAS:
            yield Package(
                name=name,
                needs=needs,
                version=_version_of(name),
                extra=None if extra is None else extra[1],
            )


def _version_of(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(digits) for digits in re.findall(r"\d+", version))


def _missing_packages(packages: tuple[Package, ...]) -> Iterator[Missing]:
    if not packages:
        command = _pip(str(Path(__file__).parent.parent.parent))
        yield Missing(what="kgen as a package", purpose="versions of packages", command=command)
    for package in packages:
        if not package.will_do and package.extra != "nvcc":
            found = "" if package.version is None else f" (there is {package.version})"
            yield Missing(
                what=f"{package.name}{package.needs}{found}",
                purpose=_PURPOSES.get(package.extra, "kgen"),
                command=_pip(f"{package.name}{package.needs}"),
                is_required=package.extra is None,
            )


_PURPOSES: dict[str | None, str] = {"opencl": "OpenCL", "cuda": "CUDA", "plot": "plots"}


def _pip(*requirements: str) -> str:
    return shlex.join([sys.executable, "-m", "pip", "install", *requirements])


# -- compilers and devices ---------------------------------------------------------------------


def _c_compiler() -> Compiler | None:
    try:
        command = find_c_compiler()
    except CompilationError:
        return None
    return Compiler(
        command=shlex.join(command),
        version=compiler_version(command).partition("\n")[0],
        works=knows(command, ("-lm",), _TEST_CODE),
        openmp=openmp_flags(command) is not None,
    )


def _cuda_compiler() -> Compiler | None:
    try:
        command = find_nvcc()
    except CompilationError:
        return None
    lines = compiler_version(command).splitlines()
    return Compiler(
        command=shlex.join(command),
        version=next((line for line in lines if "release" in line), "".join(lines[:1])),
        works=bool(lines),
        openmp=False,
    )


def _missing_for_c(compiler: Compiler | None) -> Iterator[Missing]:
    if compiler is None or not compiler.works:
        what = "a C compiler" if compiler is None else f"headers of C for {compiler.command}"
        yield Missing(what=what, purpose="the host", command=command_for("c"), is_required=True)
    elif not compiler.openmp:
        yield Missing(
            what=f"OpenMP for {compiler.command}",
            purpose="threads on the host",
            command=command_for("openmp"),
        )


def command_for(what: str, system: str = sys.platform) -> str:
    """Return the command that installs something on this system; on Windows one of MSYS2."""
    tools = ["windows"] if system == "win32" else [*filter(shutil.which, _INSTALLERS), "conda"]
    tool = tools[0]
    needs_root = tool in ("apt-get", "dnf", "pacman") and not is_administrator()
    if what not in _INSTALLERS[tool]:
        return _ELSEWHERE[what]
    return ("sudo " if needs_root else "") + _INSTALLERS[tool][what]


def _devices(target: TargetBase) -> tuple[tuple[RunningOn, ...], str | None]:
    """Return the devices of a target; or none, and why its runtime cannot be loaded."""
    try:
        return target.load_runtime().find_devices(), None
    except InvocationError as error:
        return (), str(error).partition("\n")[0]


def _missing_devices(
    api: str, devices: tuple[RunningOn, ...], error: str | None
) -> Iterator[Missing]:
    if devices or "No module named" in (error or ""):  # a package, which is listed by itself
        return
    why = "" if error is None else f" ({error.rpartition(': ')[2]})"
    what = f"a device for {api}, or its driver{why}"
    yield Missing(what=what, purpose=api, command=command_for(api.lower()))
