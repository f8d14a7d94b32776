"""Weak and strong scaling of examples/mpi_heat.py over the ranks of one host, as a table.

Strong: the same grid for any number of ranks. Weak: as many rows for each rank. Either with the
interior computed while halos travel, and with the two in turn.

    python benchmarks/parallel.py --device cuda --ranks 1 2 --shape 8192 8192
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

EXAMPLE = Path(__file__).parent.parent / "examples" / "mpi_heat.py"
_TIMES = re.compile(r"([\d.]+) us per step, ([\d.]+) GB/s, ([\d.]+) us waiting")


class Times(NamedTuple):
    """Of a step: its time, the time of it that the slowest rank waits (us), and the rate (GB/s)."""

    step: float
    rate: float
    waited: float


def measure(options: list[str], ranks: int, rows: int, columns: int, *, in_turn: bool) -> Times:
    """Run the example, and read what it prints."""
    beside = Path(sys.executable).with_name("mpiexec")
    command = [str(beside) if beside.exists() else "mpiexec", "-n", str(ranks), sys.executable]
    command += [str(EXAMPLE), "--no-check", "--shape", str(rows), str(columns), *options]
    text = subprocess.run(
        [*command, *["--in-turn"] * in_turn], check=True, capture_output=True, text=True
    ).stdout
    found = _TIMES.search(text)
    assert found is not None, text
    return Times(*map(float, found.groups()))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", default="c")
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--shape", type=int, nargs=2, default=(2000, 2000))
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--repeat", type=int, default=5, help="runs in a process; the best counts")
    parser.add_argument("--rounds", type=int, default=1, help="processes, of all cases in turn")
    given = parser.parse_args()
    rows, columns = given.shape
    options = [f"--device={given.device}", f"--steps={given.steps}", f"--repeat={given.repeat}"]
    cases = [
        (scaling, rows if scaling == "strong" else rows * ranks, ranks)
        for scaling in ("strong", "weak")
        for ranks in given.ranks
    ]
    runs = dict.fromkeys((n, here, turn) for _, here, n in cases for turn in (False, True))
    best: dict[tuple[int, int, bool], Times] = {}
    for _ in range(given.rounds):
        for ranks, here, in_turn in runs:
            found = measure(options, ranks, here, columns, in_turn=in_turn)
            key = ranks, here, in_turn
            best[key] = min(found, best.get(key, found))
    print("| scaling | grid | ranks | us per step | GB/s | efficiency | waiting | in turn |")
    print("|---|---|---:|---:|---:|---:|---:|---:|")
    alone = best[given.ranks[0], cases[0][1], False].rate / given.ranks[0]
    for scaling, here, ranks in cases:
        both, turns = best[ranks, here, False], best[ranks, here, True]
        print(
            f"| {scaling} | {here} x {columns} | {ranks} | {both.step:.0f} | {both.rate:.1f} "
            f"| {both.rate / alone / ranks:.2f} | {both.waited:.0f} | {turns.step:.0f} |"
        )


if __name__ == "__main__":
    main()
