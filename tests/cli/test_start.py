"""The two ways to start: ``python -m kgen`` and the script ``kgen``."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
PATH = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])


def start(*words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": PATH}
    return subprocess.run(words, env=environment, capture_output=True, text=True, check=False)


def test_module() -> None:
    done = start(sys.executable, "-m", "kgen", "show", "heat.py:step", "graph")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "d    [i]\nput  [i]  <- d\n"


def test_script() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    module, _, function = project["scripts"]["kgen"].partition(":")
    script = Path(sys.executable).with_name("kgen")
    if not script.exists():
        pytest.skip("kgen's script is not installed: pip install -e .")
    assert f"from {module} import {function}" in script.read_text()
    done = start(str(script), "show", "heat.py:stp")
    assert done.returncode == 1
    assert done.stderr.startswith("there is no 'stp' in heat.py\n")
    assert done.stdout == ""


def test_a_closed_pipe_is_no_error() -> None:
    command = f"'{sys.executable}' -m kgen show heat.py:step 2>errors | head -n 1"
    done = start("sh", "-c", command)
    assert done.stdout.startswith("----")
    assert Path("errors").read_text() == ""
