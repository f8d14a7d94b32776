"""
Heat and waves
==============

The heat equation and the wave equation in two and three dimensions, by explicit finite
differences. One function writes all four kernels. On the host, each thread does slabs of the grid,
whose rows the compiler turns into vector code. On a GPU, each work-item walks along a line.

    python examples/heat_wave.py --device {c,opencl,cuda} [--n 512] [--picture heat_wave.png]
"""

from __future__ import annotations

import itertools
import sys
from typing import Any

import numpy as np
from harness import Device, alternate, check, distance, draw, open_device, parse

import kgen as lp

# The wave equation needs the last two states; its next one takes the place of the older.
UPDATES = {
    "heat": "next[{at}] = u[{at}] + rate*({laplacian})",
    "wave": "next[{at}] = 2*u[{at}] - next[{at}] + rate*({laplacian})",
}
RATE = {2: 0.24, 3: 0.16}  # stable: at most 1/(2d) for the heat equation, 1/d for waves
MAX_ERROR = 1e-12  # some roundings in each of 100 stable steps: they add up, and do not grow


def make_step(target: Any, equation: str, dimensions: int) -> lp.TranslationUnit:
    """Return a step as a textbook has it; values on the boundary stay as they are."""
    inames = "ijk"[:dimensions]
    at = ", ".join(inames)
    neighbours = [at.replace(x, x + step) for x in inames for step in ("-1", "+1")]
    laplacian = " + ".join(f"u[{there}]" for there in neighbours) + f" - {2 * dimensions}*u[{at}]"
    shape = ", ".join("n" * dimensions)
    return lp.make_kernel(
        f"{{ [{at}]: 1 <= {at} < n - 1 }}",
        UPDATES[equation].format(at=at, laplacian=laplacian),
        [lp.GlobalArg("next, u", shape=shape), lp.ValueArg("rate", np.float64), ...],
        name=f"{equation}_{dimensions}d",
        target=target,
    )


def schedule(knl: lp.TranslationUnit, device: Device, dimensions: int) -> lp.TranslationUnit:
    """Distribute the points over threads, or over work-groups and work-items."""
    if device.is_host:
        return lp.split_iname(knl, "i", 8, outer_tag="g.0")  # slabs of 8 rows or planes
    # neighbouring work-items do neighbouring points: they share accesses to memory
    knl = lp.split_iname(knl, "ijk"[dimensions - 1], 64, outer_tag="g.0", inner_tag="l.0")
    if dimensions == 3:
        knl = lp.split_iname(knl, "j", 4, outer_tag="g.1", inner_tag="l.1")
    return lp.split_iname(knl, "i", 16, outer_tag="g.2")  # a walk is a loop over 16 points


def start(n: int, dimensions: int) -> Any:
    """Return two narrow hills, with zeros on the boundary."""
    axes = np.meshgrid(*[np.linspace(0, 1, n)[1:-1]] * dimensions, indexing="ij")
    centres = np.array([[0.5, 0.35, 0.35], [0.5, 0.7, 0.7]])[:, -dimensions:]
    return np.pad(
        sum(np.exp(-300 * sum(map(np.square, map(np.subtract, axes, c)))) for c in centres), 1
    )


def step_in_numpy(equation: str, u: Any, other: Any, rate: float) -> None:
    """Do a step with slices."""
    inner = (slice(1, -1),) * u.ndim
    laplacian = -2 * u.ndim * u[inner]
    for axis, part in itertools.product(range(u.ndim), (slice(None, -2), slice(2, None))):
        laplacian += u[(*inner[:axis], part, *inner[axis + 1 :])]
    before = u[inner] if equation == "heat" else 2 * u[inner] - other[inner]
    other[inner] = before + rate * laplacian


def solve(device: Device, equation: str, n: int, dimensions: int, steps: int) -> Any:
    """Solve one equation, compare with numpy, and return the last state."""
    what, rate, hills = f"{equation}, {dimensions}-D", RATE[dimensions], start(n, dimensions)
    knl = schedule(make_step(device.target, equation, dimensions), device, dimensions)

    def ours(u: Any, other: Any) -> None:
        device.run(knl, u=u, next=other, rate=rate)

    def numpys(u: Any, other: Any) -> None:
        step_in_numpy(equation, u, other, rate)

    found = device.on_host(alternate(ours, steps, device.array(hills), device.array(hills)))
    expected = alternate(numpys, steps, hills.copy(), hills.copy())
    check(what, distance(found, expected), MAX_ERROR)
    u, v = device.array(hills), device.array(hills)
    device.compare(
        what, lambda: alternate(ours, 5, u, v), lambda: alternate(numpys, 5, hills, hills)
    )
    return found


def paint(plt: Any, states: dict[str, Any]) -> None:
    """Draw all states."""
    for axes, (what, u) in zip(plt.subplots(2, 2)[1].flat, states.items(), strict=True):
        axes.imshow(u, cmap="RdBu_r", vmin=-abs(u).max(), vmax=abs(u).max())
        axes.set_title(what)
        axes.axis("off")


def main(arguments: list[str]) -> None:
    """Solve both equations in two and three dimensions."""
    given = parse(__doc__, arguments, n=384, steps=150)
    device = open_device(given.device)
    states = {}
    for equation, (dimensions, n) in itertools.product(UPDATES, ((2, given.n), (3, given.n // 4))):
        u = solve(device, equation, n, dimensions, given.steps)
        states[f"{equation}, {dimensions}-D"] = u if dimensions == 2 else u[n // 2]
    draw(given.picture, lambda plt: paint(plt, states))


if __name__ == "__main__":
    main(sys.argv[1:])
