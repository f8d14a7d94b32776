"""loopy.transform.arithmetic: expressions of the same value."""

from __future__ import annotations

from kgen.transforms.expressions.arithmetic import (
    collect_common_factors_on_increment,
    fold_constants,
)

__all__ = [
    "collect_common_factors_on_increment",
    "fold_constants",
]
