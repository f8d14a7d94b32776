"""The C targets, under loopy's module name."""

from __future__ import annotations

from kgen.targets.builder import (
    CFamilyTarget,
)
from kgen.targets.c import (
    CTarget,
    CWithGNULibcTarget,
    ExecutableCTarget,
    ExecutableCWithGNULibcTarget,
)

__all__ = [
    "CFamilyTarget",
    "CTarget",
    "CWithGNULibcTarget",
    "ExecutableCTarget",
    "ExecutableCWithGNULibcTarget",
]
