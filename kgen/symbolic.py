"""Expressions, under the documented module name."""

from __future__ import annotations

from kgen.ir.expr import (
    CombineMapper,
    IdentityMapper,
    LinearSubscript,
    Reduction,
    StringifyMapper,
    SubArrayRef,
    SubstitutionMapper,
    TaggedVariable,
    TypeCast,
    WalkMapper,
)
from kgen.ir.parse import (
    parse,
)

__all__ = [
    "CombineMapper",
    "IdentityMapper",
    "LinearSubscript",
    "Reduction",
    "StringifyMapper",
    "SubArrayRef",
    "SubstitutionMapper",
    "TaggedVariable",
    "TypeCast",
    "WalkMapper",
    "parse",
]
