"""
Lattice Boltzmann
=================

A flow around a cylinder, by the lattice Boltzmann method with nine velocities (D2Q9): in each step
particles stream to neighbouring points, and collide there. One kernel does both, and keeps the
nine populations of a point in registers. Its formulas are Python functions, which numpy evaluates
for arrays; called with symbols of pymbolic, they return the expressions of the kernel.

    python examples/lattice_boltzmann.py --device {c,opencl,cuda} [--n 100] [--picture flow.png]
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from harness import Device, alternate, check, distance, draw, open_device, parse
from pymbolic import var

import kgen as lp

VELOCITIES = [(x, y) for x in (0, 1, -1) for y in (0, 1, -1)]
X, Y = zip(*VELOCITIES, strict=True)
WEIGHTS = [4 / 9 / 4 ** (abs(x) + abs(y)) for x, y in VELOCITIES]
BACK = [VELOCITIES.index((-x, -y)) for x, y in VELOCITIES]
SPEED, REYNOLDS = 0.1, 120
MAX_ERROR = 1e-11  # rounding in 50 steps, in which nothing grows


def product(factors: Any, values: Any) -> Any:
    """Return a sum of products, of arrays or of symbols."""
    return sum(factor * value for factor, value in zip(factors, values, strict=True) if factor)


def equilibrium(rho: Any, u: Any, v: Any) -> list[Any]:
    """Return the populations at rest with the flow, as arrays or as expressions."""
    squares = 1.5 * (u**2 + v**2)
    weights = [4 / 9 / 4 ** (abs(x) + abs(y)) for x, y in VELOCITIES]
    along = [product(velocity, (u, v)) for velocity in VELOCITIES]
    return [
        w * rho * (1 + 3 * a + 4.5 * a**2 - squares) for w, a in zip(weights, along, strict=True)
    ]


def make_step(target: Any) -> lp.TranslationUnit:
    """Return a step; the points on the boundary keep the flow far away."""
    symbols = [var(f"f{q}") for q in range(9)]
    relaxed = equilibrium(*map(var, ("rho", "u", "v")))
    lines = [f"<> f{q} = old[{q}, i - {x}, j - {y}]" for q, (x, y) in enumerate(VELOCITIES)]
    lines += [f"<> rho = {product([1] * 9, symbols)}"]
    lines += [f"<> {name} = ({product(c, symbols)})/rho" for name, c in (("u", X), ("v", Y))]
    for q, back in enumerate(BACK):
        lines += [f"new[{q}, i, j] = f{back} if solid[i, j] else f{q} + rate*({relaxed[q]} - f{q})"]
    return lp.make_kernel(
        "{ [i, j]: 1 <= i < nx - 1 and 1 <= j < ny - 1 }",
        lines,
        [lp.GlobalArg("old, new", shape="9, nx, ny"), lp.GlobalArg("solid", shape="nx, ny"), ...],
        name="lattice_boltzmann",
        target=target,
    )


def schedule(knl: lp.TranslationUnit, device: Device) -> lp.TranslationUnit:
    """Give each thread rows, each work-item a point; rows are along *j*, as in memory."""
    if device.is_host:
        return lp.split_iname(knl, "i", 8, outer_tag="g.0")
    return lp.split_iname(lp.tag_inames(knl, "i:g.1"), "j", 128, outer_tag="g.0", inner_tag="l.0")


def step_in_numpy(old: Any, new: Any, solid: Any, rate: float) -> None:
    """Do a step with whole arrays."""
    f = [np.roll(old[q], velocity, (0, 1)) for q, velocity in enumerate(VELOCITIES)]
    rho = sum(f)
    relaxed = equilibrium(rho, product(X, f) / rho, product(Y, f) / rho)
    for q, back in enumerate(BACK):
        after = np.where(solid, f[back], f[q] + rate * (relaxed[q] - f[q]))
        new[q, 1:-1, 1:-1] = after[1:-1, 1:-1]


def main(arguments: list[str]) -> None:
    """Let the flow begin, compare with numpy, and go on until there are vortices."""
    given = parse(__doc__, arguments, n=100, steps=8000)
    device = open_device(given.device)
    knl = schedule(make_step(device.target), device)
    nx, ny, radius = 4 * given.n, given.n, given.n / 10
    x, y = np.mgrid[:nx, :ny]
    solid = (x - ny) ** 2 + (y - 0.51 * ny) ** 2 < radius**2
    rate = 1 / (0.5 + 3 * SPEED * 2 * radius / REYNOLDS)
    obstacle, first = device.array(solid), np.array(equilibrium(np.ones((nx, ny)), SPEED, 0))

    def ours(old: Any, new: Any) -> None:
        device.run(knl, old=old, new=new, solid=obstacle, rate=rate)

    def numpys(old: Any, new: Any) -> None:
        step_in_numpy(old, new, solid, rate)

    a, b = device.array(first), device.array(first)
    expected = alternate(numpys, 50, first.copy(), first.copy())
    found = device.on_host(alternate(ours, 50, a, b))
    check("50 steps", distance(found, expected), MAX_ERROR)
    device.compare("a step", lambda: ours(a, b), lambda: numpys(found, expected))
    f = device.on_host(alternate(ours, given.steps, a, b))

    def paint(plt: Any) -> None:
        u, v = product(X, f) / f.sum(0), product(Y, f) / f.sum(0)
        curl = np.where(solid, np.nan, np.gradient(v, axis=0) - np.gradient(u, axis=1))
        plt.figure(figsize=(10, 3))
        plt.imshow(curl.T, cmap="RdBu", vmin=-0.02, vmax=0.02)

    draw(given.picture, paint)


if __name__ == "__main__":
    main(sys.argv[1:])
