"""loopy.transform.batch: kernels that work on many sets of data."""

from __future__ import annotations

from kgen.transforms.programs.batch import (
    to_batched,
)

__all__ = [
    "to_batched",
]
