"""Time one step of Jacobi's iteration in kgen, numpy and its peers, on the host, in one run.

    python benchmarks/jacobi.py [--n 4096] [--threads 1] [--rounds 10] [--peers numba,halide]

The programs are in ``jacobi/``: the documentation shows them. Each runs in a process of its own, in
the environment of its system; all alternate for some rounds, and the least time of a step counts.
Results are compared with numpy's first.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

from peer import peer_python

HERE = Path(__file__).parent
PEERS = ("kgen", "numpy", "numba", "loopy", "halide", "devito")
THREADS = ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS", "HL_NUM_THREADS", "POCL_MAX_PTHREAD_COUNT")


def start(peer: str, n: int, threads: int) -> subprocess.Popen[str]:
    """Start the process of a peer."""
    python = sys.executable if peer in ("kgen", "numpy") else peer_python(peer)
    words = [python, str(HERE / "time_jacobi.py"), peer, str(n)]
    variables = dict.fromkeys(THREADS, str(threads))
    variables["PYTHONPATH"] = os.pathsep.join([str(HERE / "jacobi"), str(HERE.parent)])
    return subprocess.Popen(
        words,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **variables},
    )


def ask(process: subprocess.Popen[str]) -> float:
    """Let a peer have its turn; return the seconds of its quickest step."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("go\n")
    process.stdin.flush()
    return float(process.stdout.readline() or "nan")


def measure(peers: list[str], n: int, threads: int, rounds: int) -> dict[str, float]:
    """Return the seconds of a step of each peer."""
    processes = {peer: start(peer, n, threads) for peer in peers}
    best = {peer: ask(process) for peer, process in processes.items()}
    for _ in range(rounds):
        for peer, process in processes.items():
            best[peer] = min(best[peer], ask(process))
    for process in processes.values():
        process.communicate()
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--n", type=int, default=4096)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, os.cpu_count() or 1])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--peers", default=",".join(PEERS))
    args = parser.parse_args()
    peers = args.peers.split(",")
    print(f"{args.n} x {args.n} float32, milliseconds of a step; GB/s of {8 * args.n**2} bytes\n")
    print("| | " + " | ".join(f"{n} thread{'s' * (n > 1)} | GB/s" for n in args.threads) + " |")
    print("|---|" + "--:|" * 2 * len(args.threads))
    found = [measure(peers, args.n, threads, args.rounds) for threads in args.threads]
    for peer in peers:
        cells = [f"{1e3 * best[peer]:.2f} | {8e-9 * args.n**2 / best[peer]:.1f}" for best in found]
        print(f"| {peer} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
