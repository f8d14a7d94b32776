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
    # Each block goes on from those before it; the first ends with a result.
    program = "\n".join([*BLOCKS[:count], "assert (out == 2 * np.arange(16)).all()"])
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True)
