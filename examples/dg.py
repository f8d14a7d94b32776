"""
Divergence by nested sums
=========================

Divergence of fluxes in the elements of a discontinuous Galerkin method.

Sums in sums: over the directions in space, over the reference directions, over the nodes of
an element. The small ones are unrolled; work-items are nodes, groups are some elements, whose
fluxes and the matrices of derivatives they keep in local memory.

    python examples/dg.py --device {c,opencl,cuda} [--n 5000]
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

import numpy as np

import kgen as lp

NODES, ELEMENTS = 20, 4
MAX_ERROR = 1e-12


def make_divergence(target: Any) -> lp.TranslationUnit:
    """Return the kernel as mathematics has it."""
    return lp.make_kernel(
        [
            f"{{ [e, i, j]: 0 <= e < elements and 0 <= i, j < {NODES} }}",
            "{ [r, x]: 0 <= r, x < 3 }",
        ],
        "div[e, i] = sum(x, sum(r, metric[e, x, r]*sum(j, D[r, i, j]*flux[x, e, j])))",
        [lp.GlobalArg("metric, D, flux", np.float64, shape=lp.auto), ...],
        name="divergence",
        target=target,
    )


def tune_for_device(knl: lp.TranslationUnit) -> lp.TranslationUnit:
    """Let each group do some elements, with what it reads several times in local memory."""
    knl = lp.split_iname(knl, "e", ELEMENTS, outer_tag="g.0", inner_tag="l.1")
    knl = lp.tag_inames(knl, "i:l.0, r:unr, x:unr")
    knl = lp.add_prefetch(knl, "flux", ["j", "x", "e_inner"])
    return lp.add_prefetch(knl, "D", ["i", "j", "r"])


def kernels() -> dict[str, lp.TranslationUnit]:
    """Return this example's kernel for every device."""
    return {
        "c": lp.tag_inames(make_divergence(lp.ExecutableCTarget()), "r:unr, x:unr"),
        "opencl": tune_for_device(make_divergence(lp.PyOpenCLTarget())),
        "cuda": tune_for_device(make_divergence(lp.PyCudaTarget())),
    }


def divergence_in_numpy(metric: Any, derivatives: Any, flux: Any) -> Any:
    """Return the divergence by one call."""
    return np.einsum("exr, rij, xej -> ei", metric, derivatives, flux, optimize=True)


def open_device(device: str) -> tuple[Any, tuple[Any, ...]]:
    """Return the target, and the queue that calls take."""
    if device == "c":
        return lp.ExecutableCTarget(), ()
    if device == "cuda":
        import pycuda.autoprimaryctx

        print(f"on {pycuda.autoprimaryctx.device.name()}\n")
        return lp.PyCudaTarget(), ()
    import pyopencl as cl

    return lp.PyOpenCLTarget(), (cl.CommandQueue(cl.create_some_context(interactive=False)),)


def main(arguments: list[str]) -> int:
    """Compute the divergence, and compare with numpy's; return 1 where they differ."""
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=layout)
    parser.add_argument("--device", choices=("c", "opencl", "cuda"), default="c")
    parser.add_argument("--n", type=int, default=5000)
    given = parser.parse_args(arguments)
    random = np.random.default_rng(1)
    metric, flux = random.random((given.n, 3, 3)), random.random((3, given.n, NODES))
    derivatives = random.random((3, NODES, NODES))
    _, queue = open_device(given.device)
    knl = kernels()[given.device]
    print(lp.generate_body(knl))
    _, (div,) = knl(*queue, metric=metric, D=derivatives, flux=flux)
    expected = divergence_in_numpy(metric, derivatives, flux)
    error = float(np.max(np.abs(div - expected)) / np.max(np.abs(expected)))
    print(f"{given.n} elements: maximal error against numpy, relative: {error:.1e}")
    if error > MAX_ERROR:
        print("the error is above the limit", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
