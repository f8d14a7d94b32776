"""
Sparse matrix times vector
==========================

Multiply a sparse matrix by a vector, in the stages of OpenACC's guide to loops.

The rows of a matrix in compressed rows (CSR) are short, and their lengths are data. A row for each
work-item reads scattered entries; a vector of 128 lanes along each row reads neighbours, but most
lanes are idle; one of 32 fits, and 4 workers of 32 fill a work-group again.

    python examples/spmv.py --device {c,opencl,cuda} [--n 10000] [--explain] [--plot spmv.png]
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import kgen as lp

MAX_ERROR = 1e-12
VECTOR_LENGTHS, NUMBERS_OF_WORKERS = (128, 64, 32), (1, 2, 4, 8)
ROUNDS = 5


def product(target: Any) -> lp.TranslationUnit:
    """Return the product as it is defined; the bounds of the loop along a row are data."""
    return lp.make_kernel(
        ["{ [row]: 0 <= row < n }", "{ [k]: first <= k < last }"],
        """
        for row
            <> first = starts[row]
            <> last = starts[row + 1]
            y[row] = sum(k, values[k]*x[columns[k]])
        end
        """,
        [
            lp.GlobalArg("values", np.float64, shape="entries"),
            lp.GlobalArg("columns", np.int32, shape="entries"),
            lp.GlobalArg("x", np.float64, shape="width"),
            lp.GlobalArg("starts", np.int32, shape="n + 1"),
            lp.ValueArg("entries, width", np.int32),
            ...,
        ],
        name="spmv",
        target=target,
    )


def row_per_item(knl: lp.TranslationUnit) -> lp.TranslationUnit:
    """Give each work-item a row."""
    return lp.parallelize(knl, {"row": "gang vector"}, vector_length=128)


def row_per_vector(knl: lp.TranslationUnit, length: int) -> lp.TranslationUnit:
    """Give each work-group a row, and its lanes the entries."""
    return lp.parallelize(knl, {"row": "gang", "k": "vector"}, vector_length=length)


def row_per_worker(knl: lp.TranslationUnit, workers: int, length: int) -> lp.TranslationUnit:
    """Give each worker of a work-group a row, and its lanes the entries."""
    levels = {"row": "gang worker", "k": "vector"}
    return lp.parallelize(knl, levels, num_workers=workers, vector_length=length)


def stages(target: Any) -> dict[str, lp.TranslationUnit]:
    """Return all variants by what they are called in the table."""
    knl = product(target)
    found = {"row per work-item": row_per_item(knl)}
    for length in VECTOR_LENGTHS:
        found[f"vector({length})"] = row_per_vector(knl, length)
    for workers in NUMBERS_OF_WORKERS[1:]:
        found[f"worker({workers}) vector(32)"] = row_per_worker(knl, workers, 32)
    return found


def kernels() -> dict[str, lp.TranslationUnit]:
    """Return what fits each device."""
    return {
        "c": product(lp.ExecutableCTarget()),
        "opencl": row_per_worker(product(lp.PyOpenCLTarget()), 4, 32),
        "cuda": row_per_worker(product(lp.PyCudaTarget()), 4, 32),
    }


def make_matrix(n: int) -> dict[str, Any]:
    """Return a matrix with rows of all lengths up to 49, and a vector."""
    random = np.random.default_rng(1)
    starts = np.zeros(n + 1, np.int32)
    starts[1:] = np.cumsum(random.integers(0, 50, n))
    entries = int(starts[-1])
    return {
        "starts": starts,
        "columns": random.integers(0, n, entries).astype(np.int32),
        "values": random.random(entries),
        "x": random.random(n),
    }


def multiply_in_numpy(matrix: dict[str, Any]) -> Any:
    """Return the product, from running sums of all entries."""
    products = matrix["values"] * matrix["x"][matrix["columns"]]
    rows = np.repeat(np.arange(len(matrix["starts"]) - 1), np.diff(matrix["starts"]))
    return np.bincount(rows, products, len(matrix["starts"]) - 1)


def open_device(device: str) -> tuple[Any, tuple[Any, ...], Callable[[Any], Any]]:
    """Return the target, the queue that calls take, and what moves an array to the device."""
    if device == "c":
        return lp.ExecutableCTarget(), (), np.asarray
    if device == "cuda":
        import pycuda.autoprimaryctx
        from pycuda import gpuarray

        print(f"on {pycuda.autoprimaryctx.device.name()}\n")
        return lp.PyCudaTarget(), (), gpuarray.to_gpu
    import pyopencl as cl
    import pyopencl.array

    queue = cl.CommandQueue(cl.create_some_context(interactive=False))
    return lp.PyOpenCLTarget(), (queue,), lambda a: cl.array.to_device(queue, a)


def seconds_of(call: Callable[[], tuple[Any, Any]]) -> float:
    """Return the least time of some calls, each of which waits for its result."""
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        event, _ = call()
        wait = getattr(event, "wait", None) or getattr(event, "synchronize", None)
        if wait is not None:
            wait()
        times.append(time.perf_counter() - start)
    return min(times)


def show(times: Mapping[str, float]) -> None:
    """Print the time of each stage, and how much faster it is than the longest vector."""
    reference = times[f"vector({VECTOR_LENGTHS[0]})"]
    print(f"{'stage':22} {'time':>12} {'speed-up':>9}")
    for name, seconds in times.items():
        print(f"{name:22} {1e6 * seconds:9.1f} us {reference / seconds:8.2f}x")


def draw(times: Mapping[str, float], path: str) -> None:
    """Draw the speed-ups over vector lengths, and over numbers of workers; needs matplotlib."""
    from matplotlib.figure import Figure

    by_length = {str(length): times[f"vector({length})"] for length in VECTOR_LENGTHS}
    by_workers = {str(n): times[f"worker({n}) vector(32)"] for n in NUMBERS_OF_WORKERS[1:]}
    by_workers = {"1": times["vector(32)"], **by_workers}
    figure = Figure(figsize=(8, 3), layout="constrained")
    panels = {"vector length": by_length, "workers, of 32 lanes": by_workers}
    for axes, (title, found) in zip(figure.subplots(1, 2), panels.items(), strict=True):
        first = next(iter(found.values()))
        axes.bar(list(found), [first / seconds for seconds in found.values()])
        axes.set_xlabel(title)
        axes.set_ylabel("speed-up")
    figure.savefig(path)
    print(f"\ndrawn: {path}")


def main(arguments: list[str]) -> int:
    """Run and time all stages, and compare with numpy; return 1 where they differ."""
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=layout)
    parser.add_argument("--device", choices=("c", "opencl", "cuda"), default="c")
    parser.add_argument("--n", type=int, default=10_000)
    parser.add_argument("--explain", action="store_true", help="say what became of the loops")
    parser.add_argument("--plot", help="draw the speed-ups into this file")
    given = parser.parse_args(arguments)
    matrix = make_matrix(given.n)
    expected = multiply_in_numpy(matrix)
    target, queue, to_device = open_device(given.device)
    there = {name: to_device(array) for name, array in matrix.items()}
    times: dict[str, float] = {}
    worst = 0.0
    for name, knl in stages(target).items():
        if given.explain:
            print(f"-- {name}\n{lp.explain(knl)}\n")
        _, (y,) = knl(*queue, **there)
        found = y if isinstance(y, np.ndarray) else y.get()
        error = float(np.max(np.abs(found - expected)) / np.max(np.abs(expected)))
        worst = max(worst, error)
        if not error <= MAX_ERROR:
            print(f"{name}: the error is above the limit: {error:.1e}", file=sys.stderr)
            return 1

        def call(knl: lp.TranslationUnit = knl) -> Any:
            return knl(*queue, **there)

        times[name] = seconds_of(call)
    show(times)
    print(f"\nall stages: maximal error against numpy, relative: {worst:.1e}")
    if given.plot:
        draw(times, given.plot)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
