"""The pyopencl target, under loopy's module name."""

from __future__ import annotations

from kgen.targets.opencl import (
    PyOpenCLTarget,
)

__all__ = [
    "PyOpenCLTarget",
]
