"""Resource use of kernels on an OpenCL device, as reported by the driver."""

from __future__ import annotations

from math import prod
from typing import Any

import pyopencl as cl

from kgen.runtime.cache import DiskCache, content_key
from kgen.runtime.opencl.program import identity, load_program
from kgen.runtime.resources import Resources, read_assembler
from kgen.targets.module import Module

__all__ = ["resources_of"]

#: NVIDIA's option for a build log with the registers of each kernel.
_VERBOSE = "-cl-nv-verbose"


def resources_of(
    disk: DiskCache, queue: cl.CommandQueue, module: Module, flags: tuple[str, ...], kernel: str
) -> tuple[Resources, ...]:
    """Return the resources of each launch, once per kernel of the program."""
    device = queue.device
    source = module.device_source
    program = load_program(disk, queue.context, source, flags, kernel)
    registers = read_assembler(_build_log(disk, queue.context, device, source, flags))
    info = cl.kernel_work_group_info
    found = []
    for launch in {launch.function: launch for launch in module.launches}.values():
        built = cl.Kernel(program, launch.function)

        def ask(what: Any, built: cl.Kernel = built) -> int:
            return int(built.get_work_group_info(what, device))

        found.append(
            Resources(
                function=launch.function,
                group_size=prod(launch.locals),
                local_bytes=ask(info.LOCAL_MEM_SIZE),
                private_bytes=ask(info.PRIVATE_MEM_SIZE),
                largest_group=ask(info.WORK_GROUP_SIZE),
                multiple=ask(info.PREFERRED_WORK_GROUP_SIZE_MULTIPLE),
                registers=registers[launch.function][0] if launch.function in registers else None,
                capability=_capability(device),
            )
        )
    return tuple(found)


def _capability(device: cl.Device) -> tuple[int, int] | None:
    """Return the compute capability of an NVIDIA device."""
    if "cl_nv_device_attribute_query" not in device.extensions.split():
        return None
    major, minor = device.compute_capability_major_nv, device.compute_capability_minor_nv
    return int(major), int(minor)


def _build_log(
    disk: DiskCache, context: cl.Context, device: cl.Device, source: str, flags: tuple[str, ...]
) -> str:
    """Return the build log of NVIDIA's compiler, for which the program is rebuilt once."""
    if _capability(device) is None:
        return ""
    key = content_key("opencl log", source, *identity(device), *flags)
    kept = disk.load(key)
    if kept is None:
        program: Any = cl.Program(context, source)
        program.build([*flags, _VERBOSE], devices=[device], cache_dir=False)
        log = program.get_build_info(device, cl.program_build_info.LOG)
        kept = str(log).encode()
        disk.store(key, kept)
    return kept.decode()
