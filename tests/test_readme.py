"""The README's Python, run as it stands."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner

from kgen.cli import main

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)


@pytest.mark.parametrize("count", range(1, len(BLOCKS) + 1))
def test_readme_runs(count: int) -> None:
    # Each block goes on from those before it; the second ends with what the first one computes.
    program = "\n".join([*BLOCKS[:count], *["assert (found == out).all()"] * (count > 1)])
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True)


COMMANDS = re.findall(r"^    kgen ((?:show|bench) .*)$", TEXT, re.MULTILINE)


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_run(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    done = CliRunner().invoke(main, shlex.split(command), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert "heat_step" in done.output


def test_badges_are_true() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    versions = [
        found.removeprefix("Programming Language :: Python :: ")
        for found in project["classifiers"]
        if re.search(r"Python :: 3\.\d+$", found)
    ]
    assert f"![Python {versions[0]} to {versions[-1]}]" in TEXT
    assert f"badge/licence-{project['license']}-" in TEXT


def test_systems_in_the_readme_are_those_that_are_timed() -> None:
    for system in ("numba", "kgen"):
        program = (ROOT / "benchmarks" / "jacobi" / f"in_{system}.py").read_text()
        lines = [line for line in program.split("\n") if "0.25" in line]
        assert lines, system
        assert all(line in TEXT for line in lines), system
