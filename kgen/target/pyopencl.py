"""The pyopencl target, under the documented module name."""

from __future__ import annotations

from kgen.targets.opencl import (
    PyOpenCLTarget,
)

__all__ = [
    "PyOpenCLTarget",
]
