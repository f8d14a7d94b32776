"""The match language, as classes."""

from __future__ import annotations

from kgen.ir.language.match import (
    All,
    And,
    Id,
    Iname,
    InKernel,
    MatchExpressionBase,
    Not,
    ObjTagged,
    Or,
    Reads,
    Tagged,
    Writes,
    parse_match,
    parse_stack_match,
)

__all__ = [
    "All",
    "And",
    "Id",
    "InKernel",
    "Iname",
    "MatchExpressionBase",
    "Not",
    "ObjTagged",
    "Or",
    "Reads",
    "Tagged",
    "Writes",
    "parse_match",
    "parse_stack_match",
]
