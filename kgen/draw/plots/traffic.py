"""Draws accesses: a row of memory for each 128 bytes, elements coloured by work-item."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from kgen.draw.plots.style import COLOURS, cells, lines, mark_axis, outline, shade, write
from kgen.draw.text import params_text, point_text
from kgen.draw.traffic import Accesses, Request, Touch, heading

__all__ = ["plot"]

#: The bytes of a row.
_ROW = 128
_MOST_ROWS = 32
#: The maximum number of elements along a side of a drawn array.
_LONGEST = 40


def plot(found: Accesses) -> Figure:
    """Draw a panel for each request; only rows that are touched."""
    boxes = [_box(request) for request in found.requests]
    rows = [
        max(min(_MOST_ROWS, len(_rows(request))), 0 if box is None else len(box[0]))
        for request, box in zip(found.requests, boxes, strict=True)
    ]
    columns = 1 if boxes == [None] * len(boxes) else 2
    height = sum(0.34 * count + 1.1 for count in rows) + 1.0
    figure = Figure(figsize=(5 + 6 * columns, height), layout="constrained")
    grid = figure.subplots(
        len(rows),
        columns,
        squeeze=False,
        height_ratios=[r + 2 for r in rows],
        width_ratios=(2, 1)[:columns],
    )
    for line, request, box in zip(grid, found.requests, boxes, strict=True):
        _draw(line[0], found, request)
        if box is not None:
            _draw_array(line[1], found, request, *box)
        elif columns > 1:
            line[1].set_axis_off()
    figure.suptitle(
        f"{found.array} in {found.kernel_name}{params_text(found.params)}: numbers are "
        f"{found.unit}s, frames are transactions"
    )
    return figure


def _box(request: Request) -> tuple[range, range] | None:
    """Return the range of accessed elements on the last two axes, if it can be drawn.

    Elements of one row are adjacent in memory, too, and need no second panel.
    """
    elements = [touch.element for touch in request.touches]
    planes, rows = ({element[:-k] for element in elements} for k in (2, 1))
    if len(elements[0]) < 2 or len(planes) > 1 or len(rows) == 1:
        return None
    down, across = (
        range(min(axis) - 1, max(axis) + 2) for axis in list(zip(*elements, strict=True))[-2:]
    )
    return (down, across) if max(len(down), len(across)) <= _LONGEST else None


def _draw_array(axes: Axes, found: Accesses, request: Request, down: range, across: range) -> None:
    """Draw elements at their places in the array, with a frame around each transaction."""
    front = request.touches[0].element[:-2]
    spots = [(x, y) for y in down if y >= 0 for x in across if x >= 0]
    cells(axes, spots, ["#eeeeee"] * len(spots))
    shown: dict[tuple[int, int], list[Touch]] = {}
    for touch in request.touches:
        shown.setdefault((touch.element[-1], touch.element[-2]), []).append(touch)
    _draw_lanes(axes, shown, max(touch.lane for touch in request.touches) or 1)
    moved = {
        (x, y): found.offset((*front, y, x)) // request.transaction
        for x, y in spots
        if found.offset((*front, y, x)) // request.transaction in request.transactions
    }
    lines(axes, outline(moved), COLOURS[1], 1.4)
    mark_axis(axes, (across[0], down[0]), (across[-1], down[-1]), most=12)
    axes.set_xlabel(f"axis {len(front) + 1} of {found.array}", fontsize=8)
    axes.set_ylabel(f"axis {len(front)}", fontsize=8)
    axes.tick_params(labelsize=7)


def _rows(request: Request) -> list[int]:
    return sorted({touch.offset // _ROW for touch in request.touches})


def _draw(axes: Axes, found: Accesses, request: Request) -> None:
    rows = _rows(request)[:_MOST_ROWS]
    places = {row: number for number, row in enumerate(rows)}
    width = max(1, _ROW // request.itemsize)
    everything = [(x, y) for y in range(len(rows)) for x in range(width)]
    cells(axes, everything, ["#eeeeee"] * len(everything))
    shown: dict[tuple[int, int], list[Touch]] = {}
    for touch in request.touches:
        row, inside = divmod(touch.offset, _ROW)
        if row in places:
            shown.setdefault((inside // request.itemsize, places[row]), []).append(touch)
    _draw_lanes(axes, shown, max(touch.lane for touch in request.touches) or 1)
    lines(axes, _frames(request, places), COLOURS[1], 1.8)
    labels = [_label(found, request, row) for row in rows]
    axes.set_yticks(range(len(rows)), labels, fontsize=8, family="monospace")
    axes.set_xticks([])
    axes.set_xlim(-0.7, width - 0.3)
    axes.set_ylim(len(rows) - 0.3, -0.7)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    more = len(_rows(request)) - len(rows)
    text = ": ".join(heading(found, request)) + (f"; {more} more rows" if more else "")
    axes.set_title(text, fontsize=9, loc="left")


def _draw_lanes(axes: Axes, shown: Mapping[tuple[int, int], Sequence[Touch]], last: int) -> None:
    """Draw the elements that lanes access, with the first lane and the number of others."""
    colours = [shade(touches[0].lane / last) for touches in shown.values()]
    cells(axes, shown, colours)
    for (place, touches), colour in zip(shown.items(), colours, strict=True):
        more = "+" if len({touch.lane for touch in touches}) > 1 else ""
        text = f"{touches[0].lane}{more}"
        write(axes, place, text, colour)


def _frames(request: Request, places: Mapping[int, int]) -> list[list[tuple[float, float]]]:
    """Return the sides of the required transactions."""
    segments = []
    for number in request.transactions:
        row, inside = divmod(number * request.transaction, _ROW)
        if row in places:
            left = inside / request.itemsize - 0.5
            right = left + request.transaction / request.itemsize
            top, bottom = places[row] - 0.5, places[row] + 0.5
            corners = [(left, top), (right, top), (right, bottom), (left, bottom), (left, top)]
            segments.append(corners)
    return segments


def _label(found: Accesses, request: Request, row: int) -> str:
    """Name a row by its first accessed element."""
    first = min((t for t in request.touches if t.offset // _ROW == row), key=lambda t: t.offset)
    return f"{found.array}[{point_text(first.element).strip('()')}]" if first.element else ""
