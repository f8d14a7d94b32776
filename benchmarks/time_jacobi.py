"""Time a step of a program in ``jacobi/``: each line read is a turn, which prints seconds."""

# mypy: ignore-errors

from __future__ import annotations

import importlib
import sys
import time

import numpy as np

TURN = 0.2


def main() -> None:
    peer, n = sys.argv[1], int(sys.argv[2])
    step = importlib.import_module(f"in_{peer}").step
    u = np.random.default_rng(1).random((n, n), dtype=np.float32)
    out = u.copy()
    step(u, out)
    expected = 0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:])
    error = np.abs(getattr(step, "result", out)[1:-1, 1:-1] - expected).max()
    if not error < 1e-6:
        raise SystemExit(f"{peer}: the error is {error}")
    for _ in sys.stdin:
        best, end = float("inf"), time.perf_counter() + TURN
        while True:
            start = time.perf_counter()
            step(u, out)
            now = time.perf_counter()
            best = min(best, now - start)
            if now > end:
                break
        print(best, flush=True)


if __name__ == "__main__":
    main()
