"""Targets, under loopy's module names."""

from __future__ import annotations

from kgen.ir.target import TargetBase
from kgen.target import c, cuda, ispc, opencl, pyopencl
from kgen.targets.builder import ASTBuilderBase

__all__ = ["ASTBuilderBase", "TargetBase", "c", "cuda", "ispc", "opencl", "pyopencl"]
