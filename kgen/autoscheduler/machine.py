"""The device that a schedule is for: its kind, and its limits."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from kgen.errors import InvocationError, KernelError
from kgen.ir.target import WARP_SIZE, TargetBase
from kgen.performance.device import Device
from kgen.targets.base import Target
from kgen.targets.c import CTarget
from kgen.targets.ispc.target import ISPCTarget
from kgen.targets.limits import DeviceLimits
from kgen.targets.opencl import PyOpenCLTarget

__all__ = ["Kind", "Machine", "machine_of"]

#: The bit of an OpenCL device's type that a processor has.
_CPU = 2


class Kind(Enum):
    """How a device runs work-groups."""

    #: no work-groups: a plain function
    SERIAL = "one thread"
    #: a thread for each work-group
    THREADS = "threads"
    #: many work-items for each work-group, which run in step
    ITEMS = "work-items"


@dataclass(frozen=True, kw_only=True)
class Machine:
    """A device, as far as a schedule depends on it."""

    kind: Kind
    #: so many work-items run in step
    warp: int = WARP_SIZE
    limits: DeviceLimits | None = None

    @property
    def most_items(self) -> int:
        """The work-items of a work-group, at most 256, which all devices are good with."""
        return 256 if self.limits is None else min(256, self.limits.work_items)

    @property
    def capability(self) -> tuple[int, int] | None:
        """The compute capability, if the target specifies it."""
        return None if self.limits is None else self.limits.capability

    @property
    def local_memory(self) -> int:
        """The bytes that a work-group shares."""
        return 32768 if self.limits is None else self.limits.local_memory


def machine_of(target: TargetBase, device: Any) -> tuple[TargetBase, Machine]:
    """Return the target of a schedule for *device*, and what kind of device that is.

    *device* is ``None`` for that of the target, a target, a description
    (:class:`kgen.performance.device.Device`), or a ``pyopencl.Device``.
    """
    if isinstance(device, TargetBase):
        return device, _of_target(device)
    if device is None:
        return target, _of_target(target)
    if isinstance(device, Device):
        kind = Kind.THREADS if device.local_bandwidth is None else Kind.ITEMS
        own = _of_target(target)
        return target, own if own.kind is Kind.SERIAL else Machine(kind=kind, limits=own.limits)
    if not hasattr(device, "max_work_group_size"):
        raise KernelError(
            f"a schedule cannot be made for {device!r}, which is not a device",
            hint="pass a target, a Device, a pyopencl.Device (queue.device), or None for the "
            "target of the kernel",
        )
    own_target = target if isinstance(target, PyOpenCLTarget) else PyOpenCLTarget(device)
    return own_target, _of_opencl_device(device)


def _of_target(target: TargetBase) -> Machine:
    if isinstance(target, ISPCTarget):
        return Machine(kind=Kind.SERIAL)
    if isinstance(target, CTarget):
        return Machine(kind=Kind.SERIAL if target.threads == 1 else Kind.THREADS)
    if isinstance(target, PyOpenCLTarget):
        return _of_opencl(target)
    limits = target.limits() if isinstance(target, Target) else None
    has_axes = target.has_hardware_axes
    return Machine(kind=Kind.ITEMS if has_axes else Kind.SERIAL, limits=limits)


def _of_opencl(target: PyOpenCLTarget) -> Machine:
    """Return the device of a target, else that which calls would choose here, else a GPU."""
    if target.device is not None:
        return _of_opencl_device(target.device)
    limits = target.device_limits
    try:
        (queue,) = target.load_runtime().open_device()
    except InvocationError:
        return Machine(kind=Kind.ITEMS, limits=limits)
    return _of_opencl_device(queue.device)


def _of_opencl_device(device: Any) -> Machine:
    kind = Kind.THREADS if device.type & _CPU else Kind.ITEMS
    return Machine(kind=kind, limits=PyOpenCLTarget(device).device_limits)
