"""loopy.transform.concatenate: arrays one behind the other."""

from __future__ import annotations

from kgen.transforms.storage.array_axes import (
    concatenate_arrays,
)

__all__ = [
    "concatenate_arrays",
]
