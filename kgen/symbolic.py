"""Expressions: nodes, mappers, and conversions to and from text and isl functions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kgen.ir.expr import (
    CombineMapper,
    GroupHardwareAxisIndex,
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
from kgen.ir.language.expressions import (
    parse,
)
from kgen.ir.mappers import (
    IdentityMapper,
)
from kgen.ir.mentions import (
    get_dependencies,
)
from kgen.ir.sets.quasi_affine import (
    aff_from_expr,
    aff_to_expr,
)
from kgen.lazy import more_names

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
    "aff_from_expr",
    "aff_to_expr",
    "get_dependencies",
    "parse",
]

if not TYPE_CHECKING:  # programs written for loopy use its names, too
    __getattr__ = more_names(__name__, "kgen.compat.loopy.symbolic")
