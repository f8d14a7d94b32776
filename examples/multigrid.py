"""
Multigrid for Poisson's equation
================================

V-cycles on a square: steps of Jacobi's method smooth the error on each grid, and a grid of half the
resolution corrects the rest. A cycle makes the error five times smaller on grids of any size. The
residual is a rule, which the kernel that restricts it computes on the way.

    python examples/multigrid.py --device {c,opencl,cuda} [--n 512] [--picture multigrid.png]
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from harness import Device, check, distance, draw, open_device, parse

import kgen as lp

CYCLES, SMOOTHING = 12, 2
MAX_ERROR = 1.0  # h**2: the differences are wrong by pi**2/12 h**2 for this solution
MAX_DIFFERENCE = 1e-12  # some roundings on each of ten grids

SMOOTH = """
    new[i, j] = u[i, j] + 0.2*(h*h*f[i, j] - 4*u[i, j]
                               + u[i-1, j] + u[i+1, j] + u[i, j-1] + u[i, j+1])
"""
RESTRICT = """
    residual(y, x) := f[y, x] - (4*u[y, x] - u[y-1, x] - u[y+1, x] - u[y, x-1] - u[y, x+1])/(h*h)
    row(y, x) := residual(y, x - 1) + 2*residual(y, x) + residual(y, x + 1)
    coarse[i, j] = (row(2*i - 1, 2*j) + 2*row(2*i, 2*j) + row(2*i + 1, 2*j))/16
"""
CORRECT = """
    new[i, j] = u[i, j] + (coarse[i//2, j//2] + coarse[(i + 1)//2, j//2]
                           + coarse[i//2, (j + 1)//2] + coarse[(i + 1)//2, (j + 1)//2])/4
"""
INNER, FINE = "{ [i, j]: 1 <= i, j < n - 1 }", "2*n - 1, 2*n - 1"
KERNELS = {  # points that are computed, text, shapes of arrays
    "smooth": (INNER, SMOOTH, {"u, f, new": "n, n"}),
    "restrict": (INNER, RESTRICT, {"u, f": FINE, "coarse": "n, n"}),
    "correct": ("{ [i, j]: 1 <= i, j < 2*n - 2 }", CORRECT, {"u, new": FINE, "coarse": "n, n"}),
}


def on_device(name: str, device: Device) -> Callable[..., Any]:
    """Return the function that calls a kernel; its result is zero on the boundary."""
    points, code, shapes = KERNELS[name]
    arguments = [lp.GlobalArg(names, np.float64, shape=shape) for names, shape in shapes.items()]
    knl = lp.make_kernel(points, code, [*arguments, ...], name=name, target=device.target)
    if device.is_host:
        knl = lp.split_iname(knl, "i", 32, outer_tag="g.0")  # small grids are a single group
    else:
        knl = lp.split_iname(knl, "i", 4, outer_tag="g.1", inner_tag="l.1")
        knl = lp.split_iname(knl, "j", 32, outer_tag="g.0", inner_tag="l.0")
    return lambda **given: device.run(knl, **given)


def laplacian(u: Any) -> Any:
    """Return the differences for the inner points, of numpy's arrays."""
    return u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4 * u[1:-1, 1:-1]


def restrict_in_numpy(u: Any, f: Any, h: float) -> Any:
    """Return weighted means of the residual."""
    r = np.pad(f[1:-1, 1:-1] + laplacian(u) / h**2, 1)
    rows = r[:, 1:-2:2] + 2 * r[:, 2:-1:2] + r[:, 3::2]
    return np.pad(rows[1:-2:2] + 2 * rows[2:-1:2] + rows[3::2], 1) / 16


def correct_in_numpy(u: Any, coarse: Any) -> Any:
    """Add the correction of the coarse grid, interpolated."""
    low, high = np.arange(len(u)) // 2, np.arange(1, len(u) + 1) // 2
    return u + sum(coarse[i[:, None], j] for i in (low, high) for j in (low, high)) / 4


NUMPY: dict[str, Callable[..., Any]] = {
    "smooth": lambda u, f, h: u + 0.2 * np.pad(h**2 * f[1:-1, 1:-1] + laplacian(u), 1),
    "restrict": restrict_in_numpy,
    "correct": correct_in_numpy,
}


def v_cycle(do: dict[str, Callable[..., Any]], u: Any, f: Any, h: float) -> Any:
    """Return a better solution; *do* has the operations, kgen's or numpy's."""
    for _ in range(SMOOTHING):
        u = do["smooth"](u=u, f=f, h=h)
    if len(u) > 3:
        coarse = do["restrict"](u=u, f=f, h=h)
        u = do["correct"](u=u, coarse=v_cycle(do, 0 * coarse, coarse, 2 * h))
    for _ in range(SMOOTHING):
        u = do["smooth"](u=u, f=f, h=h)
    return u


def main(arguments: list[str]) -> None:
    """Solve for a known solution; compare with it, and with numpy."""
    given = parse(__doc__, arguments, n=512)
    device = open_device(given.device)
    do, h = {name: on_device(name, device) for name in KERNELS}, 1 / given.n
    exact = np.outer(*[np.sin(np.pi * np.linspace(0, 1, given.n + 1))] * 2)
    zero, source, errors = 0 * exact, 2 * np.pi**2 * exact, [1.0]
    u, f = start, _ = device.array(zero), device.array(source)
    for _ in range(CYCLES):
        u = v_cycle(do, u, f, h)
        errors.append(np.abs(device.on_host(u) - exact).max())
    check("solution, in h**2", errors[-1] / h**2, MAX_ERROR)
    once = device.on_host(v_cycle(do, start, f, h))
    check("a cycle, beside numpy", distance(once, v_cycle(NUMPY, zero, source, h)), MAX_DIFFERENCE)
    ours, numpys = (do, start, f, h), (NUMPY, zero, source, h)
    device.compare("a cycle", lambda: v_cycle(*ours), lambda: v_cycle(*numpys))

    draw(given.picture, lambda plt: plt.semilogy(errors, "o-"))


if __name__ == "__main__":
    main(sys.argv[1:])
