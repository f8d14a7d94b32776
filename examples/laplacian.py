"""
Laplacian, tiled and timed
==========================

From a PDE to code: evaluate Laplacian(u) + u**2 - 1 by finite differences.

The PDE is written with a node of our own, which a mapper of our own turns into array accesses; the
result becomes a kernel, which runs on the host's C compiler, an OpenCL or a CUDA device and is
checked against numpy.

    python examples/laplacian.py --device {c,opencl,cuda}
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymbolic.primitives as p
from pymbolic.mapper import IdentityMapper

import kgen as lp

N = 1000
TILE = 16
MAX_ERROR = 1e-5  # a few roundings of numbers up to 8 in float32


@p.expr_dataclass()
class Laplacian(p.ExpressionNode):
    """The Laplacian of a grid function."""

    child: p.ExpressionNode


class FiniteDifferences(IdentityMapper[[]]):
    """Replace a grid function by its value at (i+1, j+1), and its Laplacian by differences."""

    def __init__(self, i: p.ExpressionNode, j: p.ExpressionNode) -> None:
        super().__init__()
        self.i, self.j = i + 1, j + 1

    def map_variable(self, expr: p.Variable) -> p.ExpressionNode:
        return expr[self.i, self.j]

    def map_laplacian(self, expr: Laplacian) -> p.ExpressionNode:
        u, i, j = expr.child, self.i, self.j
        return -4 * u[i, j] + u[i + 1, j] + u[i - 1, j] + u[i, j + 1] + u[i, j - 1]


def make_laplacian(target: Any) -> lp.TranslationUnit:
    """Return the kernel as the PDE says it, with no decision yet on how it runs."""
    u, result, i, j = map(p.Variable, ("u", "result", "i", "j"))
    pde = Laplacian(u) + u**2 - 1
    knl = lp.make_kernel(
        "{[i,j]: 0<=i,j<n}",
        [lp.Assignment(result[i + 1, j + 1], FiniteDifferences(i, j)(pde))],
        name="laplacian",
        target=target,
    )
    return lp.add_dtypes(knl, {"u": np.float32})


def tile_for_device(knl: lp.TranslationUnit) -> lp.TranslationUnit:
    """Let each group of 16x16 work-items do one tile."""
    knl = lp.split_iname(knl, "i", TILE, outer_tag="g.1", inner_tag="l.1")
    return lp.split_iname(knl, "j", TILE, outer_tag="g.0", inner_tag="l.0")


def share_rows(knl: lp.TranslationUnit) -> lp.TranslationUnit:
    """Let each thread of the host do blocks of rows."""
    return lp.split_iname(knl, "i", TILE, outer_tag="g.0")


def kernels() -> dict[str, lp.TranslationUnit]:
    """Return this example's kernel for every device."""
    return {
        "c": share_rows(make_laplacian(lp.ExecutableCTarget())),
        "opencl": tile_for_device(make_laplacian(lp.PyOpenCLTarget())),
        "cuda": tile_for_device(make_laplacian(lp.PyCudaTarget())),
    }


