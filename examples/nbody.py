"""Compute the forces between all pairs of n bodies, a tile of bodies in local memory at a time.

Each work-item has a body, its position and its force in registers. The work-items of a group
fetch a tile of the other bodies together, wait, and go through it; a fetch is one line.

    python examples/nbody.py --device {c,opencl,cuda} [--n 2000]
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

import numpy as np

import kgen as lp

TILE = 128
SOFTENING = 1e-2
MAX_ERROR = 1e-10


def make_forces(target: Any) -> lp.TranslationUnit:
    """Return the kernel as physics has it, with no decision yet on how it runs."""
    return lp.make_kernel(
        "{ [i, j, a, b, c]: 0 <= i, j < n and 0 <= a, b, c < 3 }",
        """
        for i
            <> here[a] = x[i, a]               {id=here}
            <> total[b] = 0                    {id=zero}
            for j
                <> dx = x[j, 0] - here[0]      {dep=here}
                <> dy = x[j, 1] - here[1]      {dep=here}
                <> dz = x[j, 2] - here[2]      {dep=here}
                <> r2 = softening + dx**2 + dy**2 + dz**2
                <> w = mass[j]/(r2*sqrt(r2))
                total[0] = total[0] + w*dx     {id=x, dep=zero}
                total[1] = total[1] + w*dy     {id=y, dep=zero}
                total[2] = total[2] + w*dz     {id=z, dep=zero}
            end
            force[i, c] = total[c]             {dep=x:y:z}
        end
        """,
        [
            lp.GlobalArg("x", np.float64, shape="n, 3"),
            lp.GlobalArg("mass", np.float64, shape="n"),
            lp.ValueArg("softening", np.float64),
            ...,
        ],
        name="forces",
        target=target,
    )


def tile_for_device(knl: lp.TranslationUnit) -> lp.TranslationUnit:
    """Give each work-item a body, and let groups fetch the others tile by tile."""
    knl = lp.split_iname(knl, "i", TILE, outer_tag="g.0", inner_tag="l.0")
    knl = lp.split_iname(knl, "j", TILE)
    knl = lp.tag_inames(knl, "a:unr, b:unr, c:unr")
    knl = lp.add_prefetch(knl, "x", ["j_inner"], within="iname:j_inner")
    return lp.add_prefetch(knl, "mass", ["j_inner"])


def kernels() -> dict[str, lp.TranslationUnit]:
    """Return this example's kernel for every device."""
    return {
        "c": make_forces(lp.ExecutableCTarget()),
        "opencl": tile_for_device(make_forces(lp.PyOpenCLTarget())),
        "cuda": tile_for_device(make_forces(lp.PyCudaTarget())),
    }


def forces_in_numpy(x: Any, mass: Any) -> Any:
    """Return the forces, a row of pairs after the other."""
    result = np.empty_like(x)
    for i, here in enumerate(x):
        d = x - here
        r2 = SOFTENING + (d**2).sum(1)
        result[i] = (mass / (r2 * np.sqrt(r2))) @ d
    return result


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
    """Compute the forces, and compare with numpy's; return 1 where they differ."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", choices=("c", "opencl", "cuda"), default="c")
    parser.add_argument("--n", type=int, default=2000)
    given = parser.parse_args(arguments)
    random = np.random.default_rng(1)
    x, mass = random.random((given.n, 3)), random.random(given.n)
    target, queue = open_device(given.device)
    knl = make_forces(target) if given.device == "c" else tile_for_device(make_forces(target))
    print(lp.generate_body(knl))
    _, (force,) = knl(*queue, x=x, mass=mass, softening=SOFTENING)
    expected = forces_in_numpy(x, mass)
    error = float(np.max(np.abs(force - expected)) / np.max(np.abs(expected)))
    print(f"{given.n} bodies: maximal error against numpy, relative: {error:.1e}")
    if error > MAX_ERROR:
        print("the error is above the limit", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
