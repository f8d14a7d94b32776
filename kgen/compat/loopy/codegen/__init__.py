"""loopy.codegen: code of programs."""

from __future__ import annotations

from kgen.codegen import (
    CodeGenerationResult as TranslationUnitCodeGenerationResult,
)
from kgen.codegen import (
    generate_body,
    generate_code,
    generate_code_v2,
)
from kgen.compat.loopy.codegen import (
    result,
)
from kgen.compat.loopy.version import (
    DATA_MODEL_VERSION,
)
from kgen.targets.preamble import (
    PreambleInfo,
    SeenFunction,
)

__all__ = [
    "DATA_MODEL_VERSION",
    "PreambleInfo",
    "SeenFunction",
    "TranslationUnitCodeGenerationResult",
    "generate_body",
    "generate_code",
    "generate_code_v2",
    "result",
]
