"""The time of `import kgen`, beside that of the packages that it imports, in fresh processes.

Minima of interleaved runs, in milliseconds of processor time, with compiled code in a cache.

    python benchmarks/import_time.py [--runs 10]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
CASES = {
    "kgen": "kgen",
    "its dependencies": "cgen, constantdict, islpy, numpy, platformdirs, pymbolic, pytools",
    "numpy": "numpy",
}
PROBE = "import time; begin = time.process_time(); import {}; print(time.process_time() - begin)"


def seconds(packages: str, cache: str) -> float:
    """Import packages in a fresh process; return its processor time."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONPYCACHEPREFIX": cache}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, "-c", PROBE.format(packages)]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return float(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=10)
    runs = parser.parse_args().runs
    with tempfile.TemporaryDirectory() as cache:
        times = [{n: seconds(what, cache) for n, what in CASES.items()} for _ in range(runs + 1)]
    print("| import | ms |\n|---|---:|")
    for name in CASES:
        print(f"| {name} | {1e3 * min(run[name] for run in times[1:]):.0f} |")


if __name__ == "__main__":
    main()
