"""Time the cost of a launch on the host, and compare it with loopy: PoCL and the C compiler.

Prints microseconds per launch, and the fraction of loopy's time that kgen must stay below. Exits
with 1 if it does not. The two alternate for some rounds; each figure is that of its least disturbed
round.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from peer import describe_run, run_json

#: By backend and figure: the figure of loopy that limits kgen's, and the required fraction.
LIMITS = {
    "opencl": {
        "new executor, but for the build": ("new executor, but for the build", 1.0),
        "executor": ("executor", 1 / 2),
        "executor, arrays alternating": ("executor, arrays alternating", 1 / 2),
        "knl(queue, ...)": ("executor", 1.0),
    },
    "c": {
        "executor": ("executor", 1 / 4),
        "executor, arrays alternating": ("executor, arrays alternating", 1 / 4),
        "knl(...)": ("executor", 1.0),
    },
}


def limit_of(backend: str, name: str, peer: dict[str, Any]) -> float | None:
    """Return the limit of kgen's figure; None if it is only shown."""
    if name not in LIMITS[backend]:
        return None
    figure, part = LIMITS[backend][name]
    return part * float(peer[backend][figure])


def least_of(rounds: list[dict[str, Any]]) -> dict[str, Any]:
    """Return each figure's least value over the rounds of one module."""
    return {
        backend: {name: min(each[backend][name] for each in rounds) for name in figures}
        for backend, figures in rounds[0].items()
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there as well")
    parser.add_argument("--rounds", type=int, default=2)
    args = parser.parse_args()

    versions = describe_run()
    print(", ".join(f"{name} {value}" for name, value in versions.items()))
    rounds: dict[str, list[dict[str, Any]]] = {"loopy": [], "kgen": []}
    for _ in range(args.rounds):
        for module, results in rounds.items():
            results.append(run_json(module, "time_launch.py"))
            if "error" in results[-1]:
                print(f"{module}: {results[-1]['error']}", file=sys.stderr)
                return 1
    peer, ours = least_of(rounds["loopy"]), least_of(rounds["kgen"])

    missed = 0
    for backend in LIMITS:
        print(f"\n{f'{backend}, us a launch':32} {'loopy':>10} {'kgen':>10} {'below':>8}")
        for name, figure in ours[backend].items():
            limit = limit_of(backend, name, peer)
            verdict = "" if limit is None else "ok" if figure < limit else "MISSED"
            missed += verdict == "MISSED"
            below = "-" if limit is None else f"{limit:.2f}"
            print(f"{name:32} {peer[backend][name]:10.2f} {figure:10.2f} {below:>8}  {verdict}")

    if args.json:
        result = {"versions": versions, "loopy": peer, "kgen": ours}
        args.json.write_text(json.dumps(result, indent=1) + "\n")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
