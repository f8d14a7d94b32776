"""The common style of figures, with colours for colour-blind readers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PatchCollection
from matplotlib.colors import to_rgb
from matplotlib.patches import Rectangle

__all__ = ["COLOURS", "GREY", "cells", "ink_on", "lines", "mark_axis", "outline", "shade", "write"]

#: The palette of Okabe and Ito, "Color Universal Design", 2008, without yellow and black.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
GREY = "#444444"


def shade(part: float) -> Any:
    """Return a colour for a part of a whole, from light to dark, on which lines are visible."""
    return colormaps["YlGnBu"](0.05 + 0.5 * part)


def ink_on(colour: Any) -> str:
    """Return black or white, whichever is legible on a colour."""
    red, green, blue = to_rgb(colour)
    return "black" if 0.299 * red + 0.587 * green + 0.114 * blue > 0.5 else "white"


def cells(
    axes: Axes, places: Iterable[tuple[float, float]], colours: Sequence[Any], size: float = 0.92
) -> None:
    """Draw a square of a colour at each place."""
    patches = [Rectangle((x - size / 2, y - size / 2), size, size) for x, y in places]
    axes.add_collection(PatchCollection(patches, facecolors=colours, edgecolors="none", zorder=1))


def write(axes: Axes, place: tuple[float, float], text: str, colour: Any, size: int = 7) -> None:
    """Write a number into a cell of a colour; the layout ignores it."""
    written = axes.text(*place, text, ha="center", va="center", fontsize=size, color=ink_on(colour))
    written.set_in_layout(False)


def lines(axes: Axes, segments: Sequence[Any], colour: str, width: float, zorder: int = 3) -> None:
    """Draw straight lines."""
    axes.add_collection(LineCollection(segments, colors=colour, linewidths=width, zorder=zorder))


def outline(
    tiles: Mapping[tuple[int, int], Any],
) -> list[list[tuple[float, float]]]:
    """Return the sides of cells that border on another tile, or on no cell."""
    segments = []
    for (x, y), tile in tiles.items():
        for dx, dy in ((1, 0), (-1, 0), (0, 1), (0, -1)):
            if (x + dx, y + dy) not in tiles or tiles[x + dx, y + dy] != tile:
                middle, half = (x + dx / 2, y + dy / 2), (dy / 2, dx / 2)
                start = (middle[0] - half[0], middle[1] - half[1])
                segments.append([start, (middle[0] + half[0], middle[1] + half[1])])
    return segments


def mark_axis(axes: Axes, low: Sequence[int], high: Sequence[int], *, most: int = 24) -> None:
    """Show whole numbers on both axes, and room for the cells between them; y goes down."""
    for axis, first, last in zip((axes.xaxis, axes.yaxis), low, high, strict=True):
        step = max(1, -(-(last - first + 1) // most))
        axis.set_ticks(list(range(first, last + 1, step)))
    axes.set_xlim(low[0] - 0.7, high[0] + 0.7)
    axes.set_ylim(high[1] + 0.7, low[1] - 0.7)
    axes.set_aspect("equal")
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
