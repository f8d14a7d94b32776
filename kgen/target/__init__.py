"""Targets, under the documented module names."""

from __future__ import annotations

from kgen.ir.target import TargetBase
from kgen.target import c, cuda, opencl, pyopencl

__all__ = ["TargetBase", "c", "cuda", "opencl", "pyopencl"]
