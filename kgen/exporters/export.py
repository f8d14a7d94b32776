"""Export of kernels as a library in C: all files as texts, then written."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

import cgen

from kgen.errors import CodegenError, near_names
from kgen.exporters.c import CLauncherWriter
from kgen.exporters.cxx import cxx_header
from kgen.exporters.header import internal_header, library_source, public_header
from kgen.exporters.kernels import TARGETS, exported_kernels
from kgen.exporters.launcher import LauncherWriter
from kgen.ir.checked import checked
from kgen.ir.unit import TranslationUnit
from kgen.targets.words import C_WORDS, CPP_WORDS

__all__ = ["export", "library_files"]

_WRITERS: Final[Mapping[str, type[LauncherWriter]]] = {"c": CLauncherWriter}


@checked
def export(
    programs: TranslationUnit | Iterable[TranslationUnit],
    directory: str | Path,
    *,
    targets: Iterable[str] = TARGETS,
    namespace: str = "kernels",
) -> tuple[Path, ...]:
    """Write a library in C with all entry points of *programs*; return its files."""
    made = library_files(programs, targets=targets, namespace=namespace)
    root = Path(directory)
    for name, text in made.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tuple(root / name for name in made)


def library_files(
    programs: TranslationUnit | Iterable[TranslationUnit],
    *,
    targets: Iterable[str] = TARGETS,
    namespace: str = "kernels",
) -> dict[str, str]:
    """Return the text of each file of an exported library, by its path in that."""
    chosen = _checked_targets(targets)
    _check_namespace(namespace)
    units = [programs] if isinstance(programs, TranslationUnit) else list(programs)
    kernels = exported_kernels(units, chosen)
    writers = [
        _WRITERS[target](namespace, kernel, target) for kernel in kernels for target in chosen
    ]
    made = {
        f"include/{namespace}.h": public_header(namespace, kernels, writers),
        f"include/{namespace}.hpp": cxx_header(namespace, kernels, writers),
        f"include/{namespace}_view.hpp": _support("kgen_view.hpp"),
        f"src/{namespace}_internal.h": internal_header(namespace),
        f"src/{namespace}_library.c": library_source(namespace),
        "src/kgen_support.h": _support("kgen_support.h"),
    }
    for writer in writers:
        made[f"src/{writer.name}.c"] = source_of(writer)
    return made


def source_of(writer: LauncherWriter) -> str:
    """Return the source of a kernel for one target: its code, and the functions that launch it."""
    module = writer.code.module
    parts: list[Any] = [
        cgen.Include(f"{writer.namespace}_internal.h", system=False),
        cgen.Include("stdlib.h"),
        cgen.Line(),
        cgen.LiteralLines("\n" + module.device_source),
        cgen.Line(),
    ]
    if module.host_source:
        parts += [cgen.LiteralLines("\n" + module.host_source), cgen.Line()]
    for function in writer.functions():
        parts += [function, cgen.Line()]
    return str(cgen.Module(parts)).rstrip() + "\n"


def _support(name: str) -> str:
    """Return a file that libraries have as it is."""
    return files("kgen.exporters").joinpath("support", name).read_text()


def _checked_targets(targets: Iterable[str]) -> tuple[str, ...]:
    chosen = (targets,) if isinstance(targets, str) else tuple(targets)
    for target in chosen:
        if target not in _WRITERS:
            raise CodegenError(f"'{target}' is no target", hint=near_names(target, TARGETS))
    return tuple(target for target in TARGETS if target in chosen)


def _check_namespace(namespace: str) -> None:
    if not re.fullmatch("[a-z][a-z0-9_]*", namespace) or namespace in C_WORDS | CPP_WORDS:
        raise CodegenError(
            f"'{namespace}' is no namespace",
            because="names in C and C++ begin with it",
            hint="choose small letters, digits and '_', such as 'demo'",
        )
