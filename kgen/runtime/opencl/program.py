"""OpenCL programs: built for the devices of a context, and cached on disk."""

from __future__ import annotations

from functools import cache
from typing import cast

import pyopencl as cl

from kgen.errors import CodegenError, CompilationError
from kgen.runtime.cache import DiskCache, content_key
from kgen.runtime.executor import reject_group_size
from kgen.runtime.toolchain import keep_source
from kgen.targets.module import Launch
from kgen.targets.pocl import POCL

__all__ = [
    "check_group_size",
    "identity",
    "keeps_compiled_code",
    "load_program",
    "is_pocl",
]


def load_program(
    disk: DiskCache, context: cl.Context, source: str, flags: tuple[str, ...], kernel: str
) -> cl.Program:
    """Return the built *source* for all devices of a context, from *disk* if cached there."""
    devices = context.devices
    if all(map(keeps_compiled_code, devices)):
        return _build(context, source, flags, kernel)
    keys = [content_key("opencl", source, *identity(device), *flags) for device in devices]
    found = [disk.load(key) for key in keys]
    binaries = [binary for binary in found if binary is not None]
    program: cl.Program
    if len(binaries) == len(devices):
        try:
            program = cl.Program(context, devices, binaries).build(list(flags))
            return program
        except cl.Error:  # a driver that rejects what it made itself: build anew
            pass
    program = _build(context, source, flags, kernel)
    built = dict(
        zip(
            cast("list[cl.Device]", program.get_info(cl.program_info.DEVICES)),
            cast("list[bytes]", program.get_info(cl.program_info.BINARIES)),
            strict=True,
        )
    )
    for key, device in zip(keys, devices, strict=True):
        if built.get(device):
            disk.store(key, built[device])
    return program


def _build(context: cl.Context, source: str, flags: tuple[str, ...], kernel: str) -> cl.Program:
    """Compile *source* for all devices of a context."""
    for device in context.devices:
        if is_pocl(device):
            _keep_library(device)
    try:
        program: cl.Program = cl.Program(context, source).build(list(flags))
        return program
    except cl.RuntimeError as error:
        kept = keep_source(source, "kernel.cl", kernel)
        raise CompilationError(
            f"the OpenCL compiler rejects the generated code ({kept})",
            kernel=kernel,
            because=str(error),
        ) from None


@cache
def _keep_library(device: cl.Device) -> cl.Context:
    """Keep a context of a device until the process ends.

    When its last context is released, PoCL unloads the library that it links to all programs;
    loading it again takes 0.4 s.
    """
    return cl.Context([device])


def identity(device: cl.Device) -> tuple[str, ...]:
    """Describe everything that determines the code for a device."""
    platform = device.platform
    return (
        platform.name,
        platform.version,
        device.vendor,
        device.name,
        device.version,
        device.driver_version,
    )


def is_pocl(device: cl.Device) -> bool:
    """Tell whether a device is PoCL's, whose compiler miscompiles some code.

    ``docs/pocl.md`` describes it; :mod:`kgen.targets.pocl`, :mod:`kgen.ast.separate` and the
    target's ``suits_pocl`` avoid it.
    """
    return device.platform.name == POCL


def keeps_compiled_code(device: cl.Device) -> bool:
    """Tell whether a device's driver caches compiled programs itself.

    PoCL does. If it is asked for a binary, it compiles again, for launches of any size, which takes
    longer (0.7 s for 300 long statements) than the compilation for a launch (0.4 s).
    """
    return is_pocl(device)


def check_group_size(context: cl.Context, program: cl.Program, launch: Launch) -> None:
    """Reject work-groups that are too large for the devices of the context."""
    kernel = cl.Kernel(program, launch.function)
    query = cl.kernel_work_group_info.WORK_GROUP_SIZE
    limits = [kernel.get_work_group_info(query, device) for device in context.devices]
    reject_group_size(launch, max(cast("list[int]", limits)))
    rooms = [
        (kernel.get_work_group_info(cl.kernel_work_group_info.LOCAL_MEM_SIZE, device), device)
        for device in context.devices
    ]
    if all(used > device.local_mem_size for used, device in rooms):
        used, device = rooms[0]
        raise CodegenError(
            f"a work-group uses {used} bytes of local memory, more than the device has",
            kernel=launch.function,
            because=f"device '{device.name}' has {device.local_mem_size} bytes",
            hint="make the tiles smaller, or prefetch fewer arrays",
        )
