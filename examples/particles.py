"""
Particles sorted by cells
=========================

Sort particles by the cells that they are in, and count those of each cell, with ready kernels. An
elementwise kernel finds the cells, a radix sort orders the particles by them, a segmented scan
numbers the particles of each cell, and reductions find the fullest cell and the number of those
that are not empty. No loop is written, and no schedule.

    python examples/particles.py --device {c,opencl,cuda} [--n 1000000]
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any

import numpy as np

import kgen as lp
from kgen.algorithm import RadixSort
from kgen.elementwise import ElementwiseKernel
from kgen.reduction import ReductionKernel
from kgen.scan import GenericScanKernel

CELLS = 64
FIND_CELLS = ElementwiseKernel(
    "int cells, float *x, float *y, uint *cell",
    "cell[i] = (uint) (y[i]*cells) * cells + (uint) (x[i]*cells)",
)
SORT = RadixSort("uint *cell, float *x, float *y", "cell[i]", ["cell", "x", "y"])
NUMBER = GenericScanKernel(
    np.int32,
    arguments="uint *cell, int *number",
    input_expr="1",
    scan_expr="across_seg_boundary ? b : a+b",
    neutral="0",
    is_segment_start_expr="i == 0 || cell[i] != cell[i-1]",
    output_statement="number[i] = item;",
)
FULLEST = ReductionKernel(np.int32, "0", "max(a, b)", arguments="int *number")
NOT_EMPTY = ReductionKernel(np.int32, "0", "a+b", "number[i] == 1 ? 1 : 0", "int *number")


def kernels() -> dict[str, lp.TranslationUnit]:
    """Return the kernels for hosts and for CUDA."""
    host, cuda = lp.ExecutableCTarget(), lp.PyCudaTarget()
    return {
        "cells": FIND_CELLS.build(cuda),
        "sort": SORT.build(host, is_gpu=False),
        "move": SORT.build(cuda, bits=4),
        "number": NUMBER.build(cuda),
        "fullest": FULLEST.build(host, is_gpu=False),
    }


def open_device(device: str) -> Any:
    """Return what brings an array to the device."""
    if device == "c":
        return np.asarray
    if device == "cuda":
        import pycuda.autoprimaryctx
        from pycuda import gpuarray

        print(f"on {pycuda.autoprimaryctx.device.name()}\n")
        return gpuarray.to_gpu
    import pyopencl as cl
    import pyopencl.array

    queue = cl.CommandQueue(cl.create_some_context(interactive=False))
    return lambda a: pyopencl.array.to_device(queue, a)


def on_host(array: Any) -> Any:
    """Return an array as numpy's, wherever it is; wait for it."""
    return array.get() if hasattr(array, "get") else array


def count_in_numpy(x: Any, y: Any) -> Any:
    """Return the numbers of particles of all cells."""
    scale = np.float32(CELLS)
    cell = (y * scale).astype(np.uint32) * CELLS + (x * scale).astype(np.uint32)
    return np.bincount(cell, minlength=CELLS * CELLS)


def main(arguments: list[str]) -> int:
    """Sort and count, and compare with numpy's result; return 1 where it differs."""
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=layout)
    parser.add_argument("--device", choices=("c", "opencl", "cuda"), default="c")
    parser.add_argument("--n", type=int, default=1_000_000)
    given = parser.parse_args(arguments)
    to_device = open_device(given.device)
    x, y = np.random.default_rng(1).random((2, given.n), dtype=np.float32)
    on_device = to_device(x), to_device(y)
    cell, number = (to_device(np.zeros(given.n, dtype)) for dtype in (np.uint32, np.int32))
    bits = (CELLS * CELLS - 1).bit_length()
    for _ in range(2):  # code is generated in the first turn
        start = time.perf_counter()
        FIND_CELLS(CELLS, *on_device, cell)
        (cells, sorted_x, sorted_y), _ = SORT(cell, *on_device, key_bits=bits)
        NUMBER(cells, number)
        fullest, not_empty = int(on_host(FULLEST(number))), int(on_host(NOT_EMPTY(number)))
        seconds = time.perf_counter() - start
    print(f"{given.n} particles in {not_empty} cells, at most {fullest} in one: {seconds:.4f} s")
    expected = count_in_numpy(x, y)
    found = count_in_numpy(on_host(sorted_x), on_host(sorted_y))
    is_sorted = bool((np.diff(on_host(cells).astype(np.int64)) >= 0).all())
    is_right = fullest == expected.max() and not_empty == np.count_nonzero(expected)
    if not (is_sorted and is_right and np.array_equal(found, expected)):
        print(f"numpy finds {expected.max()} in one cell: the error is above zero", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
