"""Clocks, temperature and energy of NVIDIA devices, by NVML, if its Python package is installed."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from kgen.errors import KgenError
from kgen.ir.optional import load

__all__ = ["Sensors", "sensors_of"]


class Sensors:
    """The sensors of a device: none, unless NVML knows it."""

    def __init__(self, library: Any = None, handle: Any = None) -> None:
        self._library, self._handle = library, handle

    def read(self) -> dict[str, float]:
        """Return clocks in MHz, the temperature in degrees Celsius, the power in watts."""
        nvml, handle = self._library, self._handle
        if nvml is None:
            return {}
        readings: dict[str, Callable[[], Any]] = {
            "clock_mhz": lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM),
            "memory_clock_mhz": lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_MEM),
            "temperature": lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU),
            "watts": lambda: 1e-3 * nvml.nvmlDeviceGetPowerUsage(handle),
        }
        found = {}
        for name, reading in readings.items():
            with contextlib.suppress(nvml.NVMLError):  # not provided by this device
                found[name] = float(reading())
        return found

    def joules(self) -> float | None:
        """Return the energy since the driver was loaded, if the device measures it."""
        if self._library is None:
            return None
        try:
            used = self._library.nvmlDeviceGetTotalEnergyConsumption(self._handle)
        except self._library.NVMLError:
            return None
        return 1e-3 * float(used)


def sensors_of(unit: str) -> Sensors:
    """Return the sensors of the device at a place on the bus, such as ``0000:17:00.0``.

    >>> sensors_of("host").read()
    {}
    """
    if unit == "host":
        return Sensors()
    try:
        nvml = load("pynvml", "tune")
        nvml.nvmlInit()
    except KgenError:
        return Sensors()
    except Exception:  # NVMLError of a library that does not load: its class is in there
        return Sensors()
    try:
        return Sensors(nvml, nvml.nvmlDeviceGetHandleByPciBusId(unit))
    except nvml.NVMLError:
        return Sensors()
