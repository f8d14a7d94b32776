"""loopy.transform.buffer: copies of parts of arrays, written back."""

from __future__ import annotations

from kgen.transforms.storage.buffer import (
    buffer_array,
)

__all__ = [
    "buffer_array",
]
