"""The result of a tune: the best configuration, all others, and the reasons of failures."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from kgen.errors import KgenError, assigned, near_names, writing
from kgen.ir.optional import load
from kgen.ir.unit import TranslationUnit
from kgen.performance.device import Device
from kgen.performance.model import Work
from kgen.performance.timing import in_units
from kgen.tuning.files import write_recording
from kgen.tuning.recording import Evaluation, Recording
from kgen.tuning.records import Record
from kgen.tuning.space import SearchSpace
from kgen.tuning.task import Problem

__all__ = ["Best", "SearchResult", "TuneResult", "compromise"]


@dataclass(frozen=True, kw_only=True)
class Best:
    """The fastest configuration: its kernel, the median of its times, and the 95 % interval.

    ``ties`` are other configurations that are statistically indistinguishable from it.
    """

    configuration: Mapping[str, Any]
    kernel: TranslationUnit
    time: float
    interval: tuple[float, float]
    ties: tuple[Mapping[str, Any], ...] = ()

    def __str__(self) -> str:
        low, high = map(in_units, self.interval)
        return f"{in_units(self.time)} ({low} to {high}): {assigned(self.configuration)}"


@dataclass(frozen=True, kw_only=True)
class SearchResult:
    """The results for one problem: records in the order of their evaluation."""

    space: SearchSpace
    problem: Problem
    records: tuple[Record, ...]
    #: why the search ended
    stopped: str
    winner: Best | None = None
    #: the kernels of the configurations that were made, by their text
    kernels: Mapping[str, TranslationUnit] = field(default_factory=dict, repr=False)
    #: the minimum seconds by the roofline of the kernel as written, if known
    roofline_s: float | None = None
    #: the limits of the device, and the work of the kernel as written, if they are known
    limits: Device | None = None
    work: Work | None = None
    #: times on devices of other workers than the first one
    elsewhere: tuple[Record, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def best(self) -> Best:
        """The fastest configuration.

        Raises :class:`KgenError`, with the reasons, if there is none.
        """
        if self.winner is None:
            raise KgenError(
                f"no configuration has a time{_for(self.problem)}",
                because="; ".join(
                    f"{cause}: {len(found)}, such as {found[0].message.splitlines()[0]}"
                    for cause, found in self.failures.items()
                )
                or self.stopped,
                hint="result.table() has all messages",
            )
        return self.winner

    @property
    def measured(self) -> list[Record]:
        """The records with a time, fastest first."""
        timed = [record for record in self.records if record.time is not None]
        return sorted(timed, key=_seconds)

    @property
    def failures(self) -> dict[str, list[Record]]:
        """The records without a time, by cause, most frequent first."""
        found: dict[str, list[Record]] = {}
        for record in self.records:
            if record.status == "failed":
                found.setdefault(record.cause, []).append(record)
        return dict(sorted(found.items(), key=lambda item: -len(item[1])))

    @property
    def importance(self) -> dict[str, float]:
        """For each parameter, the fraction of the variance of log(time) that it explains alone.

        This is the first-order Sobol index (Sobol, 1993) of the measured configurations, as an
        adjusted coefficient of determination, so that few configurations explain nothing by chance.
        """
        timed = self.measured
        logs = np.log([_seconds(record) for record in timed])
        found = {
            name: _explained(logs, [repr(record.configuration[name]) for record in timed])
            for name in self.space.names
        }
        return dict(sorted(found.items(), key=lambda item: -item[1]))

    def pareto(self, metrics: Sequence[str] = ()) -> list[Record]:
        """Return the Pareto-optimal records for *metrics*, fastest first.

        Less is better. By default, the metrics are the time and all others that were measured.
        Raises :class:`KgenError` for a metric that no configuration has.
        """
        known = ("time", *sorted({name for record in self.measured for name in record.metrics}))
        names = tuple(metrics) or known
        for name in names if self.measured else ():
            if name not in known:
                raise KgenError(
                    f"no configuration has the metric '{name}'",
                    because="tune(metrics=...) lacks it, or the device does not report it",
                    hint=near_names(name, known),
                )
        points = {
            number: values
            for number, record in enumerate(self.measured)
            if None not in (values := tuple(_metric(record, name) for name in names))
        }
        return [
            self.measured[number]
            for number, values in points.items()
            if not any(_dominates(other, values) for other in points.values())
        ]

    def table(self, count: int | None = None) -> str:
        """Return the configurations as text, fastest first, failures last."""
        names = self.space.names
        rows = [("", *names, "time", "interval", "")]
        ordered = [*self.measured, *(r for r in self.records if r.time is None)]
        for number, record in enumerate(ordered[:count], 1):
            values = (str(record.configuration[name]) for name in names)
            rows.append((str(number), *values, *_cells(record)))
        widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
        return "\n".join(
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in rows
        )


def _explained(logs: np.ndarray[Any, Any], values: Sequence[str]) -> float:
    """Return the part of a variance that groups of equal values explain, adjusted for chance."""
    groups = len(set(values))
    total = float(logs.var()) if len(logs) else 0.0
    if total == 0 or len(logs) <= groups:
        return 0.0
    means = {v: logs[[w == v for w in values]].mean() for v in values}
    within = float(np.mean((logs - [means[v] for v in values]) ** 2)) / total
    return max(0.0, 1 - within * (len(logs) - 1) / (len(logs) - groups))


def _cells(record: Record) -> tuple[str, str, str]:
    if record.time is None:
        first = record.message.splitlines()[0] if record.message else ""
        return "", "", f"{record.cause}: {first}" if record.cause else record.status
    interval = "" if record.interval is None else " to ".join(map(in_units, record.interval))
    note = "best" if record.is_best else "" if record.status == "measured" else record.status
    return in_units(record.time), interval, note


def _seconds(record: Record) -> float:
    return math.inf if record.time is None else record.time


def _metric(record: Record, name: str) -> float | None:
    return record.time if name == "time" else record.metrics.get(name)


def _dominates(one: Sequence[Any], other: Sequence[Any]) -> bool:
    return all(a <= b for a, b in zip(one, other, strict=True)) and tuple(one) != tuple(other)


def _for(problem: Problem) -> str:
    return f" for {problem}" if str(problem) else ""


@dataclass(frozen=True, kw_only=True)
class TuneResult:
    """The results of :func:`kgen.tune`, for one problem or for several.

    ``searches`` has the results of each problem; ``best``, ``table()`` and the others are those of
    the only problem, or of all together. For several problems, ``best`` is the configuration with
    the smallest geometric mean of the times; its ``time`` is their sum.
    """

    searches: tuple[SearchResult, ...]
    device: str = ""
    #: whether it was ended by Ctrl-C
    is_interrupted: bool = False

    @property
    def best(self) -> Best:
        """The fastest configuration; raises :class:`KgenError` if none has a time."""
        if len(self.searches) == 1:
            return self.searches[0].best
        return compromise(self.searches)

    def best_for(self, **sizes: Any) -> Best:
        """Return the fastest configuration of one problem, by some of its sizes or types."""
        for search in self.searches:
            known = {**search.problem.types, **search.problem.sizes}
            if all(known.get(name) == value for name, value in sizes.items()):
                return search.best
        raise KgenError(
            f"there is no problem with {assigned(sizes)}",
            hint="; ".join(str(search.problem) for search in self.searches),
        )

    @property
    def records(self) -> tuple[Record, ...]:
        """All records, in the order of the problems, and of evaluation."""
        return tuple(record for search in self.searches for record in search.records)

    @property
    def failures(self) -> dict[str, list[Record]]:
        """The records without a time, by cause."""
        found: dict[str, list[Record]] = {}
        for search in self.searches:
            for cause, records in search.failures.items():
                found.setdefault(cause, []).extend(records)
        return found

    @property
    def importance(self) -> dict[str, float]:
        """For each parameter, the fraction of the variance that it explains alone: mean of all."""
        parts = [search.importance for search in self.searches]
        mean = {name: sum(part[name] for part in parts) / len(parts) for name in parts[0]}
        return dict(sorted(mean.items(), key=lambda item: -item[1]))

    @property
    def elsewhere(self) -> tuple[Record, ...]:
        """The records of devices other than the first, if workers have different ones."""
        return tuple(record for search in self.searches for record in search.elsewhere)

    @property
    def stopped(self) -> str:
        """Why the last search ended."""
        return self.searches[-1].stopped

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks on the times."""
        return tuple(note for search in self.searches for note in search.notes)

    def pareto(self, metrics: Sequence[str] = ()) -> list[Record]:
        """Return the Pareto-optimal records of each problem for *metrics*."""
        return [record for search in self.searches for record in search.pareto(metrics)]

    def table(self, count: int | None = None) -> str:
        """Return the configurations of each problem as text, fastest first."""
        if len(self.searches) == 1:
            return self.searches[0].table(count)
        return "\n\n".join(f"{s.problem}\n{s.table(count)}" for s in self.searches)

    def plot(self, file: str | os.PathLike[str] | None = None) -> Any:
        """Draw the best time so far, the time against each parameter, and the roofline.

        Returns the matplotlib figure (the extra ``plot``); writes it to *file*, if given.
        """
        return load("kgen.tuning.plots", "plot").plot(self, file)

    @property
    def recording(self) -> Recording:
        """The results as a recording, for replays; for several problems with their sizes."""
        several = len(self.searches) > 1
        records = [record for record in self.records if record.status != "skipped"]
        return Recording(
            evaluations=tuple(_evaluation(record, with_sizes=several) for record in records),
            unit="ms",
            about={"device": self.device, "kernel": records[0].kernel if records else ""},
        )

    def to_t4(self, file: str | os.PathLike[str]) -> None:
        """Write the results in the format T4 1.0.0; gzipped, if the name ends in ``.gz``."""
        write_recording(self.recording, os.fspath(file), "t4")

    def report(self, file: str | os.PathLike[str]) -> None:
        """Write all of this as one file of HTML."""
        text = load("kgen.tuning.report", "tune").render(self)
        with writing(file):
            Path(file).write_text(text, encoding="utf-8")

    def to_pandas(self) -> Any:
        """Return a pandas data frame with a row for each record."""
        rows = [
            {
                **record.problem.types,
                **record.problem.sizes,
                **record.configuration,
                "status": record.status,
                "time": record.time,
                "low": None if record.interval is None else record.interval[0],
                "high": None if record.interval is None else record.interval[1],
                "cause": record.cause,
                **record.metrics,
            }
            for record in self.records
        ]
        return load("pandas", "tune").DataFrame(rows)

    def __str__(self) -> str:
        lines = []
        for search in self.searches:
            title = str(search.problem) or "best"
            lines.append(f"{title}: {search.winner or 'no configuration has a time'}")
            counts = ", ".join(f"{len(found)} {cause}" for cause, found in search.failures.items())
            tried = f"{len(search.records)} of {len(search.space)} configurations"
            lines.append(f"  {tried}; {counts or 'none failed'}; ended: {search.stopped}")
        return "\n".join(lines)


