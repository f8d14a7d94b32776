"""loopy.target.opencl: OpenCL."""

from __future__ import annotations

from kgen.targets.opencl import (
    OpenCLCASTBuilder,
    OpenCLTarget,
)

__all__ = [
    "OpenCLCASTBuilder",
    "OpenCLTarget",
]
