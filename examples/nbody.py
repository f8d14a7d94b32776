"""
N-body simulation
=================

Two clusters of stars that meet, by leapfrog steps. On a GPU, each work-item has a body, and the
work-items of a group fetch a tile of the others together: a fetch is one line of the schedule.

    python examples/nbody.py --device {c,opencl,cuda} [--n 1000] [--picture nbody.png]
"""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

import numpy as np
from harness import check, distance, draw, open_device, parse

import kgen as lp

SOFTENING, DT, TILE = 1e-2, 2e-3, 128
MAX_ERROR = 1e-10  # of forces: sums of many roundings, in another order


def make_forces(target: Any) -> lp.TranslationUnit:
    """Return the kernel as physics has it, with no decision yet on how it runs."""
    return lp.make_kernel(
        "{ [i, j, a, b, c]: 0 <= i, j < n and 0 <= a, b, c < 3 }",
        f"""
        for i
            <> here[a] = x[i, a]               {{id=here}}
            <> total[b] = 0                    {{id=zero}}
            for j
                <> dx = x[j, 0] - here[0]      {{dep=here}}
                <> dy = x[j, 1] - here[1]      {{dep=here}}
                <> dz = x[j, 2] - here[2]      {{dep=here}}
                <> r2 = {SOFTENING} + dx**2 + dy**2 + dz**2
                <> w = mass[j]/(r2*sqrt(r2))
                total[0] = total[0] + w*dx     {{id=x, dep=zero}}
                total[1] = total[1] + w*dy     {{id=y, dep=zero}}
                total[2] = total[2] + w*dz     {{id=z, dep=zero}}
            end
            force[i, c] = total[c]             {{dep=x:y:z}}
        end
        """,
        [lp.GlobalArg("x, mass", np.float64, shape=lp.auto), ...],
        name="forces",
        target=target,
    )


def tile_for_device(knl: lp.TranslationUnit) -> lp.TranslationUnit:
    """Give each work-item a body, and let groups fetch the others tile by tile."""
    knl = lp.split_iname(knl, "i", TILE, outer_tag="g.0", inner_tag="l.0")
    knl = lp.split_iname(lp.tag_inames(knl, "a:unr, b:unr, c:unr"), "j", TILE)
    knl = lp.add_prefetch(knl, "x", ["j_inner"], within="iname:j_inner")
    return lp.add_prefetch(knl, "mass", ["j_inner"])


def make_move(target: Any) -> lp.TranslationUnit:
    """Return what a step does to positions and velocities."""
    code = f"v[i, c] = v[i, c] + {DT}*force[i, c]\nx[i, c] = x[i, c] + {DT}*v[i, c]"
    knl = lp.make_kernel("{ [i, c]: 0 <= i < n and 0 <= c < 3 }", code, name="move", target=target)
    return lp.split_iname(lp.tag_inames(knl, "c:unr"), "i", TILE, outer_tag="g.0", inner_tag="l.0")


def kernels() -> dict[str, lp.TranslationUnit]:
    """Return this example's kernel for every device."""
    return {
        "c": lp.split_iname(make_forces(lp.ExecutableCTarget()), "i", 64, outer_tag="g.0"),
        "opencl": tile_for_device(make_forces(lp.PyOpenCLTarget())),
        "cuda": tile_for_device(make_forces(lp.PyCudaTarget())),
    }


def forces_in_numpy(x: Any, mass: Any) -> Any:
    """Return the forces, a row of pairs after the other."""
    result = np.empty_like(x)
    for i, here in enumerate(x):
        d = x - here
        result[i] = (mass / (SOFTENING + (d**2).sum(1)) ** 1.5) @ d
    return result


def clusters(n: int) -> tuple[Any, Any]:
    """Return positions and velocities of two clusters that turn, and come near each other."""
    x = np.random.default_rng(1).normal(0, 0.2, (n, 3))
    v = np.cross(x, [0, 0, -1.5])
    side = np.where(np.arange(n) % 2, 1.0, -1.0)[:, None]
    return x + side * [0.7, 0.25, 0], v - side * [0.5, 0, 0]


def main(arguments: list[str]) -> None:
    """Compare the forces with numpy's, and let the clusters meet."""
    given = parse(__doc__, arguments, n=1000, steps=600)
    device = open_device(given.device)
    forces, move = kernels()[given.device], make_move(device.target)
    start, mass = clusters(given.n), np.full(given.n, 1 / given.n)
    x, v, m = (device.array(array) for array in (*start, mass))
    force = partial(device.run, forces, x=x, mass=m)
    numpys = partial(forces_in_numpy, start[0], mass)
    check("forces", distance(device.on_host(force()), numpys()), MAX_ERROR)
    device.compare("forces", force, numpys)
    for _ in range(given.steps):
        device.run(move, x=x, v=v, force=force())
    end, momentum = device.on_host(x), device.on_host(v).mean(0) - start[1].mean(0)
    check("momentum", abs(momentum).max(), MAX_ERROR)  # forces between pairs cancel

    def paint(plt: Any) -> None:
        _, panels = plt.subplots(1, 2, sharex=True, sharey=True, figsize=(9, 4))
        for axes, at in zip(panels, (start[0], end), strict=True):
            axes.scatter(*at[:, :2].T, s=2, c=np.arange(given.n) % 2, cmap="coolwarm")

    draw(given.picture, paint)


if __name__ == "__main__":
    main(sys.argv[1:])
