"""The time of `import kgen`, and that of the packages that it uses, in fresh processes.

Names of kgen are imported when they are used, so the lines below the first add what a program
that makes a kernel, and then code, takes with them. Minima of interleaved runs, in milliseconds
of processor time, with compiled code in a cache.

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
PACKAGES = "import islpy, numpy, pymbolic"
KERNEL = "kgen.make_kernel('{ [i]: 0 <= i < n }', 'out[i] = 2*i', target=kgen.CTarget())"
CASES = {
    "`import kgen`": "import kgen",
    "numpy, islpy and pymbolic": PACKAGES,
    "these and `import kgen`": f"{PACKAGES}; import kgen",
    "a kernel is made": f"import kgen; {KERNEL}",
    "code is generated": f"import kgen; kgen.generate_code_v2({KERNEL})",
    "all public names": "from kgen import *",
}
PROBE = "import time; begin = time.process_time(); {}; print(time.process_time() - begin)"


def seconds(program: str, cache: str) -> float:
    """Run a program in a fresh process; return its processor time."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONPYCACHEPREFIX": cache}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, "-c", PROBE.format(program)]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return float(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=10)
    runs = parser.parse_args().runs
    with tempfile.TemporaryDirectory() as cache:
        times = [{n: seconds(what, cache) for n, what in CASES.items()} for _ in range(runs + 1)]
    print("| program | ms |\n|---|---:|")
    for name in CASES:
        print(f"| {name} | {1e3 * min(run[name] for run in times[1:]):.0f} |")


if __name__ == "__main__":
    main()
