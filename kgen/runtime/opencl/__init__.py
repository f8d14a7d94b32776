"""OpenCL: what uses pyopencl."""

from kgen.runtime.opencl.executor import OpenCLExecutor, device_of, executor_for

__all__ = ["OpenCLExecutor", "device_of", "executor_for"]
