"""The commands ``bench`` and ``roofline``."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import kgen as lp
from kgen.cli.programs import load_program
from tests.cli.typed import typed

SIZES = ("--set", "n=1000", "--type", "u=float32")
LIMITS = lp.Device(name="a GPU", bandwidth=4e12, cache_bandwidth=1e13, flops={"float32": 6e13})


def test_a_line_for_each_kernel() -> None:
    shown = typed("bench", "heat.py:step", "heat.py:tiled", "--rounds=1", *SIZES).stdout
    _, head, *rows = shown.splitlines()
    assert head.split()[:2] == ["kernel", "time"]
    assert [row.split()[0] for row in rows] == ["heat.py:step", "heat.py:tiled"]
    assert all(row.endswith(" %") for row in rows)


def test_json_of_timings() -> None:
    np.savez("in.npz", u=np.ones(100, np.float32))
    shown = typed("bench", "heat.py:step", "--arrays=in.npz", "--rounds=2", "--json").stdout
    (found,) = json.loads(shown)
    assert (found["name"], found["kernel_name"], found["bytes"]) == ("heat.py:step", "heat", 800)
    assert len(found["seconds"]) == 2


def test_a_missing_size_is_an_error() -> None:
    error = typed("bench", "heat.py:step", "--type=u=float32", status=1).stderr
    assert "no value for argument 'n'" in error


def test_roofline_is_that_of_the_library() -> None:
    Path("limits.json").write_text(LIMITS.to_json())
    tiled = load_program("heat.py:tiled")
    assert isinstance(tiled, lp.TranslationUnit)
    tiled = lp.add_dtypes(tiled.copy(target=lp.OpenCLTarget()), {"u": "float32"})
    expected = lp.roofline(tiled, {"n": 1000}, LIMITS)
    words = ("heat.py:tiled", "--target=opencl", "--limits=limits.json", *SIZES)
    assert typed("roofline", *words).stdout == f"{expected}\n"
    shown = typed("roofline", *words, "--json").stdout
    assert json.loads(shown) == json.loads(expected.to_json())


def test_roofline_times_on_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kgen.performance.model.measure_device", lambda *device: LIMITS)
    assert "measured time" not in typed("roofline", "heat.py:step", *SIZES).stdout
    assert "measured time" in typed("roofline", "heat.py:step", "--time", *SIZES).stdout


def test_limits_are_of_a_device() -> None:
    Path("limits.json").write_text('{"name": "a GPU"}')
    words = ("heat.py:step", "--limits=limits.json", *SIZES)
    assert "not the limits of a device" in typed("roofline", *words, status=1).stderr
    assert "--time needs a device" in typed("roofline", *words, "--time", status=2).stderr
