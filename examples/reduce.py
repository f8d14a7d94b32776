"""
Sum at memory bandwidth
=======================

Add up many numbers as fast as memory delivers them.

Each work-item adds up numbers in strides of the whole grid, so that neighbours read neighbouring
numbers; the work-items of a group combine what they have in a tree, on CUDA between the lanes of
warps; a second launch combines the groups. All of that follows from the tags of three loops.

    python examples/reduce.py --device {c,opencl,cuda} [--n 10000000]
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any

import numpy as np

import kgen as lp

GROUPS, ITEMS = 1024, 256
OPERATIONS: dict[str, Any] = {"sum": np.sum, "max": np.max}
REPEATS = 10


def reduce_all(target: Any, operation: str = "sum") -> lp.TranslationUnit:
    """Return a kernel that combines all elements of an array."""
    knl = lp.make_kernel(
        "{ [i]: 0 <= i < n }",
        f"result = {operation}(i, a[i])",
        [
            lp.GlobalArg("a", np.float32, shape="n"),
            lp.GlobalArg("result", np.float32, shape=()),
            ...,
        ],
        assumptions="n >= 1",
        name=f"{operation}_all",
        target=target,
    )
    knl = lp.split_iname(knl, "i", ITEMS, inner_tag="l.0")
    return lp.split_iname(knl, "i_outer", GROUPS, inner_tag="g.0")


def kernels() -> dict[str, lp.TranslationUnit]:
    """Return the sum for each device."""
    return {
        "c": reduce_all(lp.ExecutableCTarget()),
        "opencl": reduce_all(lp.PyOpenCLTarget()),
        "cuda": reduce_all(lp.PyCudaTarget()),
    }


def open_device(device: str) -> tuple[Any, tuple[Any, ...], Any]:
    """Return the target, the queue that calls take, and what brings an array to the device."""
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
    return lp.PyOpenCLTarget(), (queue,), lambda a: pyopencl.array.to_device(queue, a)


def as_number(result: Any) -> float:
    """Return the only element of an array, wherever that is; wait for it."""
    return float(result.get() if hasattr(result, "get") else result)


def measure(knl: lp.TranslationUnit, queue: tuple[Any, ...], a: Any) -> tuple[float, float]:
    """Return the result, and the time of one call among several."""
    _, (result,) = knl(*queue, a=a)
    found = as_number(result)
    start = time.perf_counter()
    for _ in range(REPEATS):
        _, (result,) = knl(*queue, a=a)
    as_number(result)
    return found, (time.perf_counter() - start) / REPEATS


def main(arguments: list[str]) -> int:
    """Reduce, and compare with numpy's result; return 1 where it differs."""
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=layout)
    parser.add_argument("--device", choices=("c", "opencl", "cuda"), default="c")
    parser.add_argument("--n", type=int, default=10_000_000)
    given = parser.parse_args(arguments)
    a = np.random.default_rng(1).random(given.n, dtype=np.float32)
    target, queue, to_device = open_device(given.device)
    on_device = to_device(a)
    for operation, reference in OPERATIONS.items():
        found, seconds = measure(reduce_all(target, operation), queue, on_device)
        expected = float(reference(a.astype(np.float64)))
        error = abs(found - expected) / expected
        rate = a.nbytes / seconds / 1e9
        print(f"{operation} of {given.n} numbers: relative error {error:.1e}, {rate:.1f} GB/s")
        if error > 1e-3:
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
