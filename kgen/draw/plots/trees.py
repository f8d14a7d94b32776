"""Draws a schedule: a box for each node, with its children below and to the right."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from kgen.draw.graphs import ScheduleTree
from kgen.draw.plots.style import COLOURS, GREY, lines

__all__ = ["plot"]

#: The colour of the side of each kind of node; the kind is in its text as well.
_COLOURS = {
    "host": COLOURS[3],
    "launch": COLOURS[3],
    "bind": COLOURS[5],
    "barrier": COLOURS[1],
    "run": COLOURS[2],
}
_INDENT, _WIDEST = 0.5, 90


def plot(found: ScheduleTree) -> Figure:
    """Draw nodes in the order of execution, from the top."""
    rows = list(found.rows())
    texts = [_cut(str(node)) for _, _, node in rows]
    widths = [
        depth * _INDENT + 0.11 * len(text) + 0.4
        for (depth, _, _), text in zip(rows, texts, strict=True)
    ]
    figure = Figure(
        figsize=(max(4.0, max(widths) + 0.4), 0.42 * len(rows) + 0.7), layout="constrained"
    )
    axes = figure.subplots()
    for row, ((depth, parent, node), text) in enumerate(zip(rows, texts, strict=True)):
        colour = _COLOURS.get(node.kind, COLOURS[0])
        x = depth * _INDENT
        axes.text(
            x,
            row,
            text,
            va="center",
            family="monospace",
            fontsize=9,
            bbox={
                "boxstyle": "round,pad=0.35",
                "facecolor": "white",
                "edgecolor": colour,
                "linewidth": 1.6,
            },
            zorder=3,
        )
        if parent is not None:
            _link(axes, rows[parent][0] * _INDENT, parent, x, row)
    axes.set_xlim(-0.2, max(4.0, *widths))
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_axis_off()
    figure.suptitle(f"schedule of {found.kernel_name}", fontsize=10)
    return figure


def _cut(text: str) -> str:
    return text if len(text) <= _WIDEST else text[: _WIDEST - 3] + "..."


def _link(axes: Axes, parent_x: float, parent_row: int, x: float, row: int) -> None:
    """Draw the line from a node to the one around it."""
    elbow = parent_x + 0.1
    lines(axes, [[(elbow, parent_row), (elbow, row), (x, row)]], GREY, 1.0, zorder=1)
