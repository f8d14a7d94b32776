"""loopy.auto_test: comparisons of a kernel with its original."""

from __future__ import annotations

from kgen.runtime.autotest import (
    auto_test_vs_ref,
)

__all__ = [
    "auto_test_vs_ref",
]
