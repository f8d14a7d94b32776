"""Time a kernel on all threads of the host that several Python threads call at once.

Prints microseconds of a call, for each number of callers: the least of some rounds. As calls share
the threads, many callers should take no longer for each call than one caller does.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

import kgen as lp


def bound_calls(count: int, n: int) -> list[Callable[[], Any]]:
    """Return calls of one kernel with an array each for its results."""
    code = "out[i] = sum(k, sqrt(a[i] + k))"
    knl = lp.make_kernel("{ [i, k]: 0 <= i < n and 0 <= k < 200 }", code)
    knl = lp.split_iname(knl.copy(target=lp.ExecutableCTarget()), "i", 64, outer_tag="g.0")
    executor, a = knl.executor(), np.random.default_rng(0).random(n)
    return [executor.bind(a=a, out=np.empty(n), n=n) for _ in range(count)]


def seconds_of(calls: list[Callable[[], Any]], repeat: int) -> float:
    """Return the seconds of a call where each of some threads makes one of them many times."""

    def work(call: Callable[[], Any]) -> None:
        for _ in range(repeat):
            call()

    with ThreadPoolExecutor(len(calls)) as pool:
        start = time.perf_counter()
        list(pool.map(work, calls))
        return (time.perf_counter() - start) / (repeat * len(calls))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--callers", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--size", type=int, default=1 << 15)
    parser.add_argument("--repeat", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=7)
    args = parser.parse_args()
    calls = bound_calls(max(args.callers), args.size)
    best = dict.fromkeys(args.callers, float("inf"))
    for _ in range(args.rounds):
        for count in args.callers:
            best[count] = min(best[count], seconds_of(calls[:count], args.repeat))
    for count, seconds in best.items():
        print(f"{count:3} callers: {1e6 * seconds:8.1f} us per call")


if __name__ == "__main__":
    main()
