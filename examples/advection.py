"""
Advection by discontinuous Galerkin
===================================

A hill that the wind carries over a periodic square: polynomials of degree 5 in each element, upwind
fluxes between elements, and a Runge-Kutta method in time. Derivatives are small sums over nodes,
which are unrolled. Nodes are lanes of vectors, or work-items that fetch an element together.

    python examples/advection.py --device {c,opencl,cuda} [--n 24] [--picture advection.png]
"""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

import numpy as np
from harness import Device, check, distance, draw, open_device, parse
from numpy.polynomial import legendre

import kgen as lp

NODES, WIND, END = 6, (1.0, 0.5), 0.2
# The factors of the stages, M. Carpenter and C. Kennedy, NASA TM 109112, 1994.
A = (0, -0.4178904745, -1.192151694643, -1.697784692471, -1.514183444257)
B = (0.1496590219993, 0.3792103129999, 0.8229550293869, 0.6994504559488, 0.1530572479681)
MAX_ERROR, MAX_DISTANCE = 1e-11, 60  # rounding in hundreds of stages; h**5: the polynomials


def make_stage(target: Any) -> lp.TranslationUnit:
    """Return a stage, with the wind blowing to the north-east: upwind is west and south."""
    return lp.make_kernel(
        f"{{ [f, e, y, x, k, l]: 0 <= f, e < n and 0 <= y, x, k, l < {NODES} }}",
        f"""
        for f, e, y, x
            <> west = u[f, e - 1 if e > 0 else n - 1, y, {NODES - 1}]
            <> south = u[f - 1 if f > 0 else n - 1, e, {NODES - 1}, x]
            <> u_x = sum(k, d[x, k]*u[f, e, y, k]) + lift[x]*(u[f, e, y, 0] - west)
            <> u_y = sum(l, d[y, l]*u[f, e, l, x]) + lift[y]*(u[f, e, 0, x] - south)
            <> slope = a*residual[f, e, y, x] - dt*({WIND[0]}*u_x + {WIND[1]}*u_y)
            residual[f, e, y, x] = slope
            new[f, e, y, x] = u[f, e, y, x] + b*slope
        end
        """,
        [lp.GlobalArg("u, new, residual", shape=f"n, n, {NODES}, {NODES}"), ...],
        name="stage",
        seq_dependencies=True,  # instructions run in the order of the text
        target=target,
    )


def schedule(knl: lp.TranslationUnit, device: Device) -> lp.TranslationUnit:
    """Unroll the sums; give each thread rows of elements, or each work-item a node."""
    knl = lp.tag_inames(knl, "k:unr, l:unr")
    if device.is_host:
        return lp.tag_inames(knl, "f:g.0, x:vec")
    knl = lp.tag_inames(knl, "f:g.1, y:l.1, x:l.0")
    knl = lp.split_iname(knl, "e", 2, outer_tag="g.0", inner_tag="l.2")
    return lp.add_prefetch(knl, "u[f, e, :, :]", "e_inner")


def stage_in_numpy(
    u: Any, new: Any, residual: Any, a: float, b: float, dt: float, **of: Any
) -> None:
    """Do a stage with whole arrays."""
    west, south = np.roll(u[..., -1], 1, 1), np.roll(u[:, :, -1], 1, 0)
    u_x = u @ of["d"].T + of["lift"] * (u[..., :1] - west[..., None])
    u_y = of["d"] @ u + of["lift"][:, None] * (u[:, :, :1] - south[:, :, None])
    residual *= a
    residual -= dt * (WIND[0] * u_x + WIND[1] * u_y)
    new[:] = u + b * residual


def element(n: int) -> tuple[Any, Any, Any]:
    """Return the nodes (Gauss and Lobatto) of an element, derivatives, and the lift of its face."""
    p = legendre.Legendre.basis(NODES - 1)
    x = np.array([-1, *p.deriv().roots(), 1])
    slopes = np.transpose([legendre.Legendre.basis(k).deriv()(x) for k in range(NODES)])
    lift = np.zeros(NODES)
    lift[0] = NODES * (NODES - 1) / 2  # one by the weight of the first node
    return x, 2 * n * slopes @ np.linalg.inv(legendre.legvander(x, NODES - 1)), 2 * n * lift


def main(arguments: list[str]) -> None:
    """Carry a hill, and compare with numpy and with the exact solution."""
    given = parse(__doc__, arguments, n=24)
    device = open_device(given.device)
    knl = schedule(make_stage(device.target), device)
    nodes, d, lift = element(given.n)
    at = (np.arange(given.n)[:, None] + (1 + nodes) / 2) / given.n
    y, x = at[:, None, :, None], at[None, :, None, :]

    def hill(time: float) -> Any:
        turns = np.cos(2 * np.pi * (x - WIND[0] * time)) + np.cos(2 * np.pi * (y - WIND[1] * time))
        return np.exp(4 * turns - 8)

    steps = int(np.ceil(END * given.n * NODES**2 / 2))
    numbers = [{"a": float(a), "b": b, "dt": END / steps} for a, b in zip(A, B, strict=True)]

    def solve(do: Any, array: Any, steps: int = steps) -> Any:
        u, new, residual = array(hill(0)), array(hill(0)), array(0 * hill(0))
        of = {"d": array(d), "lift": array(lift)}
        for factors in numbers * steps:
            do(u=u, new=new, residual=residual, **factors, **of)
            u, new = new, u
        return u

    ours, numpys = (partial(device.run, knl), device.array), (stage_in_numpy, np.array)
    u = device.on_host(solve(*ours))
    check("beside numpy", distance(u, solve(*numpys)), MAX_ERROR)
    check("exact solution, in h**5", distance(u, hill(END)) * given.n**5, MAX_DISTANCE)
    device.compare("2 steps", lambda: solve(*ours, 2), lambda: solve(*numpys, 2))
    image, at = u.transpose(0, 2, 1, 3).reshape(at.size, at.size), at.ravel()
    draw(given.picture, lambda plt: plt.pcolormesh(at, at, image))


if __name__ == "__main__":
    main(sys.argv[1:])
