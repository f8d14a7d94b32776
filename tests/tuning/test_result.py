"""Results of tunes, made by hand: tables, importance, plots, files."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import kgen as lp
from kgen.performance.model import Work
from kgen.tuning import SearchSpace, read_recording
from kgen.tuning.display import best_text
from kgen.tuning.records import Record
from kgen.tuning.result import Best, SearchResult, TuneResult
from kgen.tuning.stop import Progress, Stop
from kgen.tuning.task import Problem

SPACE = SearchSpace({"block": [4, 8], "tile": [1, 2]})
KERNEL = lp.make_kernel("{ [i]: 0<=i<n }", "out[i] = 2*i", name="twice")
DEVICE = lp.Device(
    name="host", bandwidth=1e10, cache_bandwidth=1e11, flops={"float32": 1e11, "float64": 5e10}
)


def record(block: int, tile: int, time: float | None, n: int = 10, **more: Any) -> Record:
    return Record(
        **{
            "kernel": "twice",
            "configuration": {"block": block, "tile": tile},
            "problem": Problem({"n": n}),
            "device": {"name": "host"},
            "status": "failed" if time is None else "measured",
            "time": time,
            "interval": None if time is None else (0.9 * time, 1.1 * time),
            "samples": () if time is None else (time,),
            **more,
        }
    )


def search(*records: Record, n: int = 10, **more: Any) -> SearchResult:
    best = min((r for r in records if r.time is not None), key=lambda r: r.time or 0, default=None)
    winner = None
    if best is not None and best.time is not None:
        winner = Best(
            configuration=best.configuration, kernel=KERNEL, time=best.time, interval=(0.0, 1.0)
        )
    kernels = {repr(r.configuration): KERNEL for r in records}
    return SearchResult(
        space=SPACE,
        problem=Problem({"n": n}),
        records=records,
        stopped="4 evaluations",
        winner=winner,
        kernels=kernels,
        **more,
    )


FAILED = record(8, 2, None, cause="result", message="output 'out' is wrong: <0>")
RECORDS = (record(4, 1, 4e-3), record(4, 2, 4.1e-3), record(8, 1, 1e-3), FAILED)
ONE = TuneResult(searches=(search(*RECORDS),), device="host")
TWO = TuneResult(
    searches=(
        search(record(4, 1, 2e-3), record(8, 1, 1e-3)),
        search(record(4, 1, 2e-3, n=99), record(8, 1, 8e-3, n=99), n=99),
    )
)


def test_the_best_of_one_problem_and_of_several() -> None:
    assert ONE.best.configuration == {"block": 8, "tile": 1}
    assert TWO.best.configuration == {"block": 4, "tile": 1}
    assert TWO.best.time == pytest.approx(4e-3)
    assert TWO.best_for(n=10).configuration == {"block": 8, "tile": 1}
    with pytest.raises(lp.KgenError, match="no problem with n=3"):
        TWO.best_for(n=3)


def test_without_a_time_the_reasons_are_said() -> None:
    with pytest.raises(lp.KgenError, match="no configuration has a time for n=10") as info:
        _ = TuneResult(searches=(search(FAILED),)).best
    assert "result: 1, such as output 'out' is wrong" in str(info.value)


def test_importance_is_the_variance_that_a_parameter_explains() -> None:
    assert list(ONE.importance) == ["block", "tile"]
    assert ONE.importance["block"] > 0.99


def test_failures_are_by_cause_and_last_in_the_table() -> None:
    assert list(ONE.failures) == ["result"]
    lines = ONE.table().splitlines()
    assert re.sub(" +", " ", lines[1]) == "1 8 1 1 ms 900 us to 1.1 ms"
    assert lines[-1].endswith("result: output 'out' is wrong: <0>")
    assert len(ONE.table(2).splitlines()) == 3


def test_pareto_has_what_is_not_worse_in_all_metrics() -> None:
    found = search(
        record(4, 1, 1.0, metrics={"registers": 90.0}),
        record(4, 2, 2.0, metrics={"registers": 40.0}),
        record(8, 1, 3.0, metrics={"registers": 50.0}),
    )
    assert [r.time for r in found.pareto()] == [1.0, 2.0]
    assert [r.time for r in found.pareto(["time"])] == [1.0]
    with pytest.raises(lp.KgenError, match="no configuration has the metric 'energy'"):
        found.pareto(["time", "energy"])


def test_t4_is_read_back(tmp_path: Path) -> None:
    ONE.to_t4(tmp_path / "results.json")
    content = json.loads((tmp_path / "results.json").read_text())
    assert content["schema_version"] == "1.0.0"
    recording = read_recording(tmp_path / "results.json")
    assert recording.optimum == pytest.approx(1.0)  # milliseconds
    assert [one.invalidity for one in recording.evaluations] == 3 * ["correct"] + ["correctness"]


def test_report_is_one_file_of_html(tmp_path: Path) -> None:
    ONE.report(tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text()
    assert text.startswith("<!DOCTYPE html>")
    assert "&lt;0&gt;" in text
    assert "src=" not in text


@pytest.mark.parametrize("name", ["missing/results.html", "missing/results.json"])
def test_a_file_that_cannot_be_written_is_named(name: str, tmp_path: Path) -> None:
    write = ONE.to_t4 if name.endswith("json") else ONE.report
    with pytest.raises(lp.KgenError, match=f"{name}' cannot be written: No such file"):
        write(tmp_path / name)


def test_plot_has_a_panel_for_each_parameter(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    work = Work(flops={"float32": 10**6}, bytes=10**6, times_s={"memory": 1e-4})
    found = search(*RECORDS, limits=DEVICE, work=work, roofline_s=1e-4)
    figure = TuneResult(searches=(found,)).plot(tmp_path / "plot.svg")
    labels = [axes.get_xlabel() for axes in figure.axes]
    assert labels[0] == "evaluations"
    assert labels[1].startswith("block: ")
    assert labels[3] == "operations per byte of the footprint"
    assert "<svg" in (tmp_path / "plot.svg").read_text()
    with pytest.raises(lp.KgenError, match=r"plot.odd' cannot be written: Format 'odd' is not"):
        TuneResult(searches=(found,)).plot(tmp_path / "plot.odd")


def test_frame_has_a_row_for_each_record() -> None:
    pytest.importorskip("pandas")
    frame = ONE.to_pandas()
    assert list(frame["block"]) == [4, 4, 8, 8]
    assert frame["time"].count() == 3


def test_progress_tells_the_part_of_the_roofline() -> None:
    assert best_text(Progress(best_s=2e-3), Stop(roofline_s=1e-3)).endswith("50 % of the roofline")
