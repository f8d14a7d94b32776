"""Export of kernels as a library in C: all files as texts, then written."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kgen.errors import CodegenError, near_names
from kgen.exporters.c import CLauncherWriter
from kgen.exporters.cmake import cmake_files
from kgen.exporters.cuda import CudaLauncherWriter
from kgen.exporters.cxx import cxx_header
from kgen.exporters.dispatch import code_writers, files_of, hidden_writers
from kgen.exporters.folder import write_files
from kgen.exporters.fortran import fortran_module
from kgen.exporters.header import internal_header, library_source, public_header
from kgen.exporters.kernels import TARGETS, exported_kernels
from kgen.exporters.launcher import LauncherWriter, support_file
from kgen.exporters.manifest import manifest_text
from kgen.exporters.names import check_names
from kgen.exporters.opencl import OpenCLLauncherWriter
from kgen.ir.checked import checked
from kgen.targets.words import C_WORDS, CPP_WORDS

if TYPE_CHECKING:  # what is no program has an error of its own
    from kgen.exporters.requests import Exportable

__all__ = ["export", "library_files"]

_WRITERS: Final[Mapping[str, type[LauncherWriter]]] = {
    "c": CLauncherWriter,
    "opencl": OpenCLLauncherWriter,
    "cuda": CudaLauncherWriter,
}


@checked
def export(
    programs: Exportable,
    directory: str | Path,
    *,
    targets: str | Iterable[str] = TARGETS,
    namespace: str = "kernels",
    sources: Iterable[str] = (),
    fortran: bool = False,
    overwrite: bool = False,
) -> tuple[Path, ...]:
    """Write a library for programs without Python; return its files.

    Each entry point of *programs* becomes a function ``NAMESPACE_KERNEL`` in C for the host, and
    ``NAMESPACE_KERNEL_opencl`` and ``NAMESPACE_KERNEL_cuda``, depending on *targets*. Their
    arguments are the kernel's; callers pass all sizes, and the functions check all arguments. The
    manifest, ``NAMESPACE.json``, describes the functions as data.

    Either all files are written or, in case of an error, none. The files of an earlier export to
    *directory* are replaced, or removed if they are no longer generated. Nothing else changes:
    files that no export wrote, or that were changed since, are replaced only with *overwrite*.

    With *fortran*, there is also a module with interfaces for Fortran 2003, ``NAMESPACE.f90``.

    *sources* are the names, ``FILE.py:NAME`` or ``module:NAME``, by which ``python -m kgen check
    DIRECTORY`` finds the programs again.

    >>> import tempfile
    >>> import kgen as lp
    >>> knl = lp.make_kernel(
    ...     "{ [i]: 0<=i<n }", "y[i] = a*x[i] + y[i]",
    ...     [lp.GlobalArg("x, y", "float32"), lp.ValueArg("a", "float32"), ...], name="axpy")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     files = lp.export(knl, folder, targets="c", namespace="demo")
    ...     for line in files[0].read_text().splitlines():
    ...         if "demo_axpy" in line:
    ...             print(line)
    demo_status demo_axpy(float const *x, float *y, float a, int32_t n);

    Raises :class:`CodegenError` for two kernels with the same name, unknown types, arguments
    that C functions cannot have, and a directory with files that must not be replaced.
    """
    root = Path(directory)
    named = [_seen_from(root, source) for source in sources]
    made = library_files(
        programs, targets=targets, namespace=namespace, sources=named, fortran=fortran
    )
    write_files(root, made, overwrite=overwrite)
    return tuple(root / name for name in made)


def library_files(
    programs: Exportable,
    *,
    targets: str | Iterable[str] = TARGETS,
    namespace: str = "kernels",
    sources: Sequence[str] = (),
    fortran: bool = False,
) -> dict[str, str]:
    """Return the text of each file of an exported library, by its path in that.

    The last one is its manifest. *sources* are seen from the library.
    """
    chosen = _checked_targets(targets)
    _check_namespace(namespace)
    kernels = exported_kernels(programs, chosen)
    writers = [
        _WRITERS[target](namespace, kernel, target) for kernel in kernels for target in chosen
    ]
    hidden = hidden_writers(writers)
    check_names(namespace, [*writers, *hidden])
    made = {
        f"include/{namespace}.h": public_header(namespace, kernels, writers),
        f"include/{namespace}.hpp": cxx_header(namespace, kernels, writers),
        f"include/{namespace}_view.hpp": support_file("kgen_view.hpp"),
        f"src/{namespace}_internal.h": internal_header(namespace, hidden),
        f"src/{namespace}_library.c": library_source(namespace),
        "src/kgen_support.h": support_file("kgen_support.h"),
    }
    code: dict[str, list[str]] = {"": [f"src/{namespace}_library.c"]}
    for target in chosen:
        mine = [writer for writer in writers if writer.target == target]
        files = _WRITERS[target].general_files(namespace, code_writers(mine))
        for writer in mine:
            files |= files_of(writer)
        code[target] = list(files)
        made |= files
    module = f"include/{namespace}.f90" if fortran else None
    if module is not None:
        made[module] = fortran_module(namespace, writers)
    made |= cmake_files(namespace, code_writers(writers), code, module)
    made[f"{namespace}.json"] = manifest_text(
        namespace, kernels, writers, made, targets=chosen, sources=sources
    )
    return made


def _seen_from(root: Path, source: str) -> str:
    """Return the name of a program, with the path of its file relative to a folder."""
    place, colon, name = source.rpartition(":")
    if not place.endswith(".py"):
        return source
    path = os.path.relpath(os.path.realpath(place), os.path.realpath(root))
    return f"{Path(path).as_posix()}{colon}{name}"


def _checked_targets(targets: str | Iterable[str]) -> tuple[str, ...]:
    chosen = (targets,) if isinstance(targets, str) else tuple(targets)
    for target in chosen:
        if target not in _WRITERS:
            raise CodegenError(f"'{target}' is not a target", hint=near_names(target, TARGETS))
    return tuple(target for target in TARGETS if target in chosen)


def _check_namespace(namespace: str) -> None:
    if namespace in C_WORDS | CPP_WORDS:
        raise CodegenError(
            f"'{namespace}' cannot be a namespace",
            because="it is a keyword of C or C++",
            hint=f"choose another name, such as '{namespace}_kernels'",
        )
    if not re.fullmatch("[a-z][a-z0-9_]*", namespace):
        raise CodegenError(
            f"'{namespace}' cannot be a namespace",
            because="it is the prefix of names in C and C++",
            hint="use lowercase letters, digits and '_', starting with a letter, such as 'demo'",
        )
