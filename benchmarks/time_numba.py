"""Run the cases of ``host.py`` in numba: a line ``CASE THREADS SECONDS`` gives seconds a call.

``CASE FILE`` stores the results of a case.
"""

# mypy: ignore-errors

from __future__ import annotations

import sys
import time

import numba
import numpy as np
from host_inputs import INPUTS, OUTPUTS
from numba import prange

jit = numba.njit(parallel=True, fastmath=True)


@jit
def axpy(a, x, y, out, n):
    for i in prange(n):
        out[i] = a * x[i] + y[i]


@jit
def laplacian(u, out, n):
    for i in prange(n):
        for j in range(n):
            out[i, j] = (
                u[i, j + 1] + u[i + 2, j + 1] + u[i + 1, j] + u[i + 1, j + 2] - 4 * u[i + 1, j + 1]
            )


@jit
def transpose(a, out, n):
    for tile in prange(n // 32):
        for j0 in range(0, n, 32):
            for i in range(32 * tile, 32 * tile + 32):
                for j in range(j0, j0 + 32):
                    out[i, j] = a[j, i]


@jit
def matmul(a, b, out, n):
    for i in prange(n):
        for j in range(n):
            out[i, j] = 0
        for k in range(n):
            for j in range(n):
                out[i, j] += a[i, k] * b[k, j]


@jit
def csr(starts, columns, values, x, out, n):
    for row in prange(n):
        total = 0.0
        for k in range(starts[row], starts[row + 1]):
            total += values[k] * x[columns[k]]
        out[row] = total


@jit
def total(a, out, n):
    result = 0.0
    for i in prange(n):
        result += a[i]
    out[0] = result


@jit
def stencil7(u, out, n):
    for i in prange(n):
        for j in range(n):
            for k in range(n):
                out[i, j, k] = (
                    u[i, j + 1, k + 1]
                    + u[i + 2, j + 1, k + 1]
                    + u[i + 1, j, k + 1]
                    + u[i + 1, j + 2, k + 1]
                    + u[i + 1, j + 1, k]
                    + u[i + 1, j + 1, k + 2]
                    - 6 * u[i + 1, j + 1, k + 1]
                )


@jit
def small_products(d, u, out, n):
    for e in prange(n):
        for i in range(10):
            for j in range(10):
                value = np.float32(0)
                for k in range(10):
                    value += d[i, k] * u[e, k, j]
                out[e, i, j] = value


@jit
def nbody(x, y, z, mass, ax, ay, az, n):
    for i in prange(n):
        sx = sy = sz = np.float32(0)
        for j in range(n):
            dx, dy, dz = x[j] - x[i], y[j] - y[i], z[j] - z[i]
            r2 = dx * dx + dy * dy + dz * dz + np.float32(0.01)
            w = mass[j] / (r2 * np.sqrt(r2))
            sx += w * dx
            sy += w * dy
            sz += w * dz
        ax[i], ay[i], az[i] = sx, sy, sz


@numba.njit(fastmath=True, inline="always")
def slope(x, y, z):
    return 10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z


@jit
def rk4(h, xs, ys, zs, ox, oy, oz, n):
    for i in prange(n):
        x, y, z = xs[i], ys[i], zs[i]
        for _ in range(10):
            a0, a1, a2 = slope(x, y, z)
            b0, b1, b2 = slope(x + h / 2 * a0, y + h / 2 * a1, z + h / 2 * a2)
            c0, c1, c2 = slope(x + h / 2 * b0, y + h / 2 * b1, z + h / 2 * b2)
            d0, d1, d2 = slope(x + h * c0, y + h * c1, z + h * c2)
            x += h / 6 * (a0 + 2 * b0 + 2 * c0 + d0)
            y += h / 6 * (a1 + 2 * b1 + 2 * c1 + d1)
            z += h / 6 * (a2 + 2 * b2 + 2 * c2 + d2)
        ox[i], oy[i], oz[i] = x, y, z


@jit
def stencil25(c, u, out, n):
    for i in prange(n):
        for j in range(n):
            for k in range(n):
                value = c[0] * u[i + 4, j + 4, k + 4]
                for r in range(1, 5):
                    value += c[r] * (
                        u[i + 4 - r, j + 4, k + 4]
                        + u[i + 4 + r, j + 4, k + 4]
                        + u[i + 4, j + 4 - r, k + 4]
                        + u[i + 4, j + 4 + r, k + 4]
                        + u[i + 4, j + 4, k + 4 - r]
                        + u[i + 4, j + 4, k + 4 + r]
                    )
                out[i, j, k] = value


@numba.njit(fastmath=True, inline="always")
def relaxed(omega, g, weight, rho, cu, uu):
    return g + omega * (weight * rho * (1 + 3 * cu + 4.5 * cu * cu - 1.5 * uu) - g)


@jit
def lbm(omega, f, out, n):
    for i in prange(n):
        for j in range(n):
            g0, g1, g2 = f[0, i + 1, j + 1], f[1, i + 1, j], f[2, i, j + 1]
            g3, g4, g5 = f[3, i + 1, j + 2], f[4, i + 2, j + 1], f[5, i, j]
            g6, g7, g8 = f[6, i, j + 2], f[7, i + 2, j + 2], f[8, i + 2, j]
            rho = g0 + g1 + g2 + g3 + g4 + g5 + g6 + g7 + g8
            u = (g1 - g3 + g5 - g6 - g7 + g8) / rho
            v = (g2 - g4 + g5 + g6 - g7 - g8) / rho
            uu = u * u + v * v
            out[0, i, j] = relaxed(omega, g0, 4 / 9, rho, 0.0, uu)
            out[1, i, j] = relaxed(omega, g1, 1 / 9, rho, u, uu)
            out[2, i, j] = relaxed(omega, g2, 1 / 9, rho, v, uu)
            out[3, i, j] = relaxed(omega, g3, 1 / 9, rho, -u, uu)
            out[4, i, j] = relaxed(omega, g4, 1 / 9, rho, -v, uu)
            out[5, i, j] = relaxed(omega, g5, 1 / 36, rho, u + v, uu)
            out[6, i, j] = relaxed(omega, g6, 1 / 36, rho, v - u, uu)
            out[7, i, j] = relaxed(omega, g7, 1 / 36, rho, -u - v, uu)
            out[8, i, j] = relaxed(omega, g8, 1 / 36, rho, u - v, uu)


def main() -> None:
    name, arrays = "", {}
    for line in sys.stdin:
        case, *words = line.split()
        if case != name:
            name, arrays = case, INPUTS[case]()
            globals()[case](*arrays.values())
        if len(words) == 1:
            np.savez(words[0], **{key: arrays[key] for key in OUTPUTS if key in arrays})
            print(0.0, flush=True)
            continue
        numba.set_num_threads(int(words[0]))
        least, end, now = float("inf"), time.perf_counter() + float(words[1]), 0.0
        while now < end:
            start = time.perf_counter()
            globals()[case](*arrays.values())
            now = time.perf_counter()
            least = min(least, now - start)
        print(least, flush=True)


if __name__ == "__main__":
    main()
