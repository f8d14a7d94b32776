"""The README's Python, run as it stands."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
BLOCKS = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)


@pytest.mark.parametrize("count", range(1, len(BLOCKS) + 1))
def test_readme_runs(count: int) -> None:
    # Each block goes on from those before it; the second ends with what the first one computes.
    program = "\n".join([*BLOCKS[:count], *["assert (found == out).all()"] * (count > 1)])
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True)


def test_systems_in_the_readme_are_those_that_are_timed() -> None:
    text = (ROOT / "README.md").read_text()
    for system in ("numba", "kgen"):
        program = (ROOT / "benchmarks" / "jacobi" / f"in_{system}.py").read_text()
        lines = [line for line in program.split("\n") if "0.25" in line]
        assert lines, system
        assert all(line in text for line in lines), system
