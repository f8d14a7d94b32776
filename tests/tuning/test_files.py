"""Files of results: Kernel Tuner's cache files and T4, written, read, cut off."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kgen.errors import KgenError
from kgen.tuning import Evaluation, Recording, read_recording, write_recording

RECORDING = Recording(
    evaluations=[
        Evaluation(configuration={"x": 1, "how": "a"}, value=2.5, runtimes=(2.0, 3.0)),
        Evaluation(configuration={"x": 2, "how": "a"}, value=1.25, measurements={"GB/s": 3.5}),
        Evaluation(configuration={"x": 2, "how": "b"}, value=None, invalidity="compile"),
    ],
    tune_params={"x": [1, 2], "how": ["a", "b"]},
    unit="ms",
    about={"device_name": "a GPU"},
)
CACHE: dict[str, Any] = {
    "device_name": "a GPU",
    "tune_params_keys": ["x", "y"],
    "tune_params": {"x": [1, 2], "y": [8, 16]},
}


@pytest.mark.parametrize("form", ["cache", "t4"])
@pytest.mark.parametrize("name", ["r.json", "r.json.gz"])
def test_what_is_written_is_read(tmp_path: Path, form: str, name: str) -> None:
    write_recording(RECORDING, tmp_path / name, form)
    assert ((tmp_path / name).read_bytes()[:2] == b"\x1f\x8b") == name.endswith(".gz")
    found = read_recording(tmp_path / name)
    assert list(found.evaluations) == list(RECORDING.evaluations)
    assert list(found.space) == list(RECORDING.space)
    assert (found.costs, found.optimum, found.unit) == ([2.5, 1.25, None], 1.25, "ms")
    assert found.about == RECORDING.about


def read_entries(tmp_path: Path, *entries: dict[str, Any], **header: Any) -> Recording:
    cache = {f"{e.get('x', 1)},{e.get('y', 8)}": e for e in entries}
    (tmp_path / "c.json").write_text(json.dumps({**CACHE, **header, "cache": cache}))
    return read_recording(tmp_path / "c.json")


@pytest.mark.parametrize(
    ("time", "value", "invalidity"),
    [
        (1.5, 1.5, "correct"),
        (2, 2.0, "correct"),
        ("InvalidConfig", None, "constraints"),
        ("CompilationFailedConfig", None, "compile"),
        ("RuntimeFailedConfig", None, "runtime"),
        ({"__error__": "CompilationFailedConfig"}, None, "compile"),
        ("a new kind of error", None, "runtime"),
        (None, None, "runtime"),
        (1e20, None, "runtime"),
        (float("inf"), None, "runtime"),
        (float("nan"), None, "runtime"),
        (0.0, None, "runtime"),
    ],
)
def test_times_of_cache_files(tmp_path: Path, time: Any, value: Any, invalidity: str) -> None:
    (found,) = read_entries(tmp_path, {"x": 1, "y": 8, "time": time}).evaluations
    assert (found.value, found.invalidity) == (value, invalidity)


def test_missing_times_and_parameters(tmp_path: Path) -> None:
    found = read_entries(tmp_path, {"x": 1, "y": 8}, {"y": 16, "x": 1, "times": [1.0, 3.0]})
    assert found.costs == [None, 2.0]
    (tmp_path / "c.json").write_text(json.dumps({**CACHE, "cache": {"2,16": {"time": 3.0}}}))
    assert list(read_recording(tmp_path / "c.json").space) == [{"x": 2, "y": 16}]


def test_a_rate_is_maximized(tmp_path: Path) -> None:
    entries = [{"x": x, "y": 8, "time": 9.0, "GFLOP/s": float(x)} for x in (1, 2)]
    found = read_entries(tmp_path, *entries, objective="GFLOP/s")
    assert (found.optimum, found.costs) == (2.0, [1.0, 0.5])


@pytest.mark.parametrize(
    ("cut", "count"), [(1, 3), (2, 3), (3, 3), (4, 2), (20, 2), (60, 2), (100, 1)]
)
def test_a_cache_file_that_was_cut_off(tmp_path: Path, cut: int, count: int) -> None:
    write_recording(RECORDING, tmp_path / "c.json")
    text = (tmp_path / "c.json").read_text()
    (tmp_path / "cut.json").write_text(text[:-cut])
    found = list(read_recording(tmp_path / "cut.json").evaluations)
    assert found == RECORDING.evaluations[:count]


def test_a_gzipped_file_that_was_cut_off(tmp_path: Path) -> None:
    write_recording(RECORDING, tmp_path / "c.json")
    (tmp_path / "c.gz").write_bytes(gzip.compress((tmp_path / "c.json").read_bytes())[:-12])
    found = list(read_recording(tmp_path / "c.gz").evaluations)
    assert found == RECORDING.evaluations[: len(found)]
    assert len(found) >= 2


def test_a_gzipped_file_of_several_members(tmp_path: Path) -> None:
    write_recording(RECORDING, tmp_path / "c.json")
    text = (tmp_path / "c.json").read_bytes()
    (tmp_path / "c.gz").write_bytes(gzip.compress(text[:50]) + gzip.compress(text[50:]))
    assert list(read_recording(tmp_path / "c.gz").evaluations) == RECORDING.evaluations


@pytest.mark.parametrize("form", ["cache", "t4"])
def test_numbers_of_numpy_are_written(tmp_path: Path, form: str) -> None:
    one = Evaluation(configuration={"x": np.int64(2)}, value=float(np.float32(1.5)))
    write_recording(Recording(evaluations=[one]), tmp_path / "r.json", form)
    assert read_recording(tmp_path / "r.json").evaluations[0].configuration == {"x": 2}


def test_t4_of_others(tmp_path: Path) -> None:
    times = {"compilation_time": 3.0, "runtimes": [0.5, 1.5]}
    results = [
        {"configuration": {"x": 1}, "times": times, "invalidity": "correct", "correctness": 1},
        {"configuration": {"x": 2}, "times": times, "invalidity": "correctness", "correctness": 0},
        {
            "configuration": {"x": 3},
            "times": times,
            "invalidity": "correct",
            "measurements": [{"name": "time", "value": "InvalidConfig", "unit": ""}],
        },
    ]
    (tmp_path / "t4.json").write_text(json.dumps({"schema_version": "1.0.0", "results": results}))
    assert read_recording(tmp_path / "t4.json").costs == [1.0, None, None]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is not valid JSON"),
        ("[1, 2]", "neither a cache file of Kernel Tuner nor a T4 file"),
        ('{"cache": {}}', "has no configuration"),
        ('{"cache": {"1": {"time": 2}}}', "entry '1' of the cache file does not have"),
        ('{"cache": {"1": 5}, "tune_params": {"x": [1]}}', "entry '1' of the cache file is no obj"),
        ('{"cache": {"1": {"x": 1}}, "tune_params": [1]}', "'tune_params' .* is no object"),
        ('{"results": [{"invalidity": "correct"}]}', "has no configuration"),
        ('{"results": [5]}', "a result of the T4 file has no configuration: 5"),
        ('{"results": [{"configuration": {"x": 1}, "measurements": [{}]}]}', "have no names"),
    ],
)
def test_other_files(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "r.json").write_text(text)
    with pytest.raises(KgenError, match=words):
        read_recording(tmp_path / "r.json")


def test_files_and_forms_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(KgenError, match=r"none\.json' cannot be read: No such file"):
        read_recording(tmp_path / "none.json")
    with pytest.raises(KgenError, match="no format 'T5'"):
        write_recording(RECORDING, tmp_path / "r.json", "T5")
