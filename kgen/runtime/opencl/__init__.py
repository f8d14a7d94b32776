"""The OpenCL runtime, which uses pyopencl."""

from kgen.runtime.opencl.executor import OpenCLExecutor, device_of, executor_for
from kgen.runtime.opencl.memory import name_of_structure
from kgen.runtime.opencl.resources import resources_of

__all__ = ["OpenCLExecutor", "device_of", "executor_for", "name_of_structure", "resources_of"]
