"""Time code generation of kernels in this process; print {"case:size": seconds} as JSON.

Run by codegen.py, by the interpreter of the environment that has the module. A case that the module
cannot do has no time.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import json
import time
import warnings
from typing import Any

from kernels import CASES, Case, code_text

WARM_SIZE = 8


def _restore_what_loopy_calls() -> None:
    """Give islpy the methods of old that loopy 2025.2 calls."""
    isl = importlib.import_module("islpy")
    if not hasattr(isl.Aff, "is_equal"):
        isl.Aff.is_equal = isl.Aff.plain_is_equal
    for name in [name for name in dir(isl.Set) if not hasattr(isl.BasicSet, name)]:
        setattr(isl.BasicSet, name, _of_set(isl, name))


def _of_set(isl: Any, name: str) -> Any:
    return lambda basic, *args: getattr(isl.Set.from_basic_set(basic), name)(*args)


def best_time(lp: Any, case: Case, size: int, seconds: float) -> float | None:
    """Return the least processor time of runs that take so many seconds together."""
    gc.collect()
    gc.freeze()  # what earlier cases have left takes no time to look through
    runs: list[float] = []
    try:
        # A small one first: imports, parsers and dispatch tables are then warm.
        code_text(lp, case, min(WARM_SIZE, size))
        while not runs or sum(runs) < seconds:
            start = time.process_time()
            code_text(lp, case, size)
            runs.append(time.process_time() - start)
    except RecursionError:
        return None
    return min(runs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("module", choices=["kgen", "loopy"])
    parser.add_argument("cases", nargs="+", metavar="CASE:SIZE")
    parser.add_argument("--seconds", type=float, default=0.3, help="repeat a case for this long")
    args = parser.parse_args()

    warnings.simplefilter("ignore")
    lp = importlib.import_module(args.module)
    if args.module == "loopy":
        _restore_what_loopy_calls()
    lp.set_caching_enabled(False)
    times: dict[str, float | None] = {}
    for text in args.cases:
        name, _, size = text.partition(":")
        times[text] = best_time(lp, CASES[name], int(size), args.seconds)
    print(json.dumps(times))


if __name__ == "__main__":
    main()
