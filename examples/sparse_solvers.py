"""
Sparse solvers
==============

Convection and diffusion, a matrix that is not symmetric, by BiCGSTAB with and without Jacobi's
preconditioner. Rows are loops whose lengths are data; all vector operations between two products
are fused to one kernel; scalars are ready sums (`ReductionKernel`).

    python examples/sparse_solvers.py --device {c,opencl,cuda} [--n 100] [--picture residuals.png]
"""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

import numpy as np
from harness import Device, check, distance, draw, open_device, parse

import kgen as lp
from kgen.reduction import ReductionKernel

REDUCTION, MAX_ERROR = 1e-10, 1e-6  # of the residual; of the solution, by the matrix's condition
DOT = ReductionKernel(np.float64, "0", "a+b", "x[i]*y[i]", "double *x, double *y")

KERNELS = {
    "product": """
        <> first = starts[i]
        <> last = starts[i + 1]
        y[i] = sum(k, values[k]*x[columns[k]])
    """,
    "turn": "p[i] = r[i] + beta*(p[i] - omega*v[i])\nz[i] = weight[i]*p[i]",
    "half": "r[i] = r[i] - alpha*v[i]\nw[i] = weight[i]*r[i]",
    "step": "x[i] = x[i] + alpha*z[i] + omega*w[i]\nr[i] = r[i] - omega*t[i]",
}


def on_device(name: str, device: Device) -> Any:
    """Return the function that calls a kernel."""
    loops, data = ["{ [i]: 0 <= i < n }"], []
    if name == "product":
        loops += ["{ [k]: first <= k < last }"]
        data = [lp.GlobalArg("values, columns", shape="entries"), lp.GlobalArg("x", shape="n")]
    make = partial(lp.make_kernel, seq_dependencies=True, target=device.target)
    knl = make(loops, KERNELS[name], [*data, ...], name=name)
    length, tag = (1024, None) if device.is_host else (128, "l.0")
    return partial(device.run, lp.split_iname(knl, "i", length, outer_tag="g.0", inner_tag=tag))


def bicgstab(do: dict[str, Any], b: Any, weight: Any, **matrix: Any) -> tuple[Any, list[float]]:
    """Return the solution, and the residuals of all steps; H. van der Vorst, 1992."""
    dot, x, r, shadow = do["dot"], 0 * b, b.copy(), b.copy()
    p, v, z, w = (0 * b for _ in range(4))
    rho, alpha, omega, residuals = 1.0, 1.0, 1.0, [dot(r, r) ** 0.5]
    while residuals[-1] > REDUCTION * residuals[0]:
        before, rho = rho, dot(shadow, r)
        beta = rho / before * alpha / omega
        do["turn"](p=p, r=r, v=v, z=z, weight=weight, beta=beta, omega=omega)
        do["product"](x=z, y=v, **matrix)
        alpha = rho / dot(shadow, v)
        do["half"](r=r, v=v, w=w, weight=weight, alpha=alpha)
        t = do["product"](x=w, **matrix)
        omega = dot(t, r) / dot(t, t)
        do["step"](x=x, r=r, z=z, w=w, t=t, alpha=alpha, omega=omega)
        residuals.append(dot(r, r) ** 0.5)
    return x, residuals


def product_in_numpy(x: Any, starts: Any, columns: Any, values: Any) -> Any:
    return np.add.reduceat(values * x[columns], starts[:-1])


def bicgstab_in_numpy(b: Any, weight: Any, **matrix: Any) -> Any:
    x, r, p, v = 0 * b, b, 0 * b, 0 * b
    rho = alpha = omega = 1.0
    while np.linalg.norm(r) > REDUCTION * np.linalg.norm(b):
        before, rho = rho, b @ r
        p = r + rho / before * alpha / omega * (p - omega * v)
        v = product_in_numpy(weight * p, **matrix)
        alpha = rho / (b @ v)
        s = r - alpha * v
        t = product_in_numpy(weight * s, **matrix)
        omega = (t @ s) / (t @ t)
        x, r = x + weight * (alpha * p + omega * s), s - omega * t
    return x


def convection_diffusion(n: int) -> dict[str, Any]:
    """Return the matrix on a periodic grid: wind, and a diffusion that depends on the place."""
    i, j = np.indices((n, n))
    along = [np.sin(2 * np.pi * at / n) for at in (j, i)]
    values = [4.1 + 0 * i, *(sign * wind - 1 for wind in along for sign in (0.9, -0.9))]
    points = [(i, j), (i - 1, j), (i + 1, j), (i, j - 1), (i, j + 1)]
    columns = np.stack([(y % n) * n + x % n for y, x in points], -1)
    scale, starts = 10 ** (along[0] * along[1])[..., None], np.arange(0, columns.size + 1, 5)
    entries = (scale * np.stack(values, -1)).ravel()
    return {"starts": starts, "columns": columns.ravel(), "values": entries}


def main(arguments: list[str]) -> None:
    """Solve for a known solution, and compare with numpy."""
    given = parse(__doc__, arguments, n=100)
    device = open_device(given.device)
    do: dict[str, Any] = {name: on_device(name, device) for name in KERNELS}
    do["dot"] = lambda x, y: float(device.on_host(DOT(x, y)))
    matrix, exact = convection_diffusion(given.n), np.random.default_rng(1).random(given.n**2)
    b, diagonal = product_in_numpy(exact, **matrix), matrix["values"][::5]
    there, curves = {name: device.array(array) for name, array in matrix.items()}, {}
    for name, weight in (("plain", 1 + 0 * b), ("Jacobi", 1 / diagonal)):
        ours = partial(bicgstab, do, device.array(b), device.array(weight), **there)
        x, curves[name] = ours()
        check(name, distance(device.on_host(x), exact), MAX_ERROR)
        device.compare(name, ours, partial(bicgstab_in_numpy, b, weight, **matrix))
    draw(given.picture, lambda p: [p.semilogy(curves[k], label=k) for k in curves] + [p.legend()])


if __name__ == "__main__":
    main(sys.argv[1:])
