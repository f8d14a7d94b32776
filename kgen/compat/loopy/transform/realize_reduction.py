"""loopy.transform.realize_reduction: reductions as loops."""

from __future__ import annotations

from kgen.transforms.reductions.realize import (
    realize_reduction,
)

__all__ = [
    "realize_reduction",
]
