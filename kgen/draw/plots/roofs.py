"""Draws rooflines."""

from __future__ import annotations

from matplotlib.figure import Figure

from kgen.draw.roofs import Roof
from kgen.performance.plot import figure_of

__all__ = ["plot"]


def plot(found: Roof) -> Figure:
    """Draw the roof of a device, and the kernels below it."""
    return figure_of(found.rooflines)
