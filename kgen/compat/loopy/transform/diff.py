"""loopy.transform.diff: derivatives."""

from __future__ import annotations

from kgen.transforms.programs.diff import (
    diff_kernel,
)

__all__ = [
    "diff_kernel",
]
