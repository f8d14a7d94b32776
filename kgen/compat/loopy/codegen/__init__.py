"""loopy.codegen: code of programs."""

from __future__ import annotations

from typing import TypeAlias

from kgen.codegen import *
from kgen.codegen import CodeGenerationResult
from kgen.compat.loopy.codegen import bounds, control, instruction, loop, result, tools
from kgen.compat.loopy.version import DATA_MODEL_VERSION
from kgen.targets.preamble import *

__all__ = [
    "DATA_MODEL_VERSION",
    "CodeGenerationResult",
    "PreambleInfo",
    "SeenFunction",
    "TranslationUnitCodeGenerationResult",
    "bounds",
    "control",
    "generate_body",
    "generate_code",
    "generate_code_v2",
    "instruction",
    "loop",
    "result",
    "tools",
]

TranslationUnitCodeGenerationResult: TypeAlias = CodeGenerationResult
