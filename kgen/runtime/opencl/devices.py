"""The OpenCL devices of this machine, and queues on them."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.array as cla

from kgen.errors import InvocationError
from kgen.runtime.devices import RunningOn, position_of
from kgen.runtime.opencl.memory import download, upload

__all__ = ["device_of", "find_devices", "open_device", "to_device", "to_host"]


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

    Without a wish it is the device that ``$PYOPENCL_CTX`` chooses, else the first one.
    """
    if wanted is None and os.environ.get("PYOPENCL_CTX"):
        context = cl.create_some_context(interactive=False)
    else:
        position = position_of(wanted, find_devices(), "OpenCL")
        context = cl.Context([_devices()[position]])
    return (cl.CommandQueue(context),)


def to_device(array: np.ndarray[Any, Any], queue: cl.CommandQueue) -> cla.Array:
    """Copy an array to the device of a queue."""
    return upload(queue, None, "", array)


def to_host(array: cla.Array, queue: cl.CommandQueue) -> np.ndarray[Any, Any]:
    """Copy an array from the device of a queue."""
    return download(queue, array, None)
