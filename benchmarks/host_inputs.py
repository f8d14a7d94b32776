"""The inputs of ``host.py``, which kgen, hand-written C, numba and numpy share.

Needs numpy only: the script for numba, in an environment of its own, makes the same arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Arrays = dict[str, Any]


def random(*shape: int, dtype: Any = np.float64) -> Any:
    """Return an array of numbers from 0 to 1, the same in every process."""
    return np.random.default_rng(len(shape)).random(shape, dtype=dtype)


def empty(*shape: int, dtype: Any = np.float64) -> Any:
    """Return an array whose pages are there: the first write to one costs more than a kernel."""
    return np.full(shape, np.nan, dtype)


def axpy(n: int = 10_000_000) -> Arrays:
    return {"a": 2.5, "x": random(n), "y": random(n) + 1, "out": empty(n), "n": n}


def laplacian(n: int = 3000) -> Arrays:
    return {"u": random(n + 2, n + 2), "out": empty(n, n), "n": n}


def transpose(n: int = 4096) -> Arrays:
    a = random(n, n, dtype=np.float32)
    return {"a": a, "out": empty(n, n, dtype=np.float32), "n": n}


def matmul(n: int = 1024) -> Arrays:
    a = random(n, n, dtype=np.float32)
    return {"a": a, "b": a[::-1].copy(), "out": empty(n, n, dtype=np.float32), "n": n}


def csr(n: int = 1_000_000) -> Arrays:
    """Return the matrix of five points on a periodic square."""
    side = round(n**0.5)
    rows = np.arange(n, dtype=np.int32).reshape(side, side)
    around = [np.roll(rows, shift, axis) for shift in (1, -1) for axis in (0, 1)]
    columns = np.sort(np.stack([rows, *around], axis=-1).reshape(-1, 5), axis=1)
    starts = np.arange(0, 5 * n + 1, 5, dtype=np.int32)
    return {
        "starts": starts,
        "columns": columns.ravel(),
        "values": random(5 * n),
        "x": random(n) + 1,
        "out": empty(n),
        "n": n,
    }


def total(n: int = 10_000_000) -> Arrays:
    return {"a": random(n), "out": empty(1), "n": n}


def stencil7(n: int = 200) -> Arrays:
    return {"u": random(n + 2, n + 2, n + 2), "out": empty(n, n, n), "n": n}


def small_products(n: int = 100_000) -> Arrays:
    d, u = random(10, 10, dtype=np.float32), random(n, 10, 10, dtype=np.float32)
    return {"d": d, "u": u, "out": empty(n, 10, 10, dtype=np.float32), "n": n}


def nbody(n: int = 4096) -> Arrays:
    x, y, z, mass = random(4, n, dtype=np.float32)
    outputs = {name: empty(n, dtype=np.float32) for name in ("ax", "ay", "az")}
    return {"x": x, "y": y, "z": z, "mass": mass, **outputs, "n": n}


def rk4(n: int = 1_000_000) -> Arrays:
    xs, ys, zs = random(3, n)
    outputs = {name: empty(n) for name in ("ox", "oy", "oz")}
    return {"h": 0.01, "xs": xs, "ys": ys, "zs": zs, **outputs, "n": n}


def stencil25(n: int = 200) -> Arrays:
    c = np.array([-3.0, 0.6, -0.1, 0.02, -0.003])
    return {"c": c, "u": random(n + 8, n + 8, n + 8), "out": empty(n, n, n), "n": n}


def lbm(n: int = 1000) -> Arrays:
    f = 1 + 0.1 * random(9, n + 2, n + 2)
    return {"omega": 1.7, "f": f, "out": empty(9, n, n), "n": n}


#: By name, in the order in which they are shown.
INPUTS: dict[str, Callable[[], Arrays]] = {
    make.__name__: make
    for make in (
        axpy,
        laplacian,
        transpose,
        matmul,
        csr,
        total,
        stencil7,
        small_products,
        nbody,
        rk4,
        stencil25,
        lbm,
    )
}

#: What a case computes into; the other arrays are read.
OUTPUTS = ("out", "ax", "ay", "az", "ox", "oy", "oz")
