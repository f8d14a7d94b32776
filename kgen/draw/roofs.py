"""Rooflines: the limits of a device, and the kernels below them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from kgen.draw.picture import Picture
from kgen.errors import KgenError
from kgen.performance.model import Roofline

__all__ = ["Roof", "RoofPoint", "roofline"]


@dataclass(frozen=True, kw_only=True)
class RoofPoint:
    """A kernel: its operations per byte and per second. ``is_measured``: it was timed."""

    kernel_name: str
    intensity: float
    rate: float
    is_measured: bool


@dataclass(frozen=True, kw_only=True)
class Roof(Picture):
    """Kernels below the roof of the device of the first one."""

    plotter: ClassVar[str] = "roofs"

    rooflines: tuple[Roofline, ...]

    @property
    def points(self) -> tuple[RoofPoint, ...]:
        """The positions of kernels, by their measured times if known, or else predicted ones."""
        return tuple(
            RoofPoint(
                kernel_name=found.kernel_name,
                intensity=found.intensity,
                rate=found.rate,
                is_measured=found.measured_s is not None,
            )
            for found in self.rooflines
        )

    def __str__(self) -> str:
        return "\n\n".join(map(str, self.rooflines))


def roofline(found: Roofline | Sequence[Roofline]) -> Roof:
    """Draw the results of :func:`kgen.roofline` for one or several kernels on one device.

    >>> import kgen as lp
    >>> unit = lp.make_kernel(
    ...     "{ [i]: 0<=i<n }", "out[i] = 2*a[i]", [lp.GlobalArg("a", "float32"), ...],
    ...     target=lp.CTarget())
    >>> host = lp.Device(
    ...     name="host", bandwidth=1e10, cache_bandwidth=1e11, flops={"float32": 1e11})
    >>> picture = lp.draw.roofline(lp.roofline(unit, {"n": 1000}, host))
    >>> picture.points[0].intensity
    0.125
    """
    rooflines = (found,) if isinstance(found, Roofline) else tuple(found)
    if not rooflines:
        raise KgenError("there is no roofline to draw", hint="lp.draw.roofline(lp.roofline(...))")
    return Roof(rooflines=rooflines)
