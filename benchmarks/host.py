"""Time kernels on the host, hand-written C with OpenMP, numba and numpy, in one run.

Prints milliseconds per call, and kgen's time as a fraction of the others', for each number of
threads: with a schedule by hand (``kgen``), with the one that ``autoschedule`` finds (``auto``),
and without one (``plain``) if that is not too slow; last the speed of ``auto`` as a fraction of
that of ``kgen``. The C in ``hand/`` is compiled by the same compiler with the same flags. All
alternate for some rounds; each figure is that of the least disturbed call. Results are checked
against each other.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from host_inputs import INPUTS, OUTPUTS, Arrays
from host_kernels import KERNELS, PLAIN
from host_numpy import IN_NUMPY
from peer import peer_python

import kgen as lp
from kgen.runtime.c import EXACT_ROOTS
from kgen.runtime.toolchain import find_c_compiler, knows

HERE = Path(__file__).parent
_SHARED = ["-fopenmp", "-std=gnu11", "-fPIC", "-shared"]
#: What kgen has by default, and for the rest what its runtime adds.
FLAGS = ["-O3", "-march=native", "-fno-math-errno", "-fno-trapping-math", *_SHARED]
if knows(find_c_compiler(), (EXACT_ROOTS,)):
    FLAGS.append(EXACT_ROOTS)
#: The seconds of a turn of a case, in each module.
TURN = 0.05
TOLERANCE = 1e-4
#: Schedules of kgen's that run on all numbers of threads.
WHICH = ("kgen", "auto")
#: The cases that take seconds without a schedule.
SLOW = ("matmul",)


def build_hand(folder: Path, compiler: str) -> ctypes.CDLL:
    """Compile the hand-written code."""
    library = folder / "hand.so"
    sources = map(str, sorted(HERE.glob("hand/*.c")))
    subprocess.run([compiler, *FLAGS, "-o", str(library), *sources, "-lm"], check=True)
    return ctypes.CDLL(str(library))


def call_of(function: Any, arrays: Arrays) -> Callable[[], Any]:
    """Return a call of a C function, whose parameters are as the inputs are ordered."""

    def as_c(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            return ctypes.c_void_p(value.ctypes.data)
        return ctypes.c_double(value) if isinstance(value, float) else ctypes.c_int(value)

    values = [as_c(value) for value in arrays.values()]
    return lambda: function(*values)


def least(call: Callable[[], Any]) -> float:
    """Return seconds of the least disturbed call of one turn."""
    best, end = float("inf"), time.perf_counter() + TURN
    while True:
        start = time.perf_counter()
        call()
        now = time.perf_counter()
        best = min(best, now - start)
        if now > end:
            return best


class Numba:
    """A process that runs the cases in numba."""

    def __init__(self) -> None:
        words = [peer_python("numba"), str(HERE / "time_numba.py")]
        self.process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __enter__(self) -> Numba:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: Any, trace: TracebackType | None
    ) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()

    def ask(self, *words: Any) -> float:
        """Send one line; return the number that is the answer."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())


class Case:
    """One case: its calls by module, and the least time of each by number of threads."""

    def __init__(self, name: str, hand: ctypes.CDLL, numba: Numba, folder: Path) -> None:
        self.name, self.hand, self.numba, self.folder = name, hand, numba, folder
        self.arrays = INPUTS[name]()
        self.seconds: dict[str, float] = {}

    def results(self) -> dict[str, Any]:
        return {name: self.arrays[name].copy() for name in OUTPUTS if name in self.arrays}

    def check(self, module: str, found: dict[str, Any], expected: dict[str, Any]) -> None:
        """Compare results with those in C."""
        for name, right in expected.items():
            error = np.abs(found[name] - right).max() / np.abs(right).max()
            if not error < TOLERANCE:
                raise SystemExit(f"{self.name}: {module} computes '{name}' wrong by {error}")

    def run(self, threads: tuple[int, ...], rounds: int) -> None:
        """Check the results, and time all calls alternately."""
        by_hand = call_of(getattr(self.hand, self.name), self.arrays)
        by_hand()
        expected = self.results()
        for output in expected:
            self.arrays[output].fill(np.nan)
        in_numpy: Any = IN_NUMPY[self.name]
        self.check("numpy", dict(zip(expected, in_numpy(**self.arrays), strict=True)), expected)
        file = self.folder / f"{self.name}.npz"
        self.numba.ask(self.name, file)
        self.check("numba", dict(np.load(file)), expected)
        calls = {
            f"{which} {count}": self.kernel(which, count)
            for which in (*WHICH, "plain")
            for count in threads
            if which != "plain" or (count == 1 and self.name not in SLOW)
        }
        for figure, call in calls.items():
            for output in expected:
                self.arrays[output].fill(np.nan)
            call()
            self.check(figure, self.results(), expected)
        for _ in range(rounds):
            for count in threads:
                self.hand.omp_set_num_threads(count)
                self.note(f"hand {count}", least(by_hand))
                for figure, call in calls.items():
                    if figure.endswith(f" {count}"):
                        self.note(figure, least(call))
                self.note(f"numba {count}", self.numba.ask(self.name, count, TURN))
        self.note("numpy", least(lambda: in_numpy(**self.arrays)))

    def kernel(self, which: str, threads: int) -> Callable[[], Any]:
        """Return a call of kgen's kernel with a schedule by hand, a found one, or none."""
        knl = KERNELS[self.name]() if which == "kgen" else PLAIN[self.name]()
        knl = lp.autoschedule(knl) if which == "auto" else knl
        target: Any = knl.target
        executor = knl.copy(target=replace(target, threads=threads)).executor()
        return lambda: executor(**self.arrays)

    def note(self, figure: str, seconds: float) -> None:
        self.seconds[figure] = min(seconds, self.seconds.get(figure, float("inf")))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=", ".join(KERNELS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, nargs="+", default=(1, 2))
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there as well")
    parser.add_argument("--cc", default=os.environ.get("CC", "cc"))
    args = parser.parse_args()

    threads = tuple(args.threads)
    columns = [(figure, n) for n in threads for figure in ("hand", *WHICH, "numba")]
    heads = [f"{figure}, {n}" for figure, n in columns]
    ratios = [(peer, n) for n in threads for peer in ("hand", "numba")]
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores; ms a call, then ratios\n")
    heads += ["numpy", "plain", *(f"kgen/{peer}, {n}" for peer, n in ratios)]
    heads += [f"kgen/auto, {n}" for n in threads]
    print(f"| {'threads:':14} | {' | '.join(heads)} |")
    print("|---|" + len(heads) * "--:|")
    result: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as name, Numba() as numba:
        folder = Path(name)
        hand = build_hand(folder, args.cc)
        for name in args.cases or KERNELS:
            case = Case(name, hand, numba, folder)
            case.run(threads, args.rounds)
            found = result[name] = case.seconds
            cells = [f"{1e3 * found[f'{f} {n}']:.2f}" for f, n in columns]
            cells += [f"{1e3 * found['numpy']:.0f}"]
            cells += [f"{1e3 * found['plain 1']:.2f}" if "plain 1" in found else ""]
            cells += [f"{found[f'kgen {n}'] / found[f'{peer} {n}']:.2f}" for peer, n in ratios]
            cells += [f"{found[f'kgen {n}'] / found[f'auto {n}']:.2f}" for n in threads]
            print(f"| {name:14} | {' | '.join(f'{c:>6}' for c in cells)} |", flush=True)
    print(f"\nload {os.getloadavg()[0]:.1f}")
    if args.json:
        args.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
