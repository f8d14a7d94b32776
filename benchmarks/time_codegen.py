"""Time one kernel's code generation in this process; print the result as a line of JSON.

Run by codegen.py, by the interpreter of the environment that has the module.
"""

from __future__ import annotations

import argparse
import importlib
import json
import statistics
import time
import warnings

from kernels import CASES, code_text

WARM_SIZE = 8
N_RUNS = (1, 25)


def _restore_what_loopy_calls() -> None:
    """Give islpy the method of old that loopy 2025.2 calls for loops with several bounds."""
    isl = importlib.import_module("islpy")
    if not hasattr(isl.Aff, "is_equal"):
        isl.Aff.is_equal = isl.Aff.plain_is_equal


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("module", choices=["kgen", "loopy"])
    parser.add_argument("case", choices=sorted(CASES))
    parser.add_argument("size", type=int)
    parser.add_argument("--seconds", type=float, default=1.0, help="repeat the run for this long")
    args = parser.parse_args()

    warnings.simplefilter("ignore")
    lp = importlib.import_module(args.module)
    if args.module == "loopy":
        _restore_what_loopy_calls()
    lp.set_caching_enabled(False)
    case = CASES[args.case]
    runs: list[float] = []
    try:
        # A small one first: imports, parsers and dispatch tables are then warm, nothing else is.
        code_text(lp, case, min(WARM_SIZE, args.size))
        while len(runs) < N_RUNS[0] or (sum(runs) < args.seconds and len(runs) < N_RUNS[1]):
            start = time.perf_counter()
            text = code_text(lp, case, args.size)
            runs.append(time.perf_counter() - start)
    except RecursionError:
        print(json.dumps({"error": "RecursionError"}))
        return
    result = {
        "seconds": statistics.median(runs),
        "first": runs[0],
        "runs": len(runs),
        "characters": len(text),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
