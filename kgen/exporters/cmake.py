"""Files for CMake, which build, install and find an exported library."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Final

from kgen.exporters.launcher import LauncherWriter

__all__ = ["cmake_files", "cmake_folder"]

_OPENMP: Final = "-fopenmp"
#: The keyword of ``kgen_library`` for the sources of each target.
_KEYWORDS: Final[Mapping[str, str]] = {"": "COMMON", "c": "C", "opencl": "OPENCL", "cuda": "CUDA"}


def cmake_folder() -> Path:
    """Return the folder of ``kgen-config.cmake``, which ``find_package(kgen)`` reads."""
    return Path(str(files("kgen.exporters").joinpath("cmake_package")))


def cmake_files(
    namespace: str,
    writers: Iterable[LauncherWriter],
    sources: Mapping[str, Sequence[str]],
    fortran: str | None = None,
) -> dict[str, str]:
    """Return the files with which CMake builds, installs and finds a library, by path.

    *sources* are the paths of its files by target, with those of all targets under ``""``;
    *fortran* is that of the module for Fortran.
    """
    parts = [
        f"# The library {namespace}: kgen made this file. Its options are in",
        "# cmake/kgen_library.cmake.",
        "cmake_minimum_required(VERSION 3.18)",
        f"project({namespace} LANGUAGES C)",
        "include(cmake/kgen_library.cmake)",
    ]
    needed: dict[str, None] = {}
    for writer in writers:
        flags = _flags(writer)
        is_c = writer.target == "c"
        linked = [f for f in flags if is_c and (f == _OPENMP or f.startswith(("-l", "-L")))]
        own = [flag for flag in flags if flag not in linked]
        if own:
            shown = ";".join(map(_escaped, own))
            path = _compiled(writer)
            given = f'PROPERTIES COMPILE_OPTIONS "{shown}"'
            parts.append(f"set_source_files_properties({path} {given})")
        needed.update(dict.fromkeys(linked))
    parts.append(f"kgen_library({namespace}{' OPENMP' if _OPENMP in needed else ''}")
    if fortran is not None:
        parts.append(f"  FORTRAN {fortran}")
    libraries = ";".join(_escaped(flag) for flag in needed if flag != _OPENMP)
    if libraries:
        parts.append(f'  LINK "{libraries}"')
    for target, keyword in _KEYWORDS.items():
        paths = sources.get(target, ())
        parts += _listed(keyword, [path for path in paths if path.endswith(".c")])
        parts += _listed("KERNELS", [path for path in paths if path.endswith(".cu")])
    folder = files("kgen.exporters").joinpath("support")
    return {
        "CMakeLists.txt": "\n".join([*parts, ")", ""]),
        "cmake/kgen_library.cmake": folder.joinpath("kgen_library.cmake").read_text("utf-8"),
        f"cmake/{namespace}-config.cmake": folder.joinpath("kgen_config.cmake").read_text("utf-8"),
    }


def _flags(writer: LauncherWriter) -> tuple[str, ...]:
    """Return the options with which the code of a kernel is compiled when the library is built."""
    return () if writer.target == "opencl" else writer.code.build_options


def _compiled(writer: LauncherWriter) -> str:
    """Return the path of the file with the kernel."""
    found = [path for path in writer.files() if path.endswith((".cu", ".c"))]
    return max(found, key=lambda path: path.endswith(".cu"))


def _listed(keyword: str, paths: Sequence[str]) -> Iterator[str]:
    if paths:
        yield f"  {keyword}"
        yield from (f"    {path}" for path in paths)


def _escaped(text: str) -> str:
    """Return an element of a list, quoted and escaped."""
    return re.sub(r'([\\"$;])', r"\\\1", text)
