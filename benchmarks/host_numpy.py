"""The cases of ``host.py`` in numpy: each a function of the inputs that returns the results."""

# mypy: ignore-errors

from __future__ import annotations

import numpy as np
from host_kernels import VELOCITIES


def csr(starts, columns, values, x, **_):
    return (np.add.reduceat(values * x[columns], starts[:-1]),)


def nbody(x, y, z, mass, **_):
    dx, dy, dz = (v[None, :] - v[:, None] for v in (x, y, z))
    r2 = dx * dx + dy * dy + dz * dz + np.float32(0.01)
    w = mass / (r2 * np.sqrt(r2))
    return [np.einsum("ij,ij->i", w, d) for d in (dx, dy, dz)]


def rk4(h, xs, ys, zs, **_):
    def slope(s):
        x, y, z = s
        return np.stack([10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z])

    state = np.stack([xs, ys, zs])
    for _step in range(10):
        k1 = slope(state)
        k2 = slope(state + h / 2 * k1)
        k3 = slope(state + h / 2 * k2)
        k4 = slope(state + h * k3)
        state = state + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return state


def star(c, u, n):
    """Add up the points of a star, *c* for each distance from its middle."""
    r = len(c) - 1
    out = c[0] * u[(slice(r, n + r),) * u.ndim]
    for axis in range(u.ndim):
        for distance in range(1, r + 1):
            for shift in (-distance, distance):
                window = [slice(r, n + r)] * u.ndim
                window[axis] = slice(r + shift, n + r + shift)
                out += c[distance] * u[tuple(window)]
    return (out,)


def lbm(omega, f, n, **_):
    g = np.stack(
        [f[q, 1 - y : 1 - y + n, 1 - x : 1 - x + n] for q, (x, y) in enumerate(VELOCITIES)]
    )
    rho = g.sum(axis=0)
    u, v = (sum(c[axis] * g[q] for q, c in enumerate(VELOCITIES)) / rho for axis in (0, 1))
    out = np.empty_like(g)
    for q, (x, y) in enumerate(VELOCITIES):
        c = 3 * (x * u + y * v)
        weight = (4 / 9, 1 / 9, 1 / 36)[abs(x) + abs(y)]
        equilibrium = weight * rho * (1 + c + 0.5 * c * c - 1.5 * (u * u + v * v))
        out[q] = g[q] + omega * (equilibrium - g[q])
    return (out,)


IN_NUMPY = {
    "axpy": lambda a, x, y, **_: (a * x + y,),
    "laplacian": lambda u, n, **_: star((-4, 1), u, n),
    "transpose": lambda a, **_: (a.T.copy(),),
    "matmul": lambda a, b, **_: (a @ b,),
    "csr": csr,
    "total": lambda a, **_: (np.array([a.sum()]),),
    "stencil7": lambda u, n, **_: star((-6, 1), u, n),
    "small_products": lambda d, u, **_: (np.matmul(d, u),),
    "nbody": nbody,
    "rk4": rk4,
    "stencil25": lambda c, u, n, **_: star(c, u, n),
    "lbm": lbm,
}
