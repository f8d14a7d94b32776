"""Plots of the results of a tune, with matplotlib."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import accumulate
from math import ceil

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from kgen.errors import writing
from kgen.performance.plot import draw_roof
from kgen.tuning.records import Record
from kgen.tuning.result import SearchResult, TuneResult

__all__ = ["plot"]

_COLUMNS = 3


def plot(result: TuneResult, file: str | os.PathLike[str] | None = None) -> Figure:
    """Draw a result; write it to *file*, whose suffix determines the format.

    For each problem: the best time so far, the time against each parameter, the most important
    first, and the roofline with all configurations, where the limits of the device are known.
    """
    panels = [len(search.space.names) + 1 + _has_roof(search) for search in result.searches]
    rows = [ceil(count / _COLUMNS) for count in panels]
    figure = Figure(figsize=(4.5 * _COLUMNS, 3.5 * sum(rows)), layout="constrained")
    parts = figure.subfigures(len(rows), 1, height_ratios=rows, squeeze=False)[:, 0]
    for search, part, count in zip(result.searches, parts, panels, strict=True):
        part.suptitle(str(search.problem) or result.device)
        grid = part.subplots(ceil(count / _COLUMNS), _COLUMNS, squeeze=False).flat
        _draw(search, list(grid))
    if file is not None:
        with writing(file):
            figure.savefig(file)
    return figure


def _has_roof(search: SearchResult) -> bool:
    return search.limits is not None and search.work is not None and bool(search.limits.flops)


def _draw(search: SearchResult, grid: list[Axes]) -> None:
    free = iter(grid)
    _draw_progress(search, next(free))
    for name in search.importance:
        _draw_parameter(search, name, next(free))
    if _has_roof(search):
        _draw_roofline(search, next(free))
    for axes in free:
        axes.set_axis_off()


def _draw_progress(search: SearchResult, axes: Axes) -> None:
    numbers, seconds = _timed(search.records)
    axes.plot(numbers, [1e3 * s for s in seconds], ".", label="a configuration")
    best = list(accumulate(seconds, min))
    axes.step(numbers, [1e3 * s for s in best], where="post", label="the best so far")
    if search.roofline_s is not None:
        axes.axhline(1e3 * search.roofline_s, linestyle=":", label="roofline")
    axes.set_xlabel("evaluations")
    _label_time(axes)
    axes.legend()


def _timed(records: Sequence[Record]) -> tuple[list[int], list[float]]:
    pairs = [(k, record.time) for k, record in enumerate(records, 1) if record.time is not None]
    return [number for number, _ in pairs], [seconds for _, seconds in pairs]


def _label_time(axes: Axes) -> None:
    axes.set_ylabel("time in ms")
    axes.set_yscale("log")


def _draw_parameter(search: SearchResult, name: str, axes: Axes) -> None:
    values = [str(value) for value in search.space.tune_params[name]]
    places = [values.index(str(record.configuration[name])) for record in search.measured]
    axes.plot(places, list(_milliseconds(search)), ".")
    axes.set_xticks(range(len(values)), values)
    axes.set_xlabel(f"{name}: {search.importance[name]:.0%} of the variance")
    _label_time(axes)


def _milliseconds(search: SearchResult) -> Iterator[float]:
    return (1e3 * record.time for record in search.measured if record.time is not None)


def _draw_roofline(search: SearchResult, axes: Axes) -> None:
    assert search.limits is not None
    assert search.work is not None
    operations = sum(search.work.flops.values())
    place = max(operations / max(1, search.work.bytes), 1e-3)
    draw_roof(axes, search.limits, [place])
    rates = [1e3 * operations / time for time in _milliseconds(search)]
    axes.plot([place] * len(rates), rates, ".", label="configurations")
    axes.legend()
