"""Expressions, under the documented module name."""

from __future__ import annotations

from kgen.ir.expr import (
    CombineMapper,
    GroupHardwareAxisIndex,
    IdentityMapper,
    LinearSubscript,
    LocalHardwareAxisIndex,
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
    "GroupHardwareAxisIndex",
    "IdentityMapper",
    "LinearSubscript",
    "LocalHardwareAxisIndex",
    "Reduction",
    "StringifyMapper",
    "SubArrayRef",
    "SubstitutionMapper",
    "TaggedVariable",
    "TypeCast",
    "WalkMapper",
    "parse",
]
