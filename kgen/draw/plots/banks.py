"""Draws bank conflicts: 32 columns of banks, a row for each 128 bytes of local memory."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from kgen.analysis.banks import BANK_BYTES, BANKS
from kgen.draw.conflicts import Banks, heading
from kgen.draw.plots.style import COLOURS, cells, lines, shade, write
from kgen.draw.text import params_text
from kgen.draw.traffic import Request

__all__ = ["plot"]


def plot(found: Banks) -> Figure:
    """Draw a panel for each request; only rows that are touched."""
    rows = [len(_rows(request)) for request in found.requests]
    height = sum(0.3 * count + 1.3 for count in rows) + 0.8
    figure = Figure(figsize=(11, height), layout="constrained")
    grid = figure.subplots(len(rows), 1, squeeze=False, height_ratios=[r + 2 for r in rows])
    for axes, request, passes in zip(grid[:, 0], found.requests, found.passes, strict=True):
        _draw(axes, found, request)
        axes.set_title(heading(request, passes), fontsize=9, loc="left")
    figure.suptitle(
        f"{found.array} in {found.kernel_name}{params_text(found.params)}: numbers are "
        "work-items, frames are conflicts"
    )
    return figure


def _rows(request: Request) -> list[int]:
    return sorted({word // BANKS for word in _lanes(request)})


def _lanes(request: Request) -> dict[int, list[int]]:
    """Return the lanes that access each word."""
    found: dict[int, list[int]] = {}
    for touch in request.touches:
        end = -(-(touch.offset + request.itemsize) // BANK_BYTES)
        for word in range(touch.offset // BANK_BYTES, end):
            found.setdefault(word, []).append(touch.lane)
    return found


def _draw(axes: Axes, found: Banks, request: Request) -> None:
    places = {row: number for number, row in enumerate(_rows(request))}
    everything = [(bank, y) for y in range(len(places)) for bank in range(BANKS)]
    cells(axes, everything, ["#eeeeee"] * len(everything))
    lanes = _lanes(request)
    squares = {(word % BANKS, places[word // BANKS]): who for word, who in lanes.items()}
    last = max(touch.lane for touch in request.touches) or 1
    colours = [shade(who[0] / last) for who in squares.values()]
    cells(axes, squares, colours)
    for (place, who), colour in zip(squares.items(), colours, strict=True):
        text = f"{who[0]}{'+' if len(set(who)) > 1 else ''}"
        write(axes, place, text, colour)
    lines(axes, _frames(found, request, places), COLOURS[1], 2.0)
    axes.set_xticks(range(BANKS), map(str, range(BANKS)), fontsize=7)
    labels = [f"byte {128 * row}" for row in places]
    axes.set_yticks(range(len(places)), labels, fontsize=7)
    axes.set_xlabel("bank", fontsize=8)
    axes.set_xlim(-0.7, BANKS - 0.3)
    axes.set_ylim(len(places) - 0.3, -0.7)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)


def _frames(
    found: Banks, request: Request, places: dict[int, int]
) -> list[list[tuple[float, float]]]:
    """Return frames around the words of banks with conflicts."""
    segments = []
    for bank, words in found.words(request).items():
        for word in words if len(words) > 1 else ():
            y = places[word // BANKS]
            left, right, top, bottom = bank - 0.48, bank + 0.48, y - 0.48, y + 0.48
            segments.append(
                [(left, top), (right, top), (right, bottom), (left, bottom), (left, top)]
            )
    return segments
