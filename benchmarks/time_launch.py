"""Time what one launch of a tiny kernel costs on the host, in this process; print a line of JSON.

Run by launch.py, by the interpreter of the environment that has the module. The figures are
microseconds a launch, the median of many batches; the device's work is waited for between batches,
outside the time.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib
import json
import statistics
import subprocess
import tempfile
import time
import warnings
from collections.abc import Callable
from itertools import cycle
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyopencl as cl
import pyopencl.array

SIZE = 16
MIN_BATCHES, MAX_BATCHES, SECONDS = 5, 100, 0.5
N_EXECUTORS = 21
OPENCL_SOURCE = """
__kernel void twice(__global float const *restrict a, __global float *restrict out, int const n)
{
  if (get_global_id(0) < n)
    out[get_global_id(0)] = 2.0f * a[get_global_id(0)];
}
"""
C_SOURCE = """
void twice(float const *restrict a, float *restrict out, int const n)
{
  for (int i = 0; i < n; ++i)
    out[i] = 2.0f * a[i];
}
"""


def microseconds(launch: Callable[[], Any], wait: Callable[[], Any], n_calls: int = 100) -> float:
    """Return the median time of one call over batches of *n_calls*, after a warm-up."""
    launch()
    wait()
    batches: list[float] = []
    while len(batches) < MIN_BATCHES or (
        len(batches) < MAX_BATCHES and sum(batches) * n_calls < SECONDS
    ):
        start = time.perf_counter()
        for _ in range(n_calls):
            launch()
        batches.append((time.perf_counter() - start) / n_calls)
        wait()
    return 1e6 * statistics.median(batches)


def make_kernel(lp: Any, target: Any) -> Any:
    return lp.make_kernel(
        "{[i]: 0<=i<n}",
        "out[i] = 2*a[i]",
        [lp.GlobalArg(name, np.float32, shape="n") for name in ("a", "out")] + ["..."],
        target=target,
        lang_version=(2018, 2),
    )


def check(results: list[Any]) -> None:
    """Raise AssertionError unless the launches did what they say: 2 * 1."""
    for result in results:
        values = result.get() if isinstance(result, cl.array.Array) else result
        np.testing.assert_array_equal(values, np.full(SIZE, 2, np.float32))


def alternate(launch: Callable[[Any, Any], Any], pairs: list[tuple[Any, Any]]) -> Callable[[], Any]:
    """Return a launch that takes the next of *pairs* each time."""
    following = cycle(pairs)
    return lambda: launch(*next(following))


def choose_queue() -> cl.CommandQueue:
    """Return a queue on PoCL, else on the first platform."""
    platforms = cl.get_platforms()
    pocl = [platform for platform in platforms if "Portable" in platform.name]
    device = (pocl or platforms)[0].get_devices()[0]
    return cl.CommandQueue(cl.Context([device]))


def time_new_executors(lp: Any, queue: cl.CommandQueue, **arguments: Any) -> float:
    """Return the median processor time to the end of the first call of an executor.

    Each program is made anew, of the same content as one that ran before. What the OpenCL
    implementation takes to build it is no part of the time.
    """
    building: list[float] = []
    build = cl.Program.build

    def timed_build(*args: Any, **kwargs: Any) -> Any:
        start = time.thread_time()
        try:
            return build(*args, **kwargs)
        finally:
            building.append(time.thread_time() - start)

    def make_program() -> Any:
        knl = make_kernel(lp, lp.PyOpenCLTarget())
        knl = lp.split_iname(knl, "i", SIZE, outer_tag="g.0", inner_tag="l.0")
        return lp.set_options(knl, no_numpy=True)

    times: list[float] = []
    with patch.object(cl.Program, "build", timed_build):
        for program in [make_program() for _ in range(N_EXECUTORS)]:
            building.clear()
            start = time.thread_time()
            program.executor(queue.context)(queue, **arguments)
            times.append(time.thread_time() - start - sum(building))
            queue.finish()
    return 1e6 * statistics.median(times[1:])


def time_opencl(lp: Any) -> dict[str, float]:
    queue = choose_queue()
    pairs = [
        (cl.array.zeros(queue, SIZE, np.float32) + 1, cl.array.zeros(queue, SIZE, np.float32))
        for _ in range(2)
    ]
    a, out = pairs[0]
    knl = make_kernel(lp, lp.PyOpenCLTarget())
    knl = lp.split_iname(knl, "i", SIZE, outer_tag="g.0", inner_tag="l.0")
    knl = lp.set_options(knl, no_numpy=True)
    bound = knl.executor(queue.context)

    anew = time_new_executors(lp, queue, a=a, out=out)
    raw = cl.Program(queue.context, OPENCL_SOURCE).build().twice
    n = np.int32(SIZE)

    def enqueue() -> None:
        cl.enqueue_nd_range_kernel(queue, raw, (SIZE,), (SIZE,))

    def set_and_enqueue() -> None:
        raw.set_args(a.base_data, out.base_data, n)
        enqueue()

    times = {
        "new executor, but for the build": anew,
        "raw set_args + enqueue": microseconds(set_and_enqueue, queue.finish),
        "raw enqueue": microseconds(enqueue, queue.finish),
        "executor": microseconds(lambda: bound(queue, a=a, out=out), queue.finish),
        "executor, arrays alternating": microseconds(
            alternate(lambda a, out: bound(queue, a=a, out=out), pairs), queue.finish
        ),
        "knl(queue, ...)": microseconds(lambda: knl(queue, a=a, out=out), queue.finish, n_calls=3),
    }
    check([out for _, out in pairs])
    return times


def load_raw_c() -> Callable[..., Any]:
    """Compile C_SOURCE and return its function."""
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder, "twice.c"), Path(folder, "twice.so")
        source.write_text(C_SOURCE)
        subprocess.run(
            ["cc", "-std=c99", "-O3", "-shared", "-fPIC", source, "-o", library], check=True
        )
        function = ctypes.CDLL(str(library)).twice
    function.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int]
    function.restype = None
    return function


def time_c(lp: Any) -> dict[str, float]:
    pairs = [(np.ones(SIZE, np.float32), np.zeros(SIZE, np.float32)) for _ in range(2)]
    a, out = pairs[0]
    knl = make_kernel(lp, lp.ExecutableCTarget())
    bound = knl.executor()
    raw, a_address, out_address = load_raw_c(), a.ctypes.data, out.ctypes.data

    def nothing() -> None:
        return

    times = {
        "raw ctypes call": microseconds(lambda: raw(a_address, out_address, SIZE), nothing),
        "executor": microseconds(lambda: bound(a=a, out=out), nothing),
        "executor, arrays alternating": microseconds(
            alternate(lambda a, out: bound(a=a, out=out), pairs), nothing
        ),
        "knl(...)": microseconds(lambda: knl(a=a, out=out), nothing, n_calls=3),
    }
    check([out for _, out in pairs])
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("module", choices=["kgen", "loopy"])
    module = parser.parse_args().module
    warnings.simplefilter("ignore")
    lp = importlib.import_module(module)
    print(json.dumps({"opencl": time_opencl(lp), "c": time_c(lp)}))


if __name__ == "__main__":
    main()
