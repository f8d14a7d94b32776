"""The commands ``doctor`` and ``cache``."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from kgen.cli.output import print_table
from kgen.runtime.cache import process_caches
from kgen.version import VERSION_TEXT
from tests.cli.typed import typed


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KGEN_CACHE_DIR", str(tmp_path / "cache"))
    return process_caches.disk.folder


def test_doctor_says_what_there_is(folder: Path) -> None:
    shown = typed("doctor").stdout
    assert shown.startswith(f"kgen {VERSION_TEXT}\nPython ")
    for text in ("\nC compiler ", "\nOpenMP ", "\nOpenCL device", "\nCUDA device", str(folder)):
        assert text in shown


def test_doctor_fails_where_nothing_can_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    shown = typed("doctor", status=1).stdout
    assert "\nC compiler  " in shown
    _, missing = shown.split("\nmissing\n")
    assert missing.splitlines()[0].split() == ["what", "for", "command"]
    assert "a C compiler " in missing


def test_doctor_in_json(folder: Path) -> None:
    found = json.loads(typed("doctor", "--json").stdout)
    assert found["runs_on_host"] is True
    assert found["cache"]["folder"] == str(folder)
    assert {"kgen", "python", "packages", "opencl_devices", "missing"} <= found.keys()


def test_cache_is_shown_and_cleared(folder: Path) -> None:
    np.savez("in.npz", u=np.ones(10, np.float32))
    typed("run", "heat.py:tiled", "in.npz")
    kept = json.loads(typed("cache", "size", "--json").stdout)
    assert kept["entries"] > 0
    assert str(folder) in typed("cache", "size").stdout
    expected = f"removed {kept['entries']} entr"
    assert typed("cache", "clear").stdout.startswith(expected)
    assert json.loads(typed("cache", "clear", "--json").stdout)["entries"] == 0


def test_a_wrong_size_of_the_cache_is_a_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KGEN_CACHE_SIZE", "much")
    assert typed("cache", "size", status=1).stderr.startswith("KGEN_CACHE_SIZE is 'much'")


def test_tables_have_no_markup_and_are_not_cut(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("name", ">size"), [("[red]x", "1"), ("y" * 200, "10")])
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == "[red]x" + 194 * " " + "     1"
    assert lines[2] == 200 * "y" + "    10"
