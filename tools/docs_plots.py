"""Plots of the tables of benchmarks in docs/, for the site: what is drawn is what is written there.

A comment ``<!-- plot: NAME -->`` below a table stands for its plot; ``PLOTS`` says how it is drawn.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

#: A table: a name and figures by column, for each row.
Rows = list[dict[str, str]]

MARK = re.compile(r"^<!-- plot: ([\w-]+) -->$", re.MULTILINE)
BLUE, GREY, GREEN = "#2a6fbb", "#9aa5b1", "#3c9a5f"


def rows_before(text: str, end: int) -> Rows:
    r"""Return the last table of a text before a position.

    >>> rows_before("| | a |\n|---|--:|\n| x | 1 |\n", 99)
    [{'': 'x', 'a': '1'}]
    """
    lines = text[:end].rstrip().split("\n")
    not_table = [k for k, line in enumerate(lines, 1) if not line.startswith("|")]
    first = max(not_table, default=0)
    head, _, *body = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines[first:]]
    return [dict(zip(head, row, strict=True)) for row in body]


def number(cell: str) -> float:
    """Return the number in a cell, NaN if there is none.

    >>> number("1,024"), number("")
    (1024.0, nan)
    """
    return float(cell.replace(",", "") or "nan")


def plot_host(axes: Any, rows: Rows) -> None:
    """Draw kgen's speed as a part of that of C by hand and of numba, for each kernel."""
    places = range(len(rows))
    for shift, peer, color in ((-0.2, "hand", GREY), (0.2, "numba", BLUE)):
        speeds = [1 / number(row[f"kgen/{peer}, 1"]) for row in rows]
        axes.bar([x + shift for x in places], speeds, 0.4, color=color, label=f"than {peer}")
    axes.axhline(1, color="black", linewidth=0.8)
    axes.set(yscale="log", ylabel="kgen is quicker by, one thread")
    axes.set_xticks(list(places), [row["threads:"] for row in rows], rotation=40, ha="right")
    axes.set_yticks([0.5, 1, 2, 4, 8], ["0.5", "1", "2", "4", "8"])
    axes.minorticks_off()
    axes.legend()


def plot_systems(axes: Any, rows: Rows) -> None:
    """Draw the rates of several systems."""
    names = [row[""].partition(",")[0] for row in rows]
    colours = [BLUE if name == "kgen" else GREY for name in names]
    axes.bar(names, [number(row["GB/s"]) for row in rows], color=colours)
    axes.set_ylabel("GB/s, one thread")


def plot_rates(axes: Any, rows: Rows) -> None:
    """Draw rates on a GPU relative to a copy."""
    shown = rows[::-1]
    values = [number(row["relative to the copy"]) for row in shown]
    axes.barh(range(len(shown)), values, color=[GREEN if v >= 0.8 else BLUE for v in values])
    names = [re.sub(r"[`]|, \d[\d.x ]*(\^\d+)? ?(elements)?$", "", row["kernel"]) for row in shown]
    axes.set_yticks(range(len(shown)), names, fontsize=8)
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_xlabel("rate, relative to a copy from device to device")


def plot_ready(axes: Any, rows: Rows) -> None:
    """Draw rates by size."""
    sizes = [2 ** int(row["elements"].partition("^")[2]) for row in rows]
    for column in ("elementwise", "reduction", "scan", "sort"):
        axes.plot(sizes, [number(row[column]) for row in rows], "o-", markersize=3, label=column)
    axes.set(xscale="log", yscale="log", xlabel="elements", ylabel="GB/s")
    axes.legend()


PLOTS: Mapping[str, tuple[Callable[[Any, Rows], None], tuple[float, float]]] = {
    "host": (plot_host, (9, 3.6)),
    "systems": (plot_systems, (7, 3)),
    "rates": (plot_rates, (9, 3.6)),
    "ready": (plot_ready, (7, 3.4)),
}


def draw_all(page: Path, folder: Path, pyplot: Any) -> list[str]:
    """Draw the plots of a page; return their names."""
    text = page.read_text()
    marks = list(MARK.finditer(text))
    for mark in marks:
        draw, size = PLOTS[mark[1]]
        figure, axes = pyplot.subplots(figsize=size, layout="constrained")
        draw(axes, rows_before(text, mark.start()))
        axes.spines[["top", "right"]].set_visible(False)
        figure.savefig(folder / f"{mark[1]}.svg")
        pyplot.close(figure)
    return [mark[1] for mark in marks]
