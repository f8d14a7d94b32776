"""Time code generation, from make_kernel to the text, and compare it with loopy in one run.

The two alternate for some rounds; the least time of each counts. Prints the times, their ratio and
the required ratio; then the exponent by which kgen's time grows with the size. Exits with 1 if a
requirement is missed.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from pathlib import Path

from kernels import CASES
from peer import describe_run, run_json


def milliseconds(seconds: float) -> str:
    return "failed" if math.isinf(seconds) else f"{1e3 * seconds:.1f}"


def measure(work: dict[str, list[str]], rounds: int, timeout: float) -> dict[str, dict[str, float]]:
    """Return the least time of each case of each module; infinity if there is none."""
    best = {module: dict.fromkeys(cases, math.inf) for module, cases in work.items()}
    for _ in range(rounds):
        for module, cases in work.items():
            found = run_json(module, "time_codegen.py", *cases, timeout=timeout)
            for case in cases:
                best[module][case] = min(best[module][case], found.get(case) or math.inf)
    return best


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there as well")
    parser.add_argument("--cases", nargs="+", choices=sorted(CASES), default=list(CASES))
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--timeout", type=float, default=600, help="seconds for one round")
    args = parser.parse_args()

    versions = describe_run()
    print(", ".join(f"{name} {value}" for name, value in versions.items()))
    compared = {f"{n}:{CASES[n].compared_size}": CASES[n] for n in args.cases}
    growing = {n: [f"{n}:{size}" for size in CASES[n].growth_sizes] for n in args.cases}
    own = [*compared, *(text for texts in growing.values() for text in texts)]
    times = measure({"loopy": list(compared), "kgen": own}, args.rounds, args.timeout)

    missed = 0
    print(f"\n{'code generation, ms':44} {'loopy':>9} {'kgen':>9} {'ratio':>6} required")
    for text, case in compared.items():
        peer, ours = times["loopy"][text], times["kgen"][text]
        passed = ours * case.required_ratio <= peer
        missed += not passed
        size = text.partition(":")[2]
        title = case.title if size == "1" else f"{case.title}, {size}"
        print(
            f"{title:44} {milliseconds(peer):>9} {milliseconds(ours):>9} {peer / ours:6.1f}"
            f" {case.required_ratio:8.0f}  {'ok' if passed else 'MISSED'}"
        )

    print(f"\n{'growth of kgen, size: ms':44} {'':26} {'exponent':>8} at most")
    for name, texts in growing.items():
        if texts:
            small, large = (times["kgen"][text] for text in texts)
            sizes = CASES[name].growth_sizes
            exponent = math.log(large / small) / math.log(sizes[1] / sizes[0])
            passed = exponent <= CASES[name].max_exponent
            missed += not passed
            shown = "  ".join(
                f"{size:5}: {milliseconds(t):>6}"
                for size, t in zip(sizes, (small, large), strict=True)
            )
            print(
                f"{CASES[name].title:44} {shown:26} {exponent:8.2f}"
                f" {CASES[name].max_exponent:7}  {'ok' if passed else 'MISSED'}"
            )

    if args.json:
        args.json.write_text(json.dumps({"versions": versions, "seconds": times}, indent=1) + "\n")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
