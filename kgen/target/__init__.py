"""Targets, under the documented module names."""

from __future__ import annotations

from kgen.ir.target import (
    TargetBase,
)

__all__ = [
    "TargetBase",
]
