"""The device of a tune, as data; and the lock between programs that measure on it."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from kgen.ir.target import TargetBase
from kgen.runtime.system import lock
from kgen.targets.limits import DeviceLimits

__all__ = ["DeviceInfo", "device_info", "device_lock"]


@dataclass(frozen=True, kw_only=True)
class DeviceInfo:
    """The description of a device in records, and its location.

    ``unit`` is the same for two programs that run on the same hardware, by whatever interface.
    """

    api: str
    kind: str
    vendor: str
    name: str
    driver: str
    unit: str = ""
    limits: DeviceLimits | None = None

    @property
    def identity(self) -> dict[str, str]:
        """The properties that a time depends on."""
        found: dict[str, Any] = asdict(self)
        return {name: found[name] for name in ("api", "kind", "vendor", "name", "driver")}

    def __str__(self) -> str:
        return f"{self.name} ({self.api}, {self.driver})"


def device_info(target: TargetBase, leading: tuple[Any, ...]) -> DeviceInfo:
    """Describe the device of calls of kernels for a target.

    >>> from kgen.targets.c import ExecutableCTarget
    >>> found = device_info(ExecutableCTarget(), ())
    >>> found.api, found.kind, found.unit
    ('c', 'cpu', 'host')
    """
    runtime = target.load_runtime()
    found = runtime.device_of(*leading)
    is_host = found.api == "c"
    return DeviceInfo(
        api=found.api,
        kind=found.kind,
        vendor=found.vendor,
        name=runtime.processor_name() if is_host else found.name,
        driver=runtime.driver_of(*leading),
        unit=runtime.unit_of(*leading),
        limits=runtime.limits_of(*leading),
    )


@contextlib.contextmanager
def device_lock(unit: str, *, shared: bool = False) -> Iterator[None]:
    """Hold the lock of a device: alone, or *shared* with others that do not measure.

    All programs of this user on this machine use it; it is released when its owner dies.
    """
    folder = Path(tempfile.gettempdir(), f"kgen-locks-{os.geteuid()}")
    folder.mkdir(mode=0o700, exist_ok=True)
    name = re.sub(r"\W+", "-", unit)
    handle = os.open(folder / f"{name}.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        lock(handle, shared=shared)
        yield
    finally:
        os.close(handle)
