"""Build the wheel and the source distribution in dist/, check them, and try the wheel.

    python tools/try_wheel.py

The wheel is installed in a new environment without anything else of this repository; there
examples/laplacian.py must run, as must the command and the folder for CMake. Needs the extra
'dist', and the package index.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import venv
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parent.parent
DIST = ROOT / "dist"


def run(*words: str | Path, folder: Path = ROOT) -> None:
    """Run a command without what this environment says of Python's modules; show it."""
    print("$", *words, flush=True)
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
    subprocess.run([str(word) for word in words], cwd=folder, env=environment, check=True)


def build() -> Path:
    """Build both distributions, the wheel from the other one; check what they say of themselves."""
    for folder in (DIST, ROOT / "build" / "lib"):  # where setuptools keeps files that are gone
        shutil.rmtree(folder, ignore_errors=True)
    run(sys.executable, "-m", "build", "--outdir", DIST, ROOT)
    run(sys.executable, "-m", "twine", "check", "--strict", *sorted(DIST.iterdir()))
    (wheel,) = DIST.glob("*.whl")
    return wheel


def python_of(environment: Path) -> Path:
    """Return the interpreter of an environment."""
    return environment / ("Scripts" if os.name == "nt" else "bin") / "python"


def commands(python: Path, wheel: Path, program: Path) -> Sequence[Sequence[str | Path]]:
    """Return what is done in the new environment."""
    quiet = ("-q", "--disable-pip-version-check")
    return (
        (python, "-m", "pip", "install", *quiet, wheel),
        (python, "-m", "pip", "check", *quiet),
        (python, program),
        (python.with_name("kgen"), "--version"),
        (python, "-m", "kgen", "cmake-dir"),
    )


def main() -> None:
    wheel = build()
    with tempfile.TemporaryDirectory(prefix="kgen-wheel-") as name:
        folder = Path(name)
        venv.create(folder / "venv", with_pip=True)
        program = Path(shutil.copy(ROOT / "examples" / "laplacian.py", folder))
        for words in commands(python_of(folder / "venv"), wheel, program):
            run(*words, folder=folder)
    print(f"{wheel.relative_to(ROOT)} can be installed, and runs")


if __name__ == "__main__":
    main()
