"""loopy.transform.add_barrier: barriers between instructions."""

from __future__ import annotations

from kgen.transforms.sync import (
    add_barrier,
)

__all__ = [
    "add_barrier",
]