#: T4's words for causes of failures.
_INVALIDITY = {
    "restriction": "constraints",
    "result": "correctness",
    "verification": "correctness",
    "timeout": "timeout",
    "transformation": "compile",
    "generation": "compile",
    "compilation": "compile",
}


def _evaluation(record: Record, *, with_sizes: bool) -> Evaluation:
    sizes = {**record.problem.types, **record.problem.sizes} if with_sizes else {}
    is_timed = record.time is not None
    return Evaluation(
        configuration={**sizes, **record.configuration},
        value=None if record.time is None else 1e3 * record.time,
        invalidity="correct" if is_timed else _INVALIDITY.get(record.cause, "runtime"),
        runtimes=tuple(1e3 * seconds for seconds in record.samples),
        measurements=dict(record.metrics),
    )


def compromise(searches: Sequence[SearchResult]) -> Best:
    """Return the configuration with the smallest geometric mean of slowdowns, over all problems."""
    times = [
        {repr(record.configuration): record for record in search.measured} for search in searches
    ]
    shared = [name for name in times[0] if all(name in found for found in times)]
    if not shared:
        searches[0].best  # noqa: B018  (raises, with the reasons, if there is none)
        raise KgenError(
            "no configuration was measured for all problems",
            hint="result.best_for(n=...) is the best one of a problem",
        )
    scores = {name: sum(math.log(_seconds(found[name])) for found in times) for name in shared}
    name = min(shared, key=lambda name: scores[name])
    chosen = [found[name] for found in times]
    intervals = [record.interval or (_seconds(record),) * 2 for record in chosen]
    return Best(
        configuration=chosen[0].configuration,
        kernel=searches[0].kernels[name],
        time=sum(map(_seconds, chosen)),
        interval=(sum(low for low, _ in intervals), sum(high for _, high in intervals)),
    )
