"""loopy.library.reduction: operations of reductions."""

from __future__ import annotations

from kgen.ir.reductions import (
    ReductionOperation,
    ScalarReductionOperation,
    parse_reduction_op,
    register_reduction_parser,
)

__all__ = [
    "ReductionOperation",
    "ScalarReductionOperation",
    "parse_reduction_op",
    "register_reduction_parser",
]