def evaluate_in_numpy(u: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the expected result, in double precision."""
    u = u.astype(np.float64)
    centre = u[1:-1, 1:-1]
    neighbours = u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2]
    expected: np.ndarray[Any, Any] = -4 * centre + neighbours + centre**2 - 1
    return expected


@dataclass(frozen=True, kw_only=True)
class Setup:
    """What one device does: evaluate, copy as many bytes, wait, and bring a result back."""

    evaluate: Callable[[], Any]
    copy: Callable[[], Any]
    wait: Callable[[], Any]
    to_host: Callable[[Any], np.ndarray[Any, Any]]


def set_up_c(knl: lp.TranslationUnit, u: np.ndarray[Any, Any], n_bytes: int) -> Setup:
    source = np.ones(n_bytes // 8, np.float32)
    copied = np.empty_like(source)
    out = np.zeros((N + 1, N + 1), np.float32)
    copy = lp.make_kernel("{[i]: 0<=i<n}", "copied[i] = source[i]", target=knl.target)
    copy = lp.split_iname(copy, "i", N, outer_tag="g.0")  # on all threads, too
    return Setup(
        evaluate=lambda: knl(u=u, result=out)[1][0],
        copy=lambda: copy(source=source, copied=copied),
        wait=lambda: None,
        to_host=lambda result: result,
    )


def set_up_opencl(knl: lp.TranslationUnit, u: np.ndarray[Any, Any], n_bytes: int) -> Setup:
    import pyopencl as cl
    import pyopencl.array

    queue = cl.CommandQueue(cl.create_some_context(interactive=False))
    print(f"on {queue.device.name}, {queue.device.platform.name}\n")
    u_device = cl.array.to_device(queue, u)
    out = cl.array.zeros(queue, (N + 1, N + 1), np.float32)
    source, copied = (
        cl.Buffer(queue.context, cl.mem_flags.READ_WRITE, n_bytes // 2) for _ in range(2)
    )
    cl.enqueue_fill_buffer(queue, source, np.ones(1, np.uint8), 0, source.size)
    return Setup(
        evaluate=lambda: knl(queue, u=u_device, result=out)[1][0],
        copy=lambda: cl.enqueue_copy(queue, copied, source),
        wait=queue.finish,
        to_host=lambda result: result.get(),
    )


def set_up_cuda(knl: lp.TranslationUnit, u: np.ndarray[Any, Any], n_bytes: int) -> Setup:
    import pycuda.autoprimaryctx
    import pycuda.driver as cuda
    from pycuda import gpuarray

    print(f"on {pycuda.autoprimaryctx.device.name()}\n")
    u_device = gpuarray.to_gpu(u)
    out = gpuarray.zeros((N + 1, N + 1), np.float32)
    source = gpuarray.zeros(n_bytes // 2, np.uint8)
    copied = gpuarray.empty_like(source)
    return Setup(
        evaluate=lambda: knl(u=u_device, result=out)[1][0],
        copy=lambda: cuda.memcpy_dtod_async(copied.gpudata, source.gpudata, source.nbytes),
        wait=cuda.Context.synchronize,
        to_host=lambda result: result.get(),
    )


SET_UP = {"c": set_up_c, "opencl": set_up_opencl, "cuda": set_up_cuda}


def median_seconds(work: Callable[[], Any], wait: Callable[[], Any]) -> float:
    """Return the median time of one call, of several batches of calls after a warm-up."""
    n_batches, n_calls = 15, 10
    work()
    wait()
    batches = []
    for _ in range(n_batches):
        start = time.perf_counter()
        for _ in range(n_calls):
            work()
        wait()
        batches.append((time.perf_counter() - start) / n_calls)
    return statistics.median(batches)


def main() -> int:
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=layout)
    parser.add_argument("--device", choices=sorted(SET_UP), default="c")
    device = parser.parse_args().device

    knl = kernels()[device]
    print(knl)
    print(lp.generate_code_v2(knl))

    u = np.random.default_rng(7).random((N + 2, N + 2), dtype=np.float32)
    n_bytes = u.nbytes + N * N * u.itemsize  # each value of u read once, each result written
    setup = SET_UP[device](knl, u, n_bytes)

    result = setup.to_host(setup.evaluate())[1:, 1:]
    error = float(np.abs(result - evaluate_in_numpy(u)).max())
    print(f"maximal error against numpy: {error:.2e}")

    for name, work in (("kernel", setup.evaluate), ("copy of the same bytes", setup.copy)):
        seconds = median_seconds(work, setup.wait)
        print(f"{name:>22}: {1e-9 * n_bytes / seconds:7.2f} GB/s ({1e6 * seconds:.0f} us)")

    if not error <= MAX_ERROR:
        print(f"the error is above {MAX_ERROR:.0e}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
