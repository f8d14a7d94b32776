"""Compare search strategies on recorded spaces, kgen's and those of Kernel Tuner.

    python benchmarks/tuning.py FILE... [--seeds 50] [--evaluations 50 100 200]

Prints for each strategy the mean fraction of the optimum (optimal time by time found), with its
standard error. Kernel Tuner runs in its simulation mode, in an environment of its own; each of its
searches knows how many evaluations it has. A search of kgen's does not: it is one for all numbers.
Without files, the spaces are synthetic.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from peer import HERE, peer_python
from tuning_spaces import synthetic_spaces

from kgen.tuning import read_recording, replay, write_recording

STRATEGIES = ("auto", "local", "genetic", "annealing", "orthogonal", "heuristic", "random")
PEERS = ("genetic_algorithm", "greedy_ils", "simulated_annealing")

#: For each number of evaluations the fractions of the optimum, one for each seed.
Fractions = Mapping[int, Sequence[float]]


def searched(file: str, strategy: str, seeds: int, budgets: Sequence[int]) -> Fractions:
    """Search with a strategy of kgen's."""
    recording = read_recording(file)
    found: dict[int, list[float]] = {budget: [] for budget in budgets}
    for seed in range(seeds):
        trace = replay(recording, strategy, max(budgets), seed).trace
        for budget in budgets:
            found[budget].append(trace[min(budget, len(trace)) - 1])
    return found


def searched_by_peer(file: str, strategy: str, seeds: int, budgets: Sequence[int]) -> Fractions:
    """Search with a strategy of Kernel Tuner's."""
    recording = read_recording(file)
    with tempfile.TemporaryDirectory() as folder:
        plain = Path(folder) / "recorded.json"
        write_recording(recording, plain)
        words = [peer_python("kernel_tuner"), str(HERE / "time_kernel_tuner.py"), "kernel_tuner"]
        words += [str(plain), strategy, str(seeds), *map(str, budgets)]
        run = subprocess.run(words, capture_output=True, text=True, check=True)
    best = json.loads(run.stdout.splitlines()[-1])
    return {n: [recording.optimum / time for time in best[str(n)]] for n in budgets}


def shown(values: Sequence[float]) -> str:
    """Return a mean with its standard error."""
    error = statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 else 0.0
    return f"{statistics.mean(values):.4f} ± {error:.4f}"


def print_table(file: str, seeds: int, budgets: Sequence[int], jobs: int) -> None:
    """Run all strategies on a space, and print a line for each."""
    space = read_recording(file).space
    print(f"\n{Path(file).name}: {len(space)} configurations, {seeds} seeds")
    print(f"{'evaluations':32}" + "".join(f"{budget:>18}" for budget in budgets), flush=True)
    with ProcessPoolExecutor(jobs) as pool:
        runs = {
            **{s: pool.submit(searched, file, s, seeds, budgets) for s in STRATEGIES},
            **{
                f"Kernel Tuner: {s}": pool.submit(searched_by_peer, file, s, seeds, budgets)
                for s in PEERS
            },
        }
        for name, run in runs.items():
            print(
                f"{name:32}" + "".join(f"{shown(v):>18}" for v in run.result().values()), flush=True
            )


def synthetic_files(seed: int, most: int, folder: str) -> Iterator[str]:
    """Yield files with synthetic spaces of at most so many configurations."""
    for name, recording in synthetic_spaces(seed).items():
        if len(recording.space) <= most:
            path = Path(folder) / f"{name}.json.gz"
            write_recording(recording, path)
            yield str(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*")
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--evaluations", type=int, nargs="+", default=[50, 100, 200])
    parser.add_argument("--spaces-seed", type=int, default=1, help="of synthetic spaces")
    parser.add_argument("--most", type=int, default=250_000, help="configurations of a space")
    parser.add_argument("--jobs", type=int, default=2, help="searches at a time")
    options = parser.parse_args()
    peer_python("kernel_tuner")
    with tempfile.TemporaryDirectory() as folder:
        made = synthetic_files(options.spaces_seed, options.most, folder)
        for file in options.files or made:
            print_table(file, options.seeds, options.evaluations, options.jobs)


if __name__ == "__main__":
    main()
