"""Multiply a sparse matrix by a vector: rows whose lengths are data, in compressed rows (CSR).

Two ways: a row for each work-item; or 32 work-items side by side along each row, which read
neighbouring entries and add their parts up in the end, on CUDA without memory.

    python examples/spmv.py --device {c,opencl,cuda} [--n 10000]
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

import numpy as np

import kgen as lp

LANES, ROWS = 32, 4
MAX_ERROR = 1e-12


def declare() -> list[Any]:
    """Return what both ways take; how many entries there are does not follow from the loops."""
    return [
        lp.GlobalArg("values", np.float64, shape="entries"),
        lp.GlobalArg("columns", np.int32, shape="entries"),
        lp.GlobalArg("x", np.float64, shape="width"),
        lp.GlobalArg("starts", np.int32, shape="n + 1"),
        lp.ValueArg("entries, width", np.int32),
        ...,
    ]


def row_per_item(target: Any) -> lp.TranslationUnit:
    """Return the product as it is defined, the rows spread over work-items."""
    knl = lp.make_kernel(
        ["{ [row]: 0 <= row < n }", "{ [k]: first <= k < last }"],
        """
        for row
            <> first = starts[row]
            <> last = starts[row + 1]
            y[row] = sum(k, values[k]*x[columns[k]])
        end
        """,
        declare(),
        name="row_per_item",
        target=target,
    )
    return lp.split_iname(knl, "row", LANES * ROWS, outer_tag="g.0", inner_tag="l.0")


def row_per_lanes(target: Any) -> lp.TranslationUnit:
    """Return the product with several work-items for each row, in strides along it."""
    at = f"first + {LANES}*k + lane"
    knl = lp.make_kernel(
        [
            "{ [row]: 0 <= row < n }",
            f"{{ [lane]: 0 <= lane < {LANES} }}",
            f"{{ [k]: 0 <= k and {at} < last }}",
        ],
        f"""
        for row
            <> first = starts[row]
            <> last = starts[row + 1]
            y[row] = sum(lane, sum(k, values[{at}]*x[columns[{at}]]))
        end
        """,
        declare(),
        name="row_per_lanes",
        target=target,
    )
    knl = lp.split_iname(knl, "row", ROWS, outer_tag="g.0", inner_tag="l.1")
    return knl if isinstance(target, lp.ExecutableCTarget) else lp.tag_inames(knl, "lane:l.0")


def kernels() -> dict[str, lp.TranslationUnit]:
    """Return the way that fits each device."""
    return {
        "c": row_per_item(lp.ExecutableCTarget()),
        "opencl": row_per_lanes(lp.PyOpenCLTarget()),
        "cuda": row_per_lanes(lp.PyCudaTarget()),
    }


def make_matrix(n: int) -> dict[str, Any]:
    """Return a matrix with rows of all lengths up to 99, and a vector."""
    random = np.random.default_rng(1)
    starts = np.zeros(n + 1, np.int32)
    starts[1:] = np.cumsum(random.integers(0, 100, n))
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


def open_device(device: str) -> tuple[Any, tuple[Any, ...]]:
    """Return the target, and the queue that calls take."""
    if device == "c":
        return lp.ExecutableCTarget(), ()
    if device == "cuda":
        import pycuda.autoinit

        print(f"on {pycuda.autoinit.device.name()}\n")
        return lp.PyCudaTarget(), ()
    import pyopencl as cl

    return lp.PyOpenCLTarget(), (cl.CommandQueue(cl.create_some_context(interactive=False)),)


def main(arguments: list[str]) -> int:
    """Multiply, and compare with numpy's product; return 1 where they differ."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", choices=("c", "opencl", "cuda"), default="c")
    parser.add_argument("--n", type=int, default=10_000)
    given = parser.parse_args(arguments)
    matrix = make_matrix(given.n)
    expected = multiply_in_numpy(matrix)
    target, queue = open_device(given.device)
    for way in (row_per_item, row_per_lanes):
        _, (y,) = way(target)(*queue, **matrix)
        error = float(np.max(np.abs(y - expected)) / np.max(np.abs(expected)))
        print(f"{way.__name__}: maximal error against numpy, relative: {error:.1e}")
        if error > MAX_ERROR:
            print("the error is above the limit", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
