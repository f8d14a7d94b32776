"""The report of a tune, as one file of HTML."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from html import escape

from kgen.errors import KgenError
from kgen.html import page, table
from kgen.ir.optional import load
from kgen.performance.timing import in_units
from kgen.tuning.records import Record
from kgen.tuning.result import SearchResult, TuneResult

__all__ = ["render"]


def render(result: TuneResult) -> str:
    """Return a page with the best configurations, plots, importance, failures, all records."""
    parts = [f"<h1>Tuning on {escape(result.device)}</h1>", _plot(result)]
    for search in result.searches:
        parts += _search(search)
    return page("kgen.tune", parts)


def _plot(result: TuneResult) -> str:
    """Return the plots as SVG; nothing without matplotlib."""
    try:
        plots = load("kgen.tuning.plots", "plot")
    except KgenError:
        return "<p>Plots need matplotlib.</p>"
    file = io.StringIO()
    plots.plot(result).savefig(file, format="svg")
    text = file.getvalue()
    return text[text.index("<svg") :]


def _search(search: SearchResult) -> Iterator[str]:
    best = search.winner
    yield f"<h2>{escape(str(search.problem)) or 'Best'}</h2>"
    yield f"<p>{escape(str(best)) if best else 'No configuration has a time.'}</p>"
    if best is not None and best.ties:
        ties = "; ".join(map(str, best.ties))
        yield f"<p>Not slower, as far as the measurement tells: {escape(ties)}</p>"
    if best is not None and search.roofline_s is not None:
        part = search.roofline_s / best.time
        yield f"<p>{part:.0%} of the roofline, {in_units(search.roofline_s)}.</p>"
    tried = f"{len(search.records)} of {len(search.space)} configurations"
    yield f"<p>{tried}; ended: {escape(search.stopped)}.</p>"
    yield from (f"<p>Note: {escape(note)}</p>" for note in search.notes)
    importance = ((name, f"{part:.1%}") for name, part in search.importance.items())
    yield "<h3>Importance</h3>" + table(("parameter", "of the variance"), importance)
    failures = ((cause, str(len(records))) for cause, records in search.failures.items())
    yield "<h3>Failures</h3>" + table(("cause", "configurations"), failures)
    yield "<h3>Configurations</h3>" + _configurations(search)
    if best is not None:
        yield f"<h3>The best kernel</h3><pre>{escape(str(best.kernel))}</pre>"


def _configurations(search: SearchResult) -> str:
    timed = search.measured
    others = [record for record in search.records if record.time is None]
    metrics = sorted({name for record in search.records for name in record.metrics})
    head = (*search.space.names, "time", "interval", *metrics, "")
    rows = (_cells(record, search.space.names, metrics) for record in (*timed, *others))
    return table(head, rows)


def _cells(record: Record, names: Iterable[str], metrics: Iterable[str]) -> tuple[str, ...]:
    values = (str(record.configuration[name]) for name in names)
    time = "" if record.time is None else in_units(record.time)
    interval = " to ".join(map(in_units, record.interval or ()))
    more = (f"{record.metrics[name]:.4g}" if name in record.metrics else "" for name in metrics)
    failure = f"{record.cause}: {record.message}" if record.cause else record.status
    return (*values, time, interval, *more, "best" if record.is_best else failure)
