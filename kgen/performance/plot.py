"""Plots of rooflines, with matplotlib."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from kgen.errors import writing
from kgen.performance.device import Device
from kgen.performance.model import Roofline

__all__ = ["draw_roof", "figure_of", "plot"]

_MARKERS = "osD^vP*X"
#: Colours of Okabe and Ito's palette, and line styles, for colour-blind readers.
_ROOFS = (("#0072B2", "-"), ("#009E73", "--"), ("#CC79A7", "-."), ("#56B4E9", ":"))


def plot(found: Roofline | Iterable[Roofline], file: str | Path) -> None:
    """Draw the roof of a device and where kernels are below it; write it to *file*.

    The format of the file follows from its name: ``roofline.png``, ``roofline.svg``... All kernels
    are on the device of the first one.
    """
    figure = figure_of([found] if isinstance(found, Roofline) else list(found))
    with writing(file):
        figure.savefig(file)


def figure_of(rooflines: Sequence[Roofline]) -> Figure:
    """Draw kernels below the roof: filled if they were timed, else at the predicted rate."""
    device = rooflines[0].device
    figure = Figure(figsize=(7, 5), layout="constrained")
    axes = figure.subplots()
    places = [max(r.intensity, 1e-3) for r in rooflines]
    draw_roof(axes, device, places)
    for number, (roofline, place) in enumerate(zip(rooflines, places, strict=True)):
        kind = (
            "predicted" if roofline.measured_s is None else f"{roofline.achieved:.0%} of the roof"
        )
        note = kind if roofline.rate else "no operations: not shown"
        axes.plot(
            place,
            roofline.rate,
            _MARKERS[number % len(_MARKERS)],
            color="#D55E00",
            markersize=9,
            markeredgewidth=1.6,
            fillstyle="none" if roofline.measured_s is None else "full",
            label=f"{roofline.kernel_name}, {note}",
        )
    axes.set_title(device.name)
    axes.legend(fontsize=8)
    axes.grid(visible=True, which="major", alpha=0.3)
    return figure


def draw_roof(axes: Axes, device: Device, places: Sequence[float]) -> None:
    """Draw the roof of a device, around the intensities of kernels; label the axes."""
    top = max(device.flops.values())
    ridge = top / device.bandwidth
    ends = (min([*places, ridge]) / 8, max([*places, ridge]) * 8)
    for number, (dtype, peak) in enumerate(sorted(device.flops.items())):
        corner = peak / device.bandwidth
        colour, style = _ROOFS[number % len(_ROOFS)]
        label = f"{dtype}: {peak:.3g}/s"
        axes.plot([corner, ends[1]], [peak, peak], style, color=colour, label=label)
    slope = [ends[0] * device.bandwidth, min(top, ends[1] * device.bandwidth)]
    label = f"memory: {device.bandwidth:.3g} B/s"
    axes.plot([ends[0], slope[1] / device.bandwidth], slope, color="#444444", label=label)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("operations per byte of the footprint")
    axes.set_ylabel("operations per second")
