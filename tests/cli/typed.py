"""Typing commands, in this process, and a file with programs."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kgen.cli import main

PROGRAMS = '''
import kgen as lp

step = lp.make_kernel(
    "{ [i]: 1 <= i < n - 1 }",
    """
    <> d = u[i - 1] - 2*u[i] + u[i + 1] {id=d}
    out[i] = u[i] + 0.25*d {id=put}
    """,
    [lp.GlobalArg("u, out", shape="n"), ...],
    name="heat",
    target=lp.ExecutableCTarget(),
)
scaled = lp.make_kernel("{ [i]: 0 <= i < n }", "v[i] = s*u[i]", target=lp.ExecutableCTarget())
pair = lp.merge([scaled, step])
table = lp.per_device(step, {
    "gpu": lambda knl: lp.parallelize(knl, {"i": "gang vector"}),
    "host": lambda knl: lp.split_iname(knl, "i", 8),
})

def tiled(size=128):
    return lp.split_iname(step, "i", size, outer_tag="g.0", inner_tag="l.0")

def broken():
    return lp.split_iname(step, "j", 128)

def divides(x):
    return 1 / 0

def other():
    return {"step": step}

def races():
    knl = lp.make_kernel("{ [i]: 0<=i<n }", "out[0] = 1 {inames=i}", target=lp.OpenCLTarget())
    return lp.tag_inames(knl, "i:g.0")

SIZE = 5
'''


def typed(*words: str, status: int = 0) -> Result:
    """Run a command, which ends with *status* as it should."""
    result = CliRunner().invoke(main, list(words), prog_name="kgen", catch_exceptions=False)
    assert result.exit_code == status, result.output
    return result


def write_programs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write ``heat.py`` to a folder, and go there."""
    (folder / "heat.py").write_text(PROGRAMS)
    monkeypatch.chdir(folder)
