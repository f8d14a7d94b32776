"""loopy.target.cuda: CUDA."""

from __future__ import annotations

from kgen.targets.cuda import (
    CUDACASTBuilder,
    CudaTarget,
    PyCudaTarget,
)

__all__ = [
    "CUDACASTBuilder",
    "CudaTarget",
    "PyCudaTarget",
]
