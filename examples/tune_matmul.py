"""
Matrix product, tuned
=====================

A matrix product on the host, tuned without a schedule by hand, beside numpy's.

    python examples/tune_matmul.py [SIZE] [SECONDS]

`auto_space` finds the schedules that are worth measuring, and `tune` the fastest of them.
"""

from __future__ import annotations

import sys
import time

import numpy as np

import kgen as lp


def product(n: int) -> lp.TranslationUnit:
    return lp.make_kernel(
        f"{{ [i, j, k]: 0 <= i, j, k < {n} }}",
        "c[i, j] = sum(k, a[i, k]*b[k, j])",
        [lp.GlobalArg("a, b", np.float32), ...],
        target=lp.ExecutableCTarget(),
        name="product",
    )


def kernels() -> dict[str, lp.TranslationUnit]:
    """Return the product with the schedule that analysis finds."""
    return {"c": lp.autoschedule(product(512))}


def numpy_seconds(n: int) -> float:
    a, b = np.random.default_rng(1).random((2, n, n), dtype=np.float32)
    times = []
    for _ in range(5):
        start = time.perf_counter()
        a @ b
        times.append(time.perf_counter() - start)
    return min(times)


def main(n: int = 512, seconds: float = 20.0) -> None:
    knl = product(n)
    result = lp.tune(lp.auto_space(knl), reference=lambda a, b: a @ b, seconds=seconds)
    print(result)
    print(result.table(5))
    for name, part in result.importance.items():
        print(f"{name}: {part:.0%} of the variance of log(time)")
    best = result.best
    rng = np.random.default_rng(0)
    a, b = rng.random((2, n, n), dtype=np.float32)
    _, (c,) = best.kernel(a=a, b=b)
    assert np.allclose(c, a @ b, rtol=1e-4)
    print(f"{2e-9 * n**3 / best.time:.1f} GFLOP/s, {numpy_seconds(n) / best.time:.2f} of numpy's")


if __name__ == "__main__":
    main(*(int(size) for size in sys.argv[1:2]), *(float(limit) for limit in sys.argv[2:3]))
