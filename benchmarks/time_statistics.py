"""Time counting, compared with loopy where it is installed.

Prints milliseconds for operations, accesses and synchronizations together: the tiled matrix product
with both prefetches, and a hundred statements. Each round makes its kernel anew, outside of the
time, so that nothing is remembered. ``--peer PYTHON`` names an interpreter that has loopy;
both run in turns. Its package is not compatible with the newest islpy, in which basic sets lost
methods of sets; they are given back to it, so that it runs.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from importlib import import_module
from typing import Any

import islpy as isl
import numpy as np

SET_METHODS = [name for name in dir(isl.Set) if not name.startswith("__")]


def restore_methods() -> None:
    """Give basic sets the methods of sets that they had before islpy 2026."""

    def delegate(name: str) -> Callable[..., Any]:
        return lambda basic, *args: getattr(isl.Set.from_basic_set(basic), name)(*args)

    for name in SET_METHODS:
        if not hasattr(isl.BasicSet, name):
            setattr(isl.BasicSet, name, delegate(name))


def matrix_product(lp: Any) -> Any:
    """Make the tiled matrix product with both prefetches."""
    knl = lp.make_kernel(
        "{ [i, j, k]: 0 <= i, j, k < n }",
        "out[i, j] = sum(k, a[i, k]*b[k, j])",
        assumptions="n >= 1 and n mod 16 = 0",
    )
    knl = lp.add_dtypes(knl, {"a": np.float32, "b": np.float32})
    knl = lp.split_iname(knl, "i", 16, outer_tag="g.0", inner_tag="l.1")
    knl = lp.split_iname(knl, "j", 16, outer_tag="g.1", inner_tag="l.0")
    knl = lp.split_iname(knl, "k", 16)
    knl = lp.add_prefetch(knl, "a", ["k_inner", "i_inner"], default_tag="l.auto")
    return lp.add_prefetch(knl, "b", ["j_inner", "k_inner"], default_tag="l.auto")


def hundred_statements(lp: Any) -> Any:
    """Make a kernel of a hundred statements on as many arrays."""
    text = "\n".join(f"b{k}[i, j] = {k + 2}*a{k}[i, j] + a{k}[i, j + 1]" for k in range(100))
    knl = lp.make_kernel("{ [i, j]: 0 <= i < n and 0 <= j < m }", text)
    knl = lp.add_dtypes(knl, {f"a{k}": np.float32 for k in range(100)})
    return lp.split_iname(knl, "j", 128, outer_tag="g.0", inner_tag="l.0")


CASES = {"tiled matrix product": matrix_product, "100 statements": hundred_statements}


def count(lp: Any, knl: Any) -> None:
    """Ask for all three maps."""
    lp.get_op_map(knl, subgroup_size=32)
    lp.get_mem_access_map(knl, subgroup_size=32)
    lp.get_synchronization_map(knl, subgroup_size=32)


def measure(package: str, rounds: int) -> dict[str, float]:
    """Return the median milliseconds of each case."""
    warnings.simplefilter("ignore")
    lp = import_module(package)
    lp.set_caching_enabled(False)
    result = {}
    for title, make in CASES.items():
        times = []
        for _ in range(rounds):
            knl = make(lp)
            start = time.perf_counter()
            count(lp, knl)
            times.append(1e3 * (time.perf_counter() - start))
        result[title] = float(np.median(times))
    return result


def main() -> None:
    """Print the table, or one package's figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer", help="a Python interpreter that has loopy")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--package", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.package:
        restore_methods()
        print(json.dumps(measure(arguments.package, arguments.rounds)))
        return
    found = {"kgen": measure("kgen", arguments.rounds)}
    if arguments.peer:
        command = [arguments.peer, __file__, "--package", "loopy", "--rounds"]
        done = subprocess.run(
            [*command, str(arguments.rounds)], capture_output=True, text=True, check=False
        )
        if done.returncode:
            sys.exit(f"loopy failed: {done.stderr.splitlines()[-1]}")
        found["loopy"] = json.loads(done.stdout.splitlines()[-1])
    for title in CASES:
        row = "  ".join(f"{name} {times[title]:8.2f} ms" for name, times in found.items())
        if "loopy" in found:
            row += f"  ratio {found['kgen'][title] / found['loopy'][title]:.2f}"
        print(f"{title:24} {row}")


if __name__ == "__main__":
    main()
