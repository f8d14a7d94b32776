"""The examples in kgen's docstrings, run as they stand."""

from __future__ import annotations

import doctest
import importlib
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parent.parent
SOURCES = sorted((ROOT / "kgen").rglob("*.py"))


def module_name(path: Path) -> str:
    """Return the name by which a source file is imported."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def examples_in(module: ModuleType) -> Iterator[doctest.DocTest]:
    """Yield the examples of a module: its own and those of what it defines, one for each name."""
    for test in doctest.DocTestFinder(exclude_empty=True).find(module):
        if test.examples:
            yield test


WITH_EXAMPLES = [module_name(path) for path in SOURCES if ">>> " in path.read_text()]


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_examples(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # where refused code is kept
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    report: list[str] = []
    found = list(examples_in(importlib.import_module(name)))
    for test in found:
        runner.run(test, out=report.append)
    assert found
    assert not runner.failures, "".join(report)


def test_no_example_is_skipped() -> None:
    skipping = re.compile(r"# doctest:.*\+SKIP")
    assert [path.name for path in SOURCES if skipping.search(path.read_text())] == []
