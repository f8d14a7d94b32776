"""loopy.target.ispc: ISPC."""

from __future__ import annotations

from kgen.targets.ispc.target import (
    ISPCASTBuilder,
    ISPCTarget,
)

__all__ = [
    "ISPCASTBuilder",
    "ISPCTarget",
]
