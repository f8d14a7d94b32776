"""The OpenCL target, under loopy's module name."""

from __future__ import annotations

from kgen.targets.opencl import (
    OpenCLCASTBuilder,
    OpenCLTarget,
)

__all__ = [
    "OpenCLCASTBuilder",
    "OpenCLTarget",
]
