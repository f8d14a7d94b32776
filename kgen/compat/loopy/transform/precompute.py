"""loopy.transform.precompute: values of rules, stored."""

from __future__ import annotations

from kgen.transforms.storage.precompute import (
    precompute,
)

__all__ = [
    "precompute",
]
