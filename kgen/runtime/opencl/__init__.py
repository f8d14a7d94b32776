"""OpenCL: what uses pyopencl."""

from kgen.runtime.opencl.executor import OpenCLExecutor, executor_for

__all__ = ["OpenCLExecutor", "executor_for"]
