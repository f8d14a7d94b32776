"""
Finite elements
===============

Poisson's equation by linear finite elements on triangles. Threads or work-items each do some of
these; where two add to the same entry of the matrix, the additions are atomic. The conjugate
gradients need three kernels more, one with loops whose bounds are data, and a ready sum.

    python examples/fem.py --device {c,opencl,cuda} [--n 100] [--picture fem.png]
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from harness import Device, check, distance, draw, open_device, parse

import kgen as lp
from kgen.reduction import ReductionKernel

LARGEST, MAX_ERROR = 0.0736713532815, 0.5  # from a Fourier series; h**2, the order of elements
MAX_DIFFERENCE = 1e-13  # between matrices: atomic additions are in any order
DOT = ReductionKernel(np.float64, "0", "a+b", "x[i]*y[i]", "double *x, double *y")
ROWS = "[i]: 0 <= i < rows"
ASSEMBLE = """
    <> x[a] = points[corners[i, (a + 2) % 3], 0] - points[corners[i, (a + 1) % 3], 0]
    <> y[b] = points[corners[i, (b + 2) % 3], 1] - points[corners[i, (b + 1) % 3], 1]
    <> area = (x[0]*y[1] - x[1]*y[0])/2
    values[places[i, c, d]] += (x[c]*x[d] + y[c]*y[d])/(4*area)     {atomic}
    load[corners[i, f]] += area/3*inside[corners[i, f]]             {atomic}
"""
MULTIPLY = """
    <> first = starts[i]
    <> last = starts[i + 1]
    q[i] = inside[i]*sum(k, values[k]*p[columns[k]])
"""
KERNELS = {  # loops and text
    "assemble": (["[i, a, b, c, d, f]: 0 <= i < n and 0 <= a, b, c, d, f < 3"], ASSEMBLE),
    "multiply": ([ROWS, "[k]: first <= k < last"], MULTIPLY),
    "advance": ([ROWS], "u[i] = u[i] + alpha*p[i]\nr[i] = r[i] - alpha*q[i]"),
    "turn": ([ROWS], "p[i] = r[i] + beta*p[i]"),
}
SHAPES = {"points": "rows, 2", "corners": "n, 3", "places": "n, 3, 3", "starts": "rows + 1"}
SHAPES |= {"values": "entries", "columns": "entries", "p": "rows", "load": "rows"}


def on_device(name: str, device: Device) -> Callable[..., Any]:
    sets, code = KERNELS[name]
    arrays = [lp.GlobalArg(a, shape=shape) for a, shape in SHAPES.items() if f"{a}[" in code]
    knl = lp.make_kernel(
        [f"{{ {each} }}" for each in sets], code, [*arrays, ...], name=name, target=device.target
    )
    knl = lp.tag_inames(knl, "a:unr, b:unr, c:unr, d:unr, f:unr", ignore_nonexistent=True)
    length, tag = (1024, None) if device.is_host else (128, "l.0")
    knl = lp.split_iname(knl, "i", length, outer_tag="g.0", inner_tag=tag)
    return lambda **given: device.run(knl, **given)


def assemble_in_numpy(points: Any, corners: Any, places: Any) -> Any:
    """Add up the matrices of all triangles."""
    sides = np.roll(points[corners], 1, 1) - np.roll(points[corners], -1, 1)
    area = abs(np.linalg.det(sides[:, :2])) / 2
    local = sides @ sides.transpose(0, 2, 1) / (4 * area[:, None, None])
    return np.bincount(places.ravel(), local.ravel())


def solve(do: dict[str, Callable[..., Any]], load: Any, **matrix: Any) -> Any:
    """Solve by conjugate gradients."""
    u, r, p = 0 * load, load.copy(), load.copy()
    first = now = do["dot"](r, r)
    while now > 1e-20 * first:
        q = do["multiply"](p=p, **matrix)
        do["advance"](u=u, r=r, p=p, q=q, alpha=now / do["dot"](p, q))
        before, now = now, do["dot"](r, r)
        do["turn"](p=p, r=r, beta=now / before)
    return u


def make_mesh(n: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return triangles with vertices moved at random, and the rows of their matrix."""
    j, i = np.mgrid[: n + 1, : n + 1]
    inside = ((i % n > 0) & (j % n > 0)).ravel()
    moved = np.random.default_rng(1).uniform(-0.25, 0.25, (len(inside), 2)) * inside[:, None]
    points = (np.stack([i.ravel(), j.ravel()], 1) + moved) / n
    corner = (i + (n + 1) * j)[:-1, :-1].reshape(-1, 1)
    corners = np.concatenate([corner + np.array(t) for t in ((0, 1, n + 2), (0, n + 2, n + 1))])
    pairs = corners[:, :, None] * len(points) + corners[:, None]
    entries, places = np.unique(pairs, return_inverse=True)
    starts = np.searchsorted(entries, np.arange(len(points) + 1) * len(points))
    triangles = {"points": points, "corners": corners, "places": places.reshape(pairs.shape)}
    return triangles, {"columns": entries % len(points), "starts": starts, "inside": inside}


def main(arguments: list[str]) -> None:
    """Assemble, compare the matrix with numpy's, and solve."""
    given = parse(__doc__, arguments, n=100)
    device = open_device(given.device)
    do = {name: on_device(name, device) for name in KERNELS}
    mesh, rows = make_mesh(given.n)
    do["dot"] = lambda x, y: float(device.on_host(DOT(x, y)))
    triangles, matrix = ({k: device.array(a) for k, a in part.items()} for part in (mesh, rows))
    values, load = (device.array(np.zeros(len(rows[k]))) for k in ("columns", "inside"))

    def assemble() -> None:
        do["assemble"](values=values, load=load, inside=matrix["inside"], **triangles)

    assemble()
    check("matrix", distance(device.on_host(values), assemble_in_numpy(**mesh)), MAX_DIFFERENCE)
    u = device.on_host(solve(do, load, values=values, **matrix))
    check("largest value, in h**2", abs(u.max() - LARGEST) * given.n**2, MAX_ERROR)
    device.compare("assembly", assemble, lambda: assemble_in_numpy(**mesh))
    draw(given.picture, lambda p: p.tripcolor(*mesh["points"].T, u, triangles=mesh["corners"]))


if __name__ == "__main__":
    main(sys.argv[1:])
