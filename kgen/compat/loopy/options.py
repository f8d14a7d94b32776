"""loopy.options: options of kernels."""

from __future__ import annotations

from kgen.ir.options import (
    Options,
    make_options,
)

__all__ = [
    "Options",
    "make_options",
]
