"""loopy.transform.fusion: one kernel of several."""

from __future__ import annotations

from kgen.transforms.programs.fuse import (
    fuse_kernels,
)

__all__ = [
    "fuse_kernels",
]
