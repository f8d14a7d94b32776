"""A folder with programs, in which commands are typed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.cli.typed import write_programs


@pytest.fixture(autouse=True)
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "heat", raising=False)  # of a page, or of another test
    write_programs(tmp_path, monkeypatch)
    return tmp_path
