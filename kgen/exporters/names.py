"""The names of an exported library, which are unique in C."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kgen.errors import CodegenError
from kgen.exporters.launcher import LauncherWriter
from kgen.exporters.library import STATUSES
from kgen.targets.words import C_WORDS, CPP_WORDS, MACROS, is_implementation_name

__all__ = ["check_names"]

#: Keywords and macros of C, C++ and the headers that libraries include.
_TAKEN: Final = (
    C_WORDS | CPP_WORDS | MACROS | {"bool", "true", "false", "complex", "I", "imaginary"}
)


def check_names(namespace: str, writers: Sequence[LauncherWriter]) -> None:
    """Raise :class:`CodegenError` for a name that would be ambiguous in the library."""
    functions = {
        f"{namespace}_{name}": "the library itself"
        for name in (*_OWN, *(status.name for status in STATUSES))
    }
    for writer in writers:
        for name in writer.function_names():
            other = functions.setdefault(name, f"kernel '{writer.kernel.name}'")
            if other != f"kernel '{writer.kernel.name}'":
                raise CodegenError(
                    f"its function would have the name '{name}', which is one of {other}",
                    kernel=writer.kernel.name,
                    hint="make it with another name=...",
                )
    for writer in writers:
        for function in writer.code.module.device_programs:
            if function.name in functions:
                raise CodegenError(
                    f"a function of the library, of {functions[function.name]}, has this name",
                    kernel=writer.kernel.name,
                    hint="make the kernel with another name=..., or choose another namespace",
                )
        _check_arguments(namespace, writer)


#: The names of a library other than kernels: functions, types, and files in ``src/``.
_OWN: Final = (
    *("status", "status_text", "last_message", "fail", "message", "library"),
    *("opencl", "opencl_release", "opencl_build_log", "opencl_begin", "opencl_end"),
    *("opencl_kernel", "cuda", "cuda_release", "cuda_begin", "cuda_end", "cuda_take"),
)


def _check_arguments(namespace: str, writer: LauncherWriter) -> None:
    """Reject arguments whose names have another meaning in the launcher."""
    for arg in writer.kernel.arguments:
        because = _why_taken(arg.name, namespace, writer)
        if because is not None:
            raise CodegenError(
                f"an exported function cannot have an argument '{arg.name}'",
                kernel=writer.kernel.name,
                because=because,
                hint=f"rename_argument(knl, '{arg.name}', ...)",
            )


def _why_taken(name: str, namespace: str, writer: LauncherWriter) -> str | None:
    if name in _TAKEN or is_implementation_name(name):
        return "it is a word or a macro of C or C++"
    if name in writer.used_names():
        return f"'{writer.name}' uses this name for something else"
    if name.startswith((f"{namespace}_", "kgen_", "kg_")):
        return "names with this beginning are those of the library"
    return None
