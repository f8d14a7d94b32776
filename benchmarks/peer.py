"""The peers from PyPI, in environments of their own; scripts run there or here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parent
PEER_VENVS = ROOT / ".bench-venv"
N_LINES_OF_FAILURE = 5
PEER_PACKAGES = {
    # which runs with no newer islpy
    "loopy": ["loopy", "pyopencl", "islpy<2026"],
    "devito": ["devito"],
    "halide": ["halide", "numpy"],
    "numba": ["numba"],
    "kernel_tuner": ["kernel_tuner"],
}


def peer_python(peer: str = "loopy") -> str:
    """Return the interpreter of a peer's environment, created on the first call."""
    folder, packages = PEER_VENVS / peer, PEER_PACKAGES[peer]
    python = folder / "bin" / "python"
    done = folder / "complete"
    if not done.exists():
        print(f"installing {', '.join(packages)} into {folder.name}", file=sys.stderr)
        venv.create(folder, with_pip=True, clear=True)
        subprocess.run([python, "-m", "pip", "install", "-q", *packages], check=True)
        done.touch()
    return str(python)


def python_of(module: str) -> str:
    """Return the interpreter that has *module*, which is kgen or loopy."""
    return sys.executable if module == "kgen" else peer_python()


def run_json(module: str, script: str, *arguments: str, timeout: float = 600) -> dict[str, Any]:
    """Run a script of this folder where *module* is; return the JSON of its last line.

    A script that fails, or runs longer than *timeout* seconds, gives ``{"error": ...}``; the end of
    its messages is printed on standard error.
    """
    command = [python_of(module), str(HERE / script), module, *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    try:
        run = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=timeout, check=False
        )
    except subprocess.TimeoutExpired:
        return {"error": f"over {timeout:.0f} s"}
    if run.returncode != 0:
        print("\n".join(run.stderr.splitlines()[-N_LINES_OF_FAILURE:]), file=sys.stderr)
        return {"error": (run.stderr.splitlines() or [f"exit {run.returncode}"])[-1][:60]}
    result: dict[str, Any] = json.loads(run.stdout.splitlines()[-1])
    return result


def describe_run() -> dict[str, str]:
    """Return the versions that a result belongs to."""
    ask = "import importlib.metadata as m; print(m.version('loopy'))"
    version = subprocess.run(
        [peer_python(), "-c", ask], check=True, capture_output=True, text=True
    ).stdout.strip()
    return {"python": sys.version.split()[0], "loopy": version, "cores": str(os.cpu_count())}
