"""loopy.target.c: C."""

from kgen.codegen import generate_header
from kgen.targets.builder import CFamilyTarget
from kgen.targets.c import *

__all__ = [
    "CCompiler",
    "CFamilyTarget",
    "CTarget",
    "CWithGNULibcTarget",
    "ExecutableCTarget",
    "ExecutableCWithGNULibcTarget",
    "generate_header",
]
