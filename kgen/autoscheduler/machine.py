"""The device that a schedule is for: its kind, and its limits."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

from kgen.errors import KernelError
from kgen.ir.target import WARP_SIZE, Execution, TargetBase
from kgen.ir.unit import TranslationUnit, kernels_of
from kgen.performance.device import Device
from kgen.targets.base import Target
from kgen.targets.limits import DeviceLimits
from kgen.targets.opencl import PyOpenCLTarget, limits_of_device

__all__ = ["Machine", "machine_of"]

#: The bit of an OpenCL device's type that means CPU.
_CPU: Final = 2
#: The local memory of a work-group on CUDA devices, by compute capability, and on most others.
_LOCAL_MEMORY: Final = {(7, 5): 65536, (8, 0): 166912, (9, 0): 232448, (10, 0): 232448}
_USUAL: Final = 98304


@dataclass(frozen=True, kw_only=True)
class Machine:
    """A device, as far as a schedule depends on it."""

    kind: Execution
    #: the number of work-items in lockstep
    warp: int = WARP_SIZE
    limits: DeviceLimits | None = None
    #: the 32-bit registers of a multiprocessor, if launch bounds may limit those of work-items
    registers: int | None = None

    @property
    def most_items(self) -> int:
        """The work-items of a work-group, at most 256, which is efficient everywhere."""
        return 256 if self.limits is None else min(256, self.limits.work_items)

    @property
    def capability(self) -> tuple[int, int] | None:
        """The compute capability, if the target specifies it."""
        return None if self.limits is None else self.limits.capability

    @property
    def local_memory(self) -> int:
        """The bytes that a work-group shares."""
        return 32768 if self.limits is None else self.limits.local_memory

    @property
    def usual_local_memory(self) -> int:
        """The bytes that a work-group shares on the device, or on most if that is not known."""
        return min(self.local_memory, _LOCAL_MEMORY.get(self.capability or (0, 0), _USUAL))


def machine_of(program: TranslationUnit, device: Any) -> tuple[TargetBase, Machine]:
    """Return the target of a schedule for *device*, and what kind of device that is.

    *device* is ``None`` for that of the program's target, a target, a description
    (:class:`kgen.performance.device.Device`), or a ``pyopencl.Device``. The schedule of one of
    several kernels does not limit registers, which would concern them all.
    """
    target, machine = _machine_of(program.target, device)
    is_alone = len(kernels_of(program)) == 1
    return target, machine if is_alone else replace(machine, registers=None)


def _machine_of(target: TargetBase, device: Any) -> tuple[TargetBase, Machine]:
    if isinstance(device, TargetBase):
        return device, _of_target(device)
    if device is None:
        return target, _of_target(target)
    if isinstance(device, Device):
        kind = Execution.THREADS if device.local_bandwidth is None else Execution.ITEMS
        own = _of_target(target)
        return target, own if own.kind is Execution.SERIAL else Machine(
            kind=kind, limits=own.limits
        )
    if not hasattr(device, "max_work_group_size"):
        raise KernelError(
            f"a schedule cannot be made for {device!r}, which is not a device",
            hint="pass a target, a Device, a pyopencl.Device (queue.device), or None for the "
            "target of the kernel",
        )
    own_target = target if target.runs_in_queue else PyOpenCLTarget(device)
    return own_target, _of_opencl_device(device)


def _of_target(target: TargetBase) -> Machine:
    device = target.find_device()
    if device is not None:
        return _of_opencl_device(device)
    limits = target.limits() if isinstance(target, Target) else None
    return Machine(kind=target.execution, limits=limits, registers=target.registers)


def _of_opencl_device(device: Any) -> Machine:
    kind = Execution.THREADS if device.type & _CPU else Execution.ITEMS
    return Machine(kind=kind, limits=limits_of_device(device))
