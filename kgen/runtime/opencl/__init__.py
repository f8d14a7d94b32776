"""The OpenCL runtime, which uses pyopencl."""

from kgen.runtime.opencl.devices import (
    device_of,
    driver_of,
    find_devices,
    limits_of,
    number_of,
    open_device,
    to_device,
    to_guarded,
    to_host,
    unit_of,
)
from kgen.runtime.opencl.executor import OpenCLExecutor, executor_for
from kgen.runtime.opencl.memory import name_of_structure, structure_of_name
from kgen.runtime.opencl.resources import resources_of

__all__ = [
    "OpenCLExecutor",
    "device_of",
    "driver_of",
    "executor_for",
    "find_devices",
    "limits_of",
    "name_of_structure",
    "number_of",
    "open_device",
    "resources_of",
    "structure_of_name",
    "to_device",
    "to_guarded",
    "to_host",
    "unit_of",
]
