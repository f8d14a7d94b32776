"""loopy.target.execution: calls of kernels."""

from __future__ import annotations

from kgen.runtime.executor import (
    ExecutorBase,
)

__all__ = [
    "ExecutorBase",
]
