"""
Stream compaction
=================

Pack the numbers that pass a test to the front of an array, in their order. Each finds its place by
counting those before it that pass: a scan, over all work-groups. It takes three launches: how many
there are in each group, how many before each group, and the places with the stores. All of that
follows from the tags of three loops and ``force_scan``.

    python examples/compact.py --device {c,opencl,cuda} [--n 10000000]
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any

import numpy as np

import kgen as lp

ITEMS, EACH = 128, 8
REPEATS = 10


def compact(target: Any) -> lp.TranslationUnit:
    """Return a kernel that packs the numbers above a threshold."""
    knl = lp.make_kernel(
        "{ [i, j]: 0 <= j <= i < n }",
        """
        for i
            <> end = sum(j, 1 if a[j] > threshold else 0)  {id=end}
            if a[i] > threshold
                packed[end - 1] = a[i]                     {id=pack, dep=end}
            end
            if i == n - 1
                count[0] = end                             {dep=end}
            end
        end
        """,
        [
            lp.GlobalArg("a, packed", np.float32, shape="n"),
            lp.GlobalArg("count", np.int32, shape=1),
            lp.ValueArg("threshold", np.float32),
            lp.ValueArg("n", np.int32),
        ],
        silenced_warnings=["write_race(pack)"],  # no two places are the same
        name="compact",
        target=target,
    )
    knl = lp.split_iname(knl, "i", ITEMS * EACH, outer_tag="g.0")
    knl = lp.split_iname(knl, "i_inner", EACH, outer_tag="l.0")
    return lp.realize_reduction(knl, force_scan=True)


def kernels() -> dict[str, lp.TranslationUnit]:
    """Return the kernel for each device."""
    return {
        "c": compact(lp.ExecutableCTarget()),
        "opencl": compact(lp.PyOpenCLTarget()),
        "cuda": compact(lp.PyCudaTarget()),
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


def on_host(array: Any) -> Any:
    """Return an array as numpy's, wherever it is; wait for it."""
    return array.get() if hasattr(array, "get") else array


def compact_in_numpy(a: Any, threshold: float) -> Any:
    """Return what is to be packed."""
    return a[a > np.float32(threshold)]


def main(arguments: list[str]) -> int:
    """Pack, and compare with numpy's result; return 1 where it differs."""
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=layout)
    parser.add_argument("--device", choices=("c", "opencl", "cuda"), default="c")
    parser.add_argument("--n", type=int, default=10_000_000)
    given = parser.parse_args(arguments)
    a = np.random.default_rng(1).random(given.n, dtype=np.float32)
    target, queue, to_device = open_device(given.device)
    knl = compact(target)
    data = {"a": to_device(a), "packed": to_device(np.zeros_like(a)), "threshold": 0.25}
    data["count"] = to_device(np.zeros(1, np.int32))
    knl(*queue, **data)
    found = on_host(data["packed"])[: int(on_host(data["count"])[0])]
    start = time.perf_counter()
    for _ in range(REPEATS):
        knl(*queue, **data)
    on_host(data["count"])
    seconds = (time.perf_counter() - start) / REPEATS
    expected = compact_in_numpy(a, 0.25)
    rate = (a.nbytes + expected.nbytes) / seconds / 1e9
    print(f"{len(found)} of {given.n} numbers packed, {rate:.1f} GB/s")
    if not np.array_equal(found, expected):
        print(f"numpy packs {len(expected)}: the error is above zero", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
