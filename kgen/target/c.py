"""The C targets, under the documented module name."""

from __future__ import annotations

from kgen.targets.c import (
    CTarget,
    CWithGNULibcTarget,
    ExecutableCTarget,
    ExecutableCWithGNULibcTarget,
)
from kgen.targets.base import (
    CFamilyTarget,
)

__all__ = [
    "CFamilyTarget",
    "CTarget",
    "CWithGNULibcTarget",
    "ExecutableCTarget",
    "ExecutableCWithGNULibcTarget",
]
