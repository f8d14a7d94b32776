"""Time what a launch of a tiny kernel costs on the host: kgen, pycuda, CuPy and PyTorch on CUDA.

Prints microseconds a launch, the least of many batches, between which the device is waited for.
What is not installed is left out. With ``--steps`` also the time of a step of a loop over time, of
two launches: launched by the host, as a graph, and by a cooperative launch.

    python benchmarks/launch_cuda.py --steps 100
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import kgen as lp

SIZE = 256
N_CALLS, N_BATCHES = 200, 50
SOURCE = """
extern "C" __global__ void twice(float const *a, float *out, int n)
{
  int i = blockIdx.x*blockDim.x + threadIdx.x;
  if (i < n)
    out[i] = 2.0f*a[i];
}
"""
STEP = """
for t
  ... gbarrier {id=begin}
  v[i] = 0.5*(u[i] + u[(i + 1) % n])  {id=half, dep=*begin}
  ... gbarrier {id=middle, dep=half}
  u[j] = v[(j + 1) % n]               {dep=*middle}
end
"""


def microseconds(launch: Callable[[], Any], wait: Callable[[], Any], n_calls: int) -> float:
    """Return the least time of one call over batches of *n_calls*, after a warm-up."""
    launch()
    wait()
    least = float("inf")
    for _ in range(N_BATCHES):
        start = time.perf_counter()
        for _ in range(n_calls):
            launch()
        least = min(least, (time.perf_counter() - start) / n_calls)
        wait()
    return 1e6 * least


def twice() -> lp.TranslationUnit:
    args = [lp.GlobalArg("a, out", np.float32, shape="n"), ...]
    knl = lp.make_kernel("{ [i]: 0 <= i < n }", "out[i] = 2*a[i]", args, target=lp.PyCudaTarget())
    return lp.split_iname(knl, "i", 64, outer_tag="g.0", inner_tag="l.0")


def launches(drv: Any, gpuarray: Any) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield launches of pycuda and kgen, by what they are."""
    a, out = gpuarray.to_gpu(np.ones(SIZE, np.float32)), gpuarray.zeros(SIZE, np.float32)
    stream = drv.Stream()
    compiler = importlib.import_module("pycuda.compiler")
    function = compiler.SourceModule(SOURCE, no_extern_c=True).get_function("twice")
    function.prepare("PPi")
    grid, block, pointers = (SIZE // 64, 1, 1), (64, 1, 1), (a.gpudata, out.gpudata)
    yield (
        "pycuda, prepared_async_call",
        lambda: function.prepared_async_call(grid, block, stream, *pointers, SIZE),
    )
    executor = twice().executor()
    launcher = executor.bind(a=a, out=out)
    yield "kgen, launcher(stream)", lambda: launcher(stream)
    address = stream.handle
    yield "kgen, launcher(address)", lambda: launcher(address)
    yield "kgen, launcher(stream, event=True)", lambda: launcher(stream, event=True)
    graph = executor.capture(a=a, out=out)
    yield "kgen, graph(stream)", lambda: graph(stream)
    yield "kgen, executor(...)", lambda: executor(a=a, out=out, stream=stream)
    np.testing.assert_array_equal(out.get(), np.full(SIZE, 2))
    with contextlib.suppress(ImportError):
        yield from launches_of_cupy(importlib.import_module("cupy"), launcher)
    with contextlib.suppress(ImportError):
        yield from launches_of_torch(importlib.import_module("torch"), executor, launcher)


def launches_of_cupy(cupy: Any, launcher: Any) -> Iterator[tuple[str, Callable[[], Any]]]:
    a, out = cupy.ones(SIZE, np.float32), cupy.zeros(SIZE, np.float32)
    raw = cupy.RawKernel(SOURCE, "twice")
    arguments = (a, out, np.int32(SIZE))
    yield "CuPy, RawKernel", lambda: raw((SIZE // 64,), (64,), arguments)
    yield "CuPy, multiply(a, 2, out)", lambda: cupy.multiply(a, 2, out)
    stream = cupy.cuda.Stream(non_blocking=True)
    yield "kgen, launcher(CuPy's stream)", lambda: launcher(stream)


def launches_of_torch(
    torch: Any, executor: Any, launcher: Any
) -> Iterator[tuple[str, Callable[[], Any]]]:
    a, out = torch.ones(SIZE, device="cuda"), torch.zeros(SIZE, device="cuda")
    yield "PyTorch, mul(a, 2, out=out)", lambda: torch.mul(a, 2, out=out)
    stream = torch.cuda.Stream()
    yield "kgen, launcher(PyTorch's stream)", lambda: launcher(stream)
    yield (
        "kgen, executor(...) of PyTorch's arrays and stream",
        lambda: executor(a=a, out=out, stream=stream),
    )


def loops(gpuarray: Any, n_steps: int) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield a loop over time, launched in different ways."""
    n = 64 * 128
    args = [lp.GlobalArg("u, v", np.float32, shape="n"), ...]
    domain = "{ [t, i, j]: 0 <= t < steps and 0 <= i, j < n }"
    knl = lp.make_kernel(domain, STEP, args, target=lp.PyCudaTarget(), assumptions="n >= 1")
    for iname in ("i", "j"):
        knl = lp.split_iname(knl, iname, 128, outer_tag="g.0", inner_tag="l.0")
    start = np.arange(n, dtype=np.float32)
    results = []
    for is_cooperative in (False, True):
        executor = lp.set_options(knl, cooperative=is_cooperative).executor()
        u, v = gpuarray.to_gpu(start), gpuarray.to_gpu(start)
        executor(u=u, v=v, steps=3)
        results.append(u.get())
        given = {"u": u, "v": v, "steps": n_steps}
        kind = "cooperative" if is_cooperative else "two launches a step"
        launcher, graph = executor.bind(**given), executor.capture(**given)
        yield f"{kind}, launcher()", launcher
        yield f"{kind}, graph()", graph
    np.testing.assert_array_equal(*results)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--steps", type=int, default=0, help="the steps of the loop over time")
    n_steps = parser.parse_args().steps
    importlib.import_module("pycuda.autoprimaryctx")
    drv, gpuarray = map(importlib.import_module, ("pycuda.driver", "pycuda.gpuarray"))
    wait = drv.Context.synchronize
    print(f"{drv.Context.get_device().name()}, us a launch on the host")
    for name, launch in launches(drv, gpuarray):
        print(f"{name:52} {microseconds(launch, wait, N_CALLS):8.2f}")
    if n_steps:
        print(f"\nus a step, with the device, of {n_steps} steps")
        for name, launch in loops(gpuarray, n_steps):
            whole = microseconds(lambda run=launch: (run(), wait()), wait, 1)  # type: ignore[misc]
            print(f"{name:52} {whole / n_steps:8.2f}")


if __name__ == "__main__":
    main()
