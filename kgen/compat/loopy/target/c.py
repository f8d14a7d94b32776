"""loopy.target.c: C."""

from __future__ import annotations

from kgen.codegen import (
    generate_header,
)
from kgen.targets.builder import (
    CFamilyTarget,
)
from kgen.targets.c import (
    CCompiler,
    CTarget,
    CWithGNULibcTarget,
    ExecutableCTarget,
    ExecutableCWithGNULibcTarget,
)

__all__ = [
    "CCompiler",
    "CFamilyTarget",
    "CTarget",
    "CWithGNULibcTarget",
    "ExecutableCTarget",
    "ExecutableCWithGNULibcTarget",
    "generate_header",
]
