"""loopy.library: operations of reductions."""

from __future__ import annotations

from kgen.compat.loopy.library import (
    reduction,
)

__all__ = [
    "reduction",
]
