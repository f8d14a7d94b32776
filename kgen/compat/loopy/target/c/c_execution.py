"""loopy.target.c.c_execution: calls of functions in C."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any, Final, TypeAlias

from kgen.errors import KgenError
from kgen.ir.checked import unfit
from kgen.runtime.c import CExecutor
from kgen.targets import c

__all__ = ["CCompiler", "CExecutor", "CKernelExecutor"]

CKernelExecutor: TypeAlias = CExecutor

_SETTINGS: Final = tuple(field.name for field in fields(c.CCompiler))


class CCompiler(c.CCompiler):
    """A compiler of the host, as :class:`kgen.CCompiler`; codepy's toolchains have the same fields.

    :arg toolchain: one of codepy's toolchains, or an object with some of its attributes: what is
        not given otherwise, and names that are undefined (``undefines``)

    >>> from types import SimpleNamespace
    >>> toolchain = SimpleNamespace(cc="gcc", cflags=["-O2", "-fPIC"], defines=["NDEBUG"])
    >>> CCompiler(toolchain, cflags="-O3 -g").compile_flags
    ('-O3', '-g', '-DNDEBUG')

    Raises :class:`KgenError` for values that are not texts, for an object that describes no
    compiler, and for another language than C.
    """

    toolchain: Any
    source_suffix: str

    def __init__(
        self,
        toolchain: Any = None,
        cc: str | None = None,
        cflags: str | Sequence[str] | None = None,
        ldflags: str | Sequence[str] | None = None,
        libraries: str | Sequence[str] | None = None,
        include_dirs: str | Sequence[str] | None = None,
        library_dirs: str | Sequence[str] | None = None,
        defines: str | Sequence[str] | None = None,
        source_suffix: str = "c",
    ) -> None:
        if source_suffix != "c":
            raise KgenError(
                f"kgen compiles C, not the language of '.{source_suffix}'",
                hint="kgen.export(...) writes headers that C++ includes",
            )
        if toolchain is not None and not isinstance(getattr(toolchain, "cc", None), str):
            what = "'toolchain' of a CCompiler"
            raise unfit(what, "a toolchain such as codepy.toolchain.guess_toolchain()", toolchain)
        values: dict[str, Any] = {
            "cc": cc,
            "cflags": cflags,
            "ldflags": ldflags,
            "libraries": libraries,
            "include_dirs": include_dirs,
            "library_dirs": library_dirs,
            "defines": defines,
        }
        given = {name: value for name, value in values.items() if value is not None}
        held = {name: getattr(toolchain, name) for name in _SETTINGS if hasattr(toolchain, name)}
        super().__init__(**(held | given))
        undefined = tuple(f"-U{name}" for name in getattr(toolchain, "undefines", ()))
        if undefined:
            flags = c.CCompiler().compile_flags if self.cflags is None else self.cflags
            object.__setattr__(self, "cflags", (*flags, *undefined))
        object.__setattr__(self, "toolchain", toolchain)
        object.__setattr__(self, "source_suffix", source_suffix)
