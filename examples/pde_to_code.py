"""
From a PDE to code
==================

From a PDE to fast code, one decision at a time.

An operator of our own, the Laplacian, is put into a symbolic expression. A small mapper turns it
into finite differences, a kernel says for which grid points those are wanted, and transformations
say how they are computed: in plain loops, by one work-group per grid point, by groups of 16 by 16.
Each stage prints its code, runs, and is compared with numpy.

    python examples/pde_to_code.py --device {c,opencl,cuda} [--n 1000]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import pymbolic.primitives as p
from pymbolic.mapper import IdentityMapper

import kgen as lp

TILE = 16
MAX_ERROR = 1e-5  # a few roundings of numbers up to 8 in float32

Array: TypeAlias = np.ndarray[Any, Any]
#: Run a kernel on a grid function and return the result.
Run: TypeAlias = Callable[[lp.TranslationUnit, Array], Array]


# -- the mathematics -----------------------------------------------------------------------


@p.expr_dataclass()
class Laplacian(p.ExpressionNode):
    """The sum of the second derivatives; its mapper method is called ``map_laplacian``."""

    child: p.ExpressionNode


def make_pde(u: p.Variable) -> p.ExpressionNode:
    """Return what is to be evaluated, as one would write it on paper."""
    pde: p.ExpressionNode = Laplacian(u) + u**2 - 1
    return pde


class FiniteDifferences(IdentityMapper[[]]):
    """Replace grid functions by their values at one grid point, for a grid of spacing 1.

    The second derivative is ``f(x+1) - 2*f(x) + f(x-1)``, so that a Laplacian in two
    dimensions touches five points. The grid has a border one point wide, which is only read.
    """

    def __init__(self, i: p.Variable, j: p.Variable) -> None:
        super().__init__()
        self.point = (i + 1, j + 1)

    def map_variable(self, expr: p.Variable) -> p.ExpressionNode:
        return expr[self.point]

    def map_laplacian(self, expr: Laplacian) -> p.ExpressionNode:
        grid, (x, y) = expr.child, self.point
        return grid[x + 1, y] + grid[x - 1, y] + grid[x, y + 1] + grid[x, y - 1] - 4 * grid[x, y]


def evaluate_in_numpy(u: Array) -> Array:
    """Return what the kernel shall compute, without its first row and column."""
    inner = u[1:-1, 1:-1]
    laplacian = u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * inner
    result: Array = laplacian + inner**2 - 1
    return result


# -- the kernel, and how it runs --------------------------------------------------------------


def make_kernel(target: Any) -> lp.TranslationUnit:
    """Return the kernel: for which points, and what is computed there."""
    u, result, i, j = map(p.Variable, ("u", "result", "i", "j"))
    differences = FiniteDifferences(i, j)(make_pde(u))
    knl = lp.make_kernel(
        "{[i,j]: 0<=i,j<n}",
        [lp.Assignment(result[i + 1, j + 1], differences)],
        name="evaluate_pde",
        target=target,
    )
    return lp.add_dtypes(knl, {"u": np.float32})


def in_sequence(knl: lp.TranslationUnit) -> lp.TranslationUnit:
    """Leave two nested loops in one work-item: the kernel as it is."""
    return knl


def one_group_per_point(knl: lp.TranslationUnit) -> lp.TranslationUnit:
    """Leave no loop; but a work-group of one work-item keeps most of a device idle."""
    return lp.tag_inames(knl, {"i": "g.0", "j": "g.1"})


def in_blocks(knl: lp.TranslationUnit) -> lp.TranslationUnit:
    """Make groups of 16 by 16, neighbours along ``j`` in neighbouring work-items."""
    knl = lp.split_iname(knl, "i", TILE, outer_tag="g.1", inner_tag="l.1")
    return lp.split_iname(knl, "j", TILE, outer_tag="g.0", inner_tag="l.0")


STAGES = (in_sequence, one_group_per_point, in_blocks)


def kernels() -> dict[str, lp.TranslationUnit]:
    """Return the kernel of every stage, for OpenCL."""
    knl = make_kernel(lp.PyOpenCLTarget())
    return {stage.__name__: stage(knl) for stage in STAGES}


# -- devices -----------------------------------------------------------------------------------


def run_on_c() -> tuple[Any, Run]:
    """Return the target for the host's C compiler and what runs its kernels."""

    def run(knl: lp.TranslationUnit, u: Array) -> Array:
        _, (result,) = knl(u=u)
        return np.asarray(result)

    return lp.ExecutableCTarget(), run


def run_on_opencl() -> tuple[Any, Run]:
    """Return the target for the first OpenCL device and what runs its kernels."""
    import pyopencl as cl
    import pyopencl.array

    queue = cl.CommandQueue(cl.create_some_context(interactive=False))
    print(f"on {queue.device.name}, {queue.device.platform.name}\n")

    def run(knl: lp.TranslationUnit, u: Array) -> Array:
        _, (result,) = knl(queue, u=cl.array.to_device(queue, u))
        return np.asarray(result.get())

    return lp.PyOpenCLTarget(), run


def run_on_cuda() -> tuple[Any, Run]:
    """Return the target for the first CUDA device and what runs its kernels."""
    import pycuda.autoprimaryctx
    from pycuda import gpuarray

    print(f"on {pycuda.autoprimaryctx.device.name()}\n")

    def run(knl: lp.TranslationUnit, u: Array) -> Array:
        _, (result,) = knl(u=gpuarray.to_gpu(u))
        return np.asarray(result.get())

    return lp.PyCudaTarget(), run


DEVICES = {"c": run_on_c, "opencl": run_on_opencl, "cuda": run_on_cuda}


def main(arguments: list[str] | None = None) -> int:
    """Show and check all stages; return 0 when each of them agrees with numpy."""
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=layout)
    parser.add_argument("--device", choices=sorted(DEVICES), default="c")
    parser.add_argument("--n", type=int, default=1000, help="points along each side")
    options = parser.parse_args(arguments)

    target, run = DEVICES[options.device]()
    knl = make_kernel(target)
    print(f"{make_pde(p.Variable('u'))!r}\n\nbecomes\n\n{knl}")
    u = np.random.default_rng(3).random((options.n + 2, options.n + 2), dtype=np.float32)
    wanted = evaluate_in_numpy(u)

    worst = 0.0
    for stage in STAGES:
        transformed = stage(knl)
        error = float(np.abs(run(transformed, u)[1:, 1:] - wanted).max())
        print(f"\n{stage.__name__}:\n\n{lp.generate_code_v2(transformed)}")
        print(f"\nmaximal error against numpy: {error:.1e}")
        worst = max(worst, error)
    if not worst <= MAX_ERROR:
        print(f"the error is above {MAX_ERROR:.0e}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
