"""Time code generation, from make_kernel to the code's text, beside loopy in the same run.

Both are timed in turn, several times, each time by the median of warm runs; the least disturbed one
counts. Prints these, the ratio and the ratio that is required, then how kgen's time grows with the
size. Exits with 1 where a requirement is missed.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from kernels import CASES, Case
from peer import describe_run, run_json

#: How often each figure is taken, unless one round takes longer than so many seconds.
N_ROUNDS = 4
MAX_SECONDS = 20.0


def fitted_exponent(sizes: tuple[int, ...], seconds: list[float]) -> float:
    """Return the slope of the least-squares line through log(seconds) over log(size)."""
    xs = [math.log(size) for size in sizes]
    ys = [math.log(value) for value in seconds]
    x_mean, y_mean = sum(xs) / len(xs), sum(ys) / len(ys)
    covariance = sum((x - x_mean) * (y - y_mean) for x, y in zip(xs, ys, strict=True))
    return covariance / sum((x - x_mean) ** 2 for x in xs)


def milliseconds(result: dict[str, Any]) -> str:
    return result.get("error") or f"{1e3 * result['seconds']:.1f}"


def in_turn(timings: Sequence[Callable[[], dict[str, Any]]]) -> list[dict[str, Any]]:
    """Take several figures in turn, round after round; return the least of each."""
    rounds: list[list[dict[str, Any]]] = []
    start = time.monotonic()
    while not rounds or (len(rounds) < N_ROUNDS and time.monotonic() - start < MAX_SECONDS):
        rounds.append([timing() for timing in timings])
    return [
        min(runs, key=lambda run: run.get("seconds", math.inf))
        for runs in zip(*rounds, strict=True)
    ]


def timing_of(module: str, name: str, size: int, timeout: float) -> Callable[[], dict[str, Any]]:
    return lambda: run_json(module, "time_codegen.py", name, str(size), timeout=timeout)


def compare(name: str, case: Case, timeout: float) -> dict[str, Any]:
    """Time one case in both modules."""
    modules = ("loopy", "kgen")
    peer, ours = in_turn([timing_of(module, name, case.size, timeout) for module in modules])
    both = "seconds" in peer and "seconds" in ours
    ratio = peer["seconds"] / ours["seconds"] if both else None
    required = case.required_ratio
    passed = "seconds" in ours and (required is None or (ratio is not None and ratio >= required))
    return {
        "case": name,
        "size": case.size,
        "loopy": peer,
        "kgen": ours,
        "ratio": ratio,
        "required": required,
        "passed": passed,
    }


def measure_growth(name: str, timeout: float) -> dict[str, Any]:
    """Time kgen on one case at several sizes and fit the exponent."""
    case = CASES[name]
    sizes = case.growth_sizes
    results = in_turn([timing_of("kgen", name, size, timeout) for size in sizes])
    seconds = [result["seconds"] for result in results if "seconds" in result]
    complete = len(seconds) == len(sizes)
    exponent = fitted_exponent(sizes, seconds) if complete else None
    passed = exponent is not None and exponent <= case.max_exponent
    return {
        "case": name,
        "sizes": sizes,
        "kgen": results,
        "exponent": exponent,
        "passed": passed,
    }


def print_comparison(row: dict[str, Any]) -> None:
    case = CASES[row["case"]]
    title = f"{case.title}, {case.size}" if case.size > 1 else case.title
    ratio = f"{row['ratio']:.1f}" if row["ratio"] else "-"
    required = f"{row['required']:.0f}" if row["required"] else "-"
    print(
        f"{title:40} {milliseconds(row['loopy']):>14} {milliseconds(row['kgen']):>14}"
        f" {ratio:>7} {required:>8}  {'ok' if row['passed'] else 'MISSED'}",
        flush=True,
    )


def print_growth(row: dict[str, Any]) -> None:
    pairs = zip(row["sizes"], row["kgen"], strict=True)
    times = " ".join(f"{f'{size}: {milliseconds(result)}':>13}" for size, result in pairs)
    exponent = "-" if row["exponent"] is None else f"{row['exponent']:.2f}"
    verdict = "ok" if row["passed"] else "MISSED"
    case = CASES[row["case"]]
    print(f"{case.title:40} {times} {exponent:>9} {case.max_exponent:>8}  {verdict}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there as well")
    parser.add_argument("--cases", nargs="+", choices=sorted(CASES), default=list(CASES))
    parser.add_argument("--no-growth", action="store_true", help="leave out the growth table")
    parser.add_argument("--timeout", type=float, default=600, help="seconds for one case")
    args = parser.parse_args()

    versions = describe_run()
    print(", ".join(f"{name} {value}" for name, value in versions.items()))
    print(f"\n{'code generation, ms (median)':40} {'loopy':>14} {'kgen':>14} {'ratio':>7} required")
    comparisons = []
    for name in args.cases:
        comparisons.append(compare(name, CASES[name], args.timeout))
        print_comparison(comparisons[-1])

    growth = []
    if not args.no_growth:
        print(f"\n{'growth of kgen, size: ms (median)':40} {'':55} {'exponent':>9} required")
        for name in args.cases:
            if CASES[name].growth_sizes:
                growth.append(measure_growth(name, args.timeout))
                print_growth(growth[-1])

    if args.json:
        result = {"versions": versions, "comparisons": comparisons, "growth": growth}
        args.json.write_text(json.dumps(result, indent=1) + "\n")
    return 0 if all(row["passed"] for row in [*comparisons, *growth]) else 1


if __name__ == "__main__":
    sys.exit(main())
