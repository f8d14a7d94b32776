"""loopy.codegen.result: what code generation returns."""

from __future__ import annotations

from kgen.codegen import (
    CodeGenerationResult,
    GeneratedProgram,
)

__all__ = [
    "CodeGenerationResult",
    "GeneratedProgram",
]
