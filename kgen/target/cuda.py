"""The CUDA targets, under the documented module name."""

from __future__ import annotations

from kgen.targets.cuda import (
    CudaTarget,
    PyCudaTarget,
)

__all__ = [
    "CudaTarget",
    "PyCudaTarget",
]
