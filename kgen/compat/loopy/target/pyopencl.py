"""loopy.target.pyopencl: OpenCL that pyopencl runs."""

from __future__ import annotations

from kgen.targets.opencl import (
    PyOpenCLTarget,
)

__all__ = [
    "PyOpenCLTarget",
]
