"""Draws a prefetch: the elements of an array, the tiles that are fetched, one in detail."""

from __future__ import annotations

from matplotlib.figure import Figure
from matplotlib.patches import Patch

from kgen.draw.plots.style import COLOURS, cells, lines, mark_axis, outline, write
from kgen.draw.prefetches import Prefetch, plane_of
from kgen.draw.text import params_text

__all__ = ["plot"]

_GREYS = ("#f2f2f2", "#dddddd", "#c4c4c4", "#aaaaaa")
_CORE, _HALO = COLOURS[5], COLOURS[4]


def plot(found: Prefetch) -> Figure:
    """Draw the last two axes of an array; a number counts the tiles that fetch an element."""
    front, places = plane_of(found)
    spots = {(column, row): element for (row, column), element in places.items()}
    low, high = ([pick(spot[k] for spot in spots) for k in (0, 1)] for pick in (min, max))
    width, height = (max(2.0, min(10.0, 0.33 * (high[k] - low[k] + 1))) for k in (0, 1))
    figure = Figure(figsize=(max(5.0, width + 1.2), height + 1.9), layout="constrained")
    axes = figure.subplots()
    tile = found.middle
    colours = [
        _CORE
        if element in tile.core
        else _HALO
        if element in tile.elements
        else _GREYS[min(found.times[element], len(_GREYS)) - 1]
        for element in spots.values()
    ]
    cells(axes, spots, colours, 0.94)
    if len(spots) <= 1200:
        for (spot, element), colour in zip(spots.items(), colours, strict=True):
            text = str(found.times[element])
            write(axes, spot, text, colour, 6)
    for other in found.tiles:
        if other.core != other.elements or len(found.tiles) > 1:
            lines(axes, _outline(other.core, front), "black", 1.0, zorder=3)
    lines(axes, _outline(tile.elements, front), COLOURS[1], 2.2, zorder=4)
    mark_axis(axes, low, high)
    n_axes = len(next(iter(tile.elements)))
    axes.set_xlabel(f"axis {n_axes - 1} of {found.array}")
    if n_axes > 1:
        axes.set_ylabel(f"axis {n_axes - 2}")
    else:
        axes.set_yticks([])
    where = ", ".join(f"{name} = {value}" for name, value in tile.at.items()) or "the tile"
    inside = f", elements {found.array}[{', '.join(map(str, front))}, :, :]" if front else ""
    figure.suptitle(f"{found.fetch} in {found.kernel_name}{params_text(found.params)}{inside}")
    entries = [Patch(color=_CORE, label=f"{where}: core, {len(tile.core)} elements")]
    if tile.halo:
        entries.append(Patch(color=_HALO, label=f"halo, {len(tile.halo)} elements"))
    entries.append(Patch(color=_GREYS[1], label="number: how many tiles fetch the element"))
    figure.legend(handles=entries, loc="outside lower center", fontsize=8, frameon=False)
    return figure


def _outline(
    elements: frozenset[tuple[int, ...]], front: tuple[int, ...]
) -> list[list[tuple[float, float]]]:
    """Return the outline of the elements that are drawn."""
    spots = ((element[-1], (0, *element)[-2]) for element in elements if element[:-2] == front)
    return outline(dict.fromkeys(spots, True))
