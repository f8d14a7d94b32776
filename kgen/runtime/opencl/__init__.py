"""The OpenCL runtime, which uses pyopencl."""

from kgen.runtime.opencl.devices import device_of, find_devices, open_device, to_device, to_host
from kgen.runtime.opencl.executor import OpenCLExecutor, executor_for
from kgen.runtime.opencl.memory import name_of_structure
from kgen.runtime.opencl.resources import resources_of

__all__ = [
    "OpenCLExecutor",
    "device_of",
    "executor_for",
    "find_devices",
    "name_of_structure",
    "open_device",
    "resources_of",
    "to_device",
    "to_host",
]
