"""Code for PoCL's compiler (seen with 3.1), in addition to that of ``suits_pocl``.

``docs/pocl.md`` describes which code it miscompiles.
"""

from __future__ import annotations

from typing import Final

from kgen.targets.module import Module

__all__ = ["POCL", "pocl_options", "with_double_barriers"]

#: The name of PoCL's platform.
POCL: Final = "Portable Computing Language"


def with_double_barriers(source: str) -> str:
    """Return OpenCL source with every barrier doubled, to separate it from branches after it."""
    return f"#define barrier(FLAGS) (barrier(FLAGS), barrier(FLAGS))\n{source}"


def pocl_options(module: Module) -> tuple[str, ...]:
    """Return the options with which PoCL compiles the code correctly."""
    return ("-cl-opt-disable",) if module.has_fragile_barriers else ()
