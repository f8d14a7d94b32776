"""loopy.target.pyopencl_execution: calls of OpenCL kernels. It needs pyopencl."""

from __future__ import annotations

from typing import TypeAlias

from kgen.runtime.opencl.executor import OpenCLExecutor

__all__ = ["PyOpenCLExecutor", "PyOpenCLKernelExecutor"]

PyOpenCLExecutor: TypeAlias = OpenCLExecutor
PyOpenCLKernelExecutor: TypeAlias = OpenCLExecutor
