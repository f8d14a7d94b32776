"""Draws iterations: squares in the order of time, outlines of tiles, arrows of dependences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil, dist
from typing import Literal

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import FancyArrowPatch

from kgen.draw.domains import Dependence, Iterations
from kgen.draw.plots.style import COLOURS, GREY, cells, lines, mark_axis, outline, shade, write
from kgen.draw.text import params_text, point_text

__all__ = ["plot"]

_KINDS: dict[str, tuple[str, Literal["-", "--", ":"]]] = {
    "flow": (COLOURS[1], "-"),
    "anti": (COLOURS[3], "--"),
    "output": (COLOURS[2], ":"),
}
#: The maximum number of arrows; if there are more, one is drawn for each distance.
_MOST_ARROWS = 160
#: The maximum number of numbered squares.
_MOST_NUMBERS = 400
_COLUMNS = 3


def plot(found: Iterations) -> Figure:
    """Draw iterations, the values of the first axis downwards; a panel for each third value."""
    slices = found.slices()
    columns = min(_COLUMNS, len(slices))
    rows = ceil(len(slices) / columns)
    low, high = _limits(found)
    width, height = (min(9.0, 0.5 * (high[k] - low[k] + 1)) for k in (0, 1))
    size = (max(4.5, (width + 0.9) * columns), (height + 1.0) * rows + 1.3)
    figure = Figure(figsize=size, layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False)
    kept = _kept(found)
    for axes, (place, numbers) in zip(grid.flat, slices.items(), strict=False):
        _draw(axes, found, numbers)
        _draw_arrows(axes, found, [d for d in kept if {d.source, d.sink} <= set(numbers)])
        mark_axis(axes, low, high)
        axes.set_xlabel(found.axes[1] if len(found.axes) > 1 else found.axes[0])
        axes.set_ylabel(found.axes[0] if len(found.axes) > 1 else "", rotation=0, labelpad=12)
        if len(found.axes) == 1:
            axes.set_yticks([])
        if place is not None:
            axes.set_title(f"{found.axes[2]} = {place}", fontsize=10)
    for axes in list(grid.flat)[len(slices) :]:
        axes.set_axis_off()
    figure.suptitle(f"{found.kernel_name}{params_text(found.params)}")
    _add_legend(figure, found, len(kept))
    return figure


def _place(found: Iterations, number: int) -> tuple[int, int]:
    """Return the position of an iteration: the first axis is y, which points down."""
    position = found.points[number].position
    return (position[1], position[0]) if len(position) > 1 else (position[0], 0)


def _limits(found: Iterations) -> tuple[Sequence[int], Sequence[int]]:
    places = [_place(found, number) for number in range(len(found.points))] or [(0, 0)]
    columns = list(zip(*places, strict=True))
    return [min(values) for values in columns], [max(values) for values in columns]


def _draw(axes: Axes, found: Iterations, numbers: Sequence[int]) -> None:
    """Draw the squares of a panel, and the lines between them."""
    first: dict[tuple[int, int], int] = {}
    for number in numbers:
        first.setdefault(_place(found, number), number)
    last = max((point.order for point in found.points), default=0) or 1
    colours = [shade(found.points[number].order / last) for number in first.values()]
    cells(axes, first, colours)
    if len(first) <= _MOST_NUMBERS:
        for (place, number), colour in zip(first.items(), colours, strict=True):
            text = str(found.points[number].order)
            write(axes, place, text, colour)
    lines(axes, _path(found, numbers), GREY, 0.6, zorder=2)
    lines(axes, _borders(found, first), "black", 1.8)


def _path(found: Iterations, numbers: Sequence[int]) -> list[list[tuple[float, float]]]:
    """Return lines from each iteration of a work-item to its next one; in one order, arrows."""
    latest: dict[tuple[tuple[int, ...], tuple[int, ...]], int] = {}
    segments = []
    for number in numbers:
        point = found.points[number]
        before = latest.get((point.group, point.item))
        if before is not None:
            start, end = _place(found, before), _place(found, number)
            if start != end:
                segments.append([_away(start, end, 0.33), _away(end, start, 0.33)])
        latest[point.group, point.item] = number
    return segments


def _away(start: tuple[float, float], end: tuple[float, float], by: float) -> tuple[float, float]:
    """Return the point at the distance *by* from *start*, in the direction of *end*."""
    part = by / dist(start, end)
    return start[0] + part * (end[0] - start[0]), start[1] + part * (end[1] - start[1])


def _borders(
    found: Iterations, first: Mapping[tuple[int, int], int]
) -> list[list[tuple[float, float]]]:
    """Return the outlines of tiles."""
    if not found.tiled_by:
        return []
    return outline({place: found.points[number].tile for place, number in first.items()})


# -- dependences --------------------------------------------------------------------------------


def _kept(found: Iterations) -> list[Dependence]:
    """Return the dependences that are drawn: all, or one of each distance, near the middle."""
    apart = [d for d in found.dependences if _is_drawn(found.distance(d))]
    if len(apart) <= _MOST_ARROWS:
        return apart
    low, high = _limits(found)
    middle = [(a + b) / 2 for a, b in zip(low, high, strict=True)]
    nearest = sorted(apart, key=lambda d: dist(_place(found, d.sink), middle))
    one_each = {(d.kind, d.array, found.distance(d)): d for d in reversed(nearest)}
    return list(one_each.values())


def _is_drawn(distance: Sequence[int]) -> bool:
    """Tell whether an arrow is inside of a slice, and has a length."""
    return any(distance[:2]) and not any(distance[2:])


def _draw_arrows(axes: Axes, found: Iterations, kept: Sequence[Dependence]) -> None:
    for dependence in kept:
        start, end = _place(found, dependence.source), _place(found, dependence.sink)
        colour, style = _KINDS[dependence.kind]
        is_next = dist(start, end) < 1.5
        arrow = FancyArrowPatch(
            _away(start, end, 0.22),
            _away(end, start, 0.22),
            arrowstyle="-|>",
            mutation_scale=9,
            linestyle=style,
            color=colour,
            linewidth=1.3,
            shrinkA=0,
            shrinkB=0,
            connectionstyle="arc3" if is_next else "arc3,rad=0.2",
            zorder=4,
        )
        arrow.set_in_layout(False)
        axes.add_patch(arrow)


def _add_legend(figure: Figure, found: Iterations, n_arrows: int) -> None:
    """Describe the meaning of colours, lines and arrows."""
    entries = [Line2D([], [], color=GREY, linewidth=0.8, label="number, thin line: order in time")]
    if found.tiled_by:
        label = f"tiles: {', '.join(found.tiled_by)}"
        entries.append(Line2D([], [], color="black", linewidth=1.8, label=label))
    drawn = [key for key in found.distances if _is_drawn(key[2])]
    all_of = sum(found.distances[key] for key in drawn)
    some = "" if n_arrows == all_of else f"; {n_arrows} of {all_of}, one of each distance"
    for kind in dict.fromkeys(key[0] for key in drawn):
        arrays = dict.fromkeys(array for other, array, _ in drawn if other == kind)
        colour, style = _KINDS[kind]
        label = f"{kind} dependence on {', '.join(arrays)}{some}"
        entries.append(Line2D([], [], color=colour, linestyle=style, label=label))
    for kind, array, distance in sorted(found.distances):
        if any(distance[2:]):
            label = f"not drawn: {kind} dependence on {array} by {point_text(distance)}"
            entries.append(Line2D([], [], linestyle="", label=label))
    figure.legend(handles=entries, loc="outside lower center", fontsize=8, frameon=False)
