"""Requests for exports: programs by the names of their functions, with variants."""

from __future__ import annotations

import re
import reprlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias

from kgen.errors import CodegenError
from kgen.host.variants import HasVariants, Variant
from kgen.ir.unit import TranslationUnit

__all__ = ["Exportable", "Program", "always_runs", "may_run", "variants_by_name"]

#: A program, one of several variants, or a table of schedules.
Program: TypeAlias = TranslationUnit | Variant | HasVariants
#: Programs whose functions have the names of kernels, or variants by the names of functions.
Exportable: TypeAlias = Program | Iterable[Program] | Mapping[str, Program | Iterable[Program]]

#: The words for devices on which a target always runs, and those that a call tests.
_ALWAYS: Final[Mapping[str, tuple[str, ...]]] = {
    "c": ("c", "host", "cpu", "*"),
    "opencl": ("opencl", "*"),
    "cuda": ("cuda", "gpu", "nvidia", "*"),
}
_SOMETIMES: Final[Mapping[str, tuple[str, ...]]] = {
    "opencl": ("nvidia", "radeon", "intel", "host", "gpu", "cpu", "other"),
}


def always_runs(device: str, target: str) -> bool:
    """Tell whether all devices of a target are of a kind.

    >>> always_runs("gpu", "cuda"), always_runs("gpu", "opencl")
    (True, False)
    """
    return device in _ALWAYS[target]


def may_run(device: str, target: str) -> bool:
    """Tell whether devices of a target may be of a kind.

    >>> may_run("gpu", "opencl"), may_run("gpu", "c")
    (True, False)
    """
    return always_runs(device, target) or device in _SOMETIMES.get(target, ())


def variants_by_name(programs: Exportable) -> Iterator[tuple[str, tuple[Variant, ...]]]:
    """Yield the names of functions, with the variants of each: programs of one entry point.

    Raises :class:`CodegenError` for a program with several entry points under one name.
    """
    if isinstance(programs, Mapping):
        for name, given in programs.items():
            if not isinstance(name, str) or re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", name) is None:
                raise CodegenError(f"'{name}' is not a valid name of a function")
            yield name, tuple(variant for one in _listed(given) for variant in _variants(one, name))
        return
    for program in _listed(programs):
        if isinstance(program, TranslationUnit):
            for name in sorted(program.entrypoints):
                yield name, (Variant(program.with_entrypoints(name)),)
        else:
            variants = tuple(_variants(program, None))
            (name,) = variants[0].program.entrypoints
            yield name, variants


def _listed(programs: Any) -> list[Program]:
    is_one = isinstance(programs, _KINDS) or not isinstance(programs, Iterable)
    found = [programs] if is_one else list(programs)
    for program in found:
        if not isinstance(program, _KINDS):
            raise CodegenError(
                f"{reprlib.repr(program)} cannot be exported: it is not a program",
                hint="programs are what make_kernel and per_device return, and Variants; export "
                "takes one, a list, or a dict by the names of functions",
            )
    return found


_KINDS: Final = (TranslationUnit, Variant, HasVariants)


def _variants(program: Program, name: str | None) -> Iterator[Variant]:
    match program:
        case Variant():
            found: tuple[Variant, ...] = (program,)
        case HasVariants():
            found = program.variants()
        case _:
            found = (Variant(program),)
    for variant in found:
        if len(variant.program.entrypoints) != 1:
            names = ", ".join(f"'{entry}'" for entry in sorted(variant.program.entrypoints))
            raise CodegenError(
                f"a variant has one entry point, not {names or 'none'}",
                kernel=name,
                hint="program.with_entrypoints(...) chooses one",
            )
        yield variant
