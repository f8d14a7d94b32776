"""Kinds and vendors of devices: the device of a call, to select a schedule, and all devices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kgen.errors import InvocationError
from kgen.host.devices import MAKERS

__all__ = ["RunningOn", "position_of"]


@dataclass(frozen=True, kw_only=True)
class RunningOn:
    """A device: ``api`` is ``c``, ``opencl``, ``cuda``; ``kind`` ``cpu``, ``gpu``, ``other``.

    ``platform`` and ``version`` are those of its driver.
    """

    api: str
    kind: str
    vendor: str
    name: str
    platform: str = ""
    version: str = ""

    def __str__(self) -> str:
        return f"{self.name} ({', '.join(filter(None, (self.platform, self.version)))})"

    def is_a(self, device_type: str) -> bool:
        """Tell whether this is of one of the :data:`kgen.host.devices.DEVICE_TYPES`.

        >>> RunningOn(api="cuda", kind="gpu", vendor="NVIDIA", name="H200").is_a("nvidia")
        True
        """
        if device_type == "host":
            return self.kind == "cpu"
        makers = MAKERS.get(device_type)
        if makers is not None:
            return self.kind == "gpu" and any(word in self.vendor.lower() for word in makers)
        return device_type in ("*", self.kind, self.api)


def position_of(wanted: str | None, devices: Sequence[RunningOn], api: str) -> int:
    """Return the position of a device, by number, or by a part of its name or its driver's.

    It is the first one if *wanted* is ``None``. Raises :class:`InvocationError` if there is none.

    >>> host = RunningOn(api="opencl", kind="cpu", vendor="", name="pthread", platform="PoCL")
    >>> gpu = RunningOn(api="opencl", kind="gpu", vendor="NVIDIA", name="H200", platform="CUDA")
    >>> [position_of(wanted, [host, gpu], "OpenCL") for wanted in (None, "1", "h200", "pocl")]
    [0, 1, 1, 0]
    """
    for position, device in enumerate(devices):
        names = f"{device.platform} {device.version} {device.name}".lower()
        if wanted is None or (
            int(wanted) == position if wanted.isdecimal() else wanted.lower() in names
        ):
            return position
    there = "; ".join(f"{position}: {device}" for position, device in enumerate(devices))
    which = f"device of {api}" + ("" if wanted is None else f" '{wanted}'")
    raise InvocationError(
        f"there is no {which} here",
        because=f"there is {there or 'none at all'}",
        hint="name one by its number, or by a part of its name or its driver's",
    )
