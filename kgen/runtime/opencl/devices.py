"""The OpenCL devices of this machine, and queues on them."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pyopencl as cl
import pyopencl.array as cla

from kgen.errors import InvocationError
from kgen.runtime.devices import RunningOn, position_of
from kgen.runtime.guarded import MARK, ZONE, Guarded, is_marked
from kgen.runtime.opencl.memory import download, upload
from kgen.targets.limits import DeviceLimits
from kgen.targets.opencl import limits_of_device

__all__ = [
    "device_of",
    "driver_of",
    "find_devices",
    "limits_of",
    "number_of",
    "open_device",
    "to_device",
    "to_guarded",
    "to_host",
    "unit_of",
]

#: The maximum registers of a work-item of an NVIDIA device, and of a work-group.
_NVIDIA_REGISTERS: Final = (255, 65536)


def device_of(*args: Any) -> RunningOn:
    """Return the device of a queue."""
    if not args or not isinstance(args[0], cl.CommandQueue):
        raise InvocationError("the device of a call is that of its queue\n  hint: pass a queue")
    return _described(args[0].device)


def _described(device: cl.Device) -> RunningOn:
    kinds = {cl.device_type.CPU: "cpu", cl.device_type.GPU: "gpu"}
    return RunningOn(
        api="opencl",
        kind=next((kinds[flag] for flag in kinds if device.type & flag), "other"),
        vendor=device.vendor,
        name=device.name.strip(),
        platform=device.platform.name,
        version=f"{device.version.strip()}, driver {device.driver_version}",
    )


def _devices() -> list[cl.Device]:
    """Return the devices of all platforms that have any."""
    found: list[cl.Device] = []
    try:
        platforms = cl.get_platforms()
    except cl.Error:  # how the loader says that it found none
        return []
    for platform in platforms:
        try:
            found += platform.get_devices()
        except cl.Error:  # how a driver says that it has none
            continue
    return found


def find_devices() -> tuple[RunningOn, ...]:
    """Return the devices of all platforms, in the loader's order."""
    return tuple(map(_described, _devices()))


def open_device(wanted: str | None = None) -> tuple[cl.CommandQueue]:
    """Return the arguments by position of calls on a device: a queue.

    By default it is on the device that ``$PYOPENCL_CTX`` chooses, else on the first one.
    """
    if wanted is None and os.environ.get("PYOPENCL_CTX"):
        context = cl.create_some_context(interactive=False)
    else:
        position = position_of(wanted, find_devices(), "OpenCL")
        context = cl.Context([_devices()[position]])
    return (cl.CommandQueue(context),)


def number_of(queue: cl.CommandQueue) -> str:
    """Return the number of a queue's device among those of all platforms."""
    return str(_devices().index(queue.device))


def unit_of(queue: cl.CommandQueue) -> str:
    """Return an identifier of the hardware, equal for programs on the same device.

    It is that of the host's processors, or the address of a device on the bus, if the driver
    reports it.
    """
    device = queue.device
    if device.type & cl.device_type.CPU:
        return "host"
    try:
        bus, slot = device.pci_bus_id_nv, device.pci_slot_id_nv
        domain = device.pci_domain_id_nv
    except (AttributeError, cl.Error):
        return f"{device.platform.name} {number_of(queue)}"
    return f"{domain:04X}:{bus:02X}:{slot >> 3:02X}.{slot & 7:X}"


def limits_of(queue: cl.CommandQueue) -> DeviceLimits:
    """Return the limits of a queue's device."""
    limits = limits_of_device(queue.device)
    if "nvidia" not in queue.device.vendor.lower():
        return limits
    registers, of_group = _NVIDIA_REGISTERS
    return replace(limits, registers=registers, registers_of_group=of_group)


def driver_of(queue: cl.CommandQueue) -> str:
    """Return the version of the driver, which makes and runs the device's code."""
    return f"{queue.device.platform.name} {queue.device.driver_version}"


def to_device(array: np.ndarray[Any, Any], queue: cl.CommandQueue) -> cla.Array:
    """Copy an array to the device of a queue."""
    return upload(queue, None, "", array)


def to_guarded(array: np.ndarray[Any, Any], queue: cl.CommandQueue) -> Guarded:
    """Copy an array to a device, with guard zones that detect writes out of bounds."""
    made: list[tuple[cl.Buffer, int]] = []

    def allocate(size: int) -> cl.Buffer:
        whole = cl.Buffer(queue.context, cl.mem_flags.READ_WRITE, size + 2 * ZONE)
        made.append((whole, size))
        for start in (0, ZONE + size):
            cl.enqueue_copy(queue, whole, np.full(ZONE, MARK, np.uint8), dst_offset=start)
        return whole.get_sub_region(ZONE, size)

    def is_intact() -> bool:
        return all(
            is_marked(_bytes_at(queue, whole, 0), _bytes_at(queue, whole, ZONE + size))
            for whole, size in made
        )

    return Guarded(upload(queue, allocate, "", array), is_intact)


def _bytes_at(queue: cl.CommandQueue, memory: cl.Buffer, start: int) -> np.ndarray[Any, Any]:
    """Return the bytes of a zone of a buffer."""
    found = np.empty(ZONE, np.uint8)
    cl.enqueue_copy(queue, found, memory, src_offset=start)
    return found


def to_host(array: cla.Array, queue: cl.CommandQueue) -> np.ndarray[Any, Any]:
    """Copy an array from the device of a queue."""
    return download(queue, array, None)
