"""loopy.match: the language of matches, as classes."""

from __future__ import annotations

from kgen.ir.language.match import (
    All,
    And,
    ConcreteMatchable,
    ConcreteStackMatch,
    GlobMatchExpressionBase,
    Id,
    Iname,
    InKernel,
    MatchExpressionBase,
    Not,
    ObjTagged,
    Or,
    Reads,
    StackMatch,
    Tagged,
    Writes,
    parse_match,
    parse_stack_match,
)

__all__ = [
    "All",
    "And",
    "ConcreteMatchable",
    "ConcreteStackMatch",
    "GlobMatchExpressionBase",
    "Id",
    "InKernel",
    "Iname",
    "MatchExpressionBase",
    "Not",
    "ObjTagged",
    "Or",
    "Reads",
    "StackMatch",
    "Tagged",
    "Writes",
    "parse_match",
    "parse_stack_match",
]
