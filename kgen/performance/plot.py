"""Plots of rooflines, with matplotlib."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from kgen.performance.device import Device
from kgen.performance.model import Roofline

__all__ = ["draw_roof", "plot"]


def plot(found: Roofline | Iterable[Roofline], file: str | Path) -> None:
    """Draw the roof of a device and where kernels are below it; write it to *file*.

    The kind of the file follows from its name: ``roofline.png``, ``roofline.svg``... All kernels
    are on the device of the first one.
    """
    rooflines = [found] if isinstance(found, Roofline) else list(found)
    device = rooflines[0].device
    figure = Figure(figsize=(7, 5), layout="constrained")
    axes = figure.subplots()
    places = [max(r.intensity, 1e-3) for r in rooflines]
    draw_roof(axes, device, places)
    for roofline, place in zip(rooflines, places, strict=True):
        seconds = roofline.measured_s or roofline.predicted_s
        rate = sum(roofline.flops.values()) / seconds
        axes.plot(place, rate, "o", label=roofline.kernel_name)
    axes.set_title(device.name)
    axes.legend()
    figure.savefig(file)


def draw_roof(axes: Axes, device: Device, places: Sequence[float]) -> None:
    """Draw the roof of a device, around the intensities of kernels; label the axes."""
    top = max(device.flops.values())
    ridge = top / device.bandwidth
    ends = (min([*places, ridge]) / 8, max([*places, ridge]) * 8)
    for dtype, peak in sorted(device.flops.items()):
        corner = peak / device.bandwidth
        axes.plot([corner, ends[1]], [peak, peak], label=f"{dtype}: {peak:.3g}/s")
    slope = [ends[0] * device.bandwidth, min(top, ends[1] * device.bandwidth)]
    label = f"memory: {device.bandwidth:.3g} B/s"
    axes.plot([ends[0], slope[1] / device.bandwidth], slope, label=label)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("operations per byte of the footprint")
    axes.set_ylabel("operations per second")
