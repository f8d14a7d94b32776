"""Grids: stencils with fetched tiles, the wave equation, lattice Boltzmann."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kgen as lp
from tests.programs.support import (
    Array,
    assert_computes,
    assert_trace,
    block,
    double,
    numbers,
    size,
    tile,
)


def plain_blur() -> lp.TranslationUnit:
    knl = lp.make_kernel(
        "{ [i, j, p, q]: 0 <= i, j < n and 0 <= p, q < 3 }",
        "b[i, j] = sum((p, q), weight[p, q]*a[i + p, j + q])",
        [double("a, weight"), ...],
    )
    return lp.tag_inames(knl, "p:unr, q:unr")


def blur() -> lp.TranslationUnit:
    """Nine points: the tile with its rim is fetched."""
    return lp.add_prefetch(tile(plain_blur(), "ij", 8), "a", ["i_inner", "j_inner", "p", "q"])


def test_a_stencil_in_two_dimensions(device: Any) -> None:
    a, weight = numbers(21, 21), numbers(3, 3)
    expected = sum(weight[p, q] * a[p : p + 19, q : q + 19] for p in range(3) for q in range(3))
    arguments = {"a": a, "weight": weight}
    on_host = block(plain_blur(), "ij", 8)
    on_host = lp.add_prefetch(on_host, "a", ["i_inner", "j_inner", "p", "q"], default_tag=None)
    assert_computes(on_host, arguments, {"b": np.asarray(expected)})
    assert_computes(blur(), arguments, {"b": np.asarray(expected)}, device)
    assert_trace(blur(), n=9)


LAPLACIAN = (
    "a[i, j + 1, k + 1] + a[i + 2, j + 1, k + 1] + a[i + 1, j, k + 1] + a[i + 1, j + 2, k + 1]"
    " + a[i + 1, j + 1, k] + a[i + 1, j + 1, k + 2] - 6*a[i + 1, j + 1, k + 1]"
)


def plain_laplacian() -> lp.TranslationUnit:
    return lp.make_kernel(
        "{ [i, j, k]: 0 <= i, j, k < n }", f"b[i, j, k] = {LAPLACIAN}", [double("a"), ...]
    )


def laplacian() -> lp.TranslationUnit:
    """Seven points: planes one after the other, a tile of three planes fetched for each."""
    knl = tile(plain_laplacian(), "jk", 4)
    return lp.add_prefetch(knl, "a", ["j_inner", "k_inner"], fetch_bounding_box=True)


def laplacian_in_numpy(a: Array) -> Array:
    c = slice(1, -1)
    around = a[:-2, c, c] + a[2:, c, c] + a[c, :-2, c] + a[c, 2:, c] + a[c, c, :-2] + a[c, c, 2:]
    return np.asarray(around - 6 * a[c, c, c])


def test_a_stencil_in_three_dimensions(device: Any) -> None:
    a = numbers(11, 11, 11)
    assert_computes(block(plain_laplacian(), "ijk", 4), {"a": a}, {"b": laplacian_in_numpy(a)})
    assert_computes(laplacian(), {"a": a}, {"b": laplacian_in_numpy(a)}, device)
    assert_trace(laplacian(), n=5)


# -- the wave equation --------------------------------------------------------------------------


def waves() -> lp.TranslationUnit:
    """Steps in time around loops in space; the arrays are exchanged by copying."""
    return lp.make_kernel(
        ["{ [t]: 0 <= t < steps }", "{ [i, j, k, x, y, z]: 1 <= i, j, k, x, y, z < n - 1 }"],
        """
        for t
            for i, j, k
                w[i, j, k] = 2*u[i, j, k] - v[i, j, k] + c2*(
                    u[i - 1, j, k] + u[i + 1, j, k] + u[i, j - 1, k] + u[i, j + 1, k]
                    + u[i, j, k - 1] + u[i, j, k + 1] - 6*u[i, j, k]) {id=w, dep=*}
            end
            for x, y, z
                v[x, y, z] = u[x, y, z] {id=v, dep=*w}
                u[x, y, z] = w[x, y, z] {id=u, dep=*v:w}
            end
        end
        """,
        [
            double("u, v", "n, n, n"),
            lp.TemporaryVariable(
                "w", np.float64, shape="n, n, n", address_space=lp.AddressSpace.GLOBAL
            ),
            lp.ValueArg("c2", np.float64),
            size("steps"),
            ...,
        ],
        assumptions="n >= 2",
    )


def waves_in_numpy(u: Array, v: Array, c2: float, steps: int) -> tuple[Array, Array]:
    inner = (slice(1, -1),) * 3
    for _ in range(steps):
        w = u.copy()
        w[inner] = 2 * u[inner] - v[inner] + c2 * laplacian_in_numpy(u)
        v = v.copy()
        v[inner] = u[inner]
        u = w
    return u, v


def wave_arguments(steps: int) -> tuple[dict[str, Any], dict[str, Array]]:
    u, v = numbers(7, 7, 7), numbers(7, 7, 7, seed=3)
    expected = waves_in_numpy(u, v, 0.1, steps)
    return {"u": u, "v": v, "c2": 0.1, "steps": steps}, dict(zip("uv", expected, strict=True))


def test_waves_on_the_host() -> None:
    assert_computes(waves(), *wave_arguments(3))


def waves_in_launches() -> lp.TranslationUnit:
    """Two launches for each step: planes one after the other, tiles of them fetched."""
    knl = lp.make_kernel(
        ["{ [t]: 0 <= t < steps }", "{ [i, j, k, x, y, z]: 1 <= i, j, k, x, y, z < n - 1 }"],
        """
        for t
            w[i, j, k] = 2*u[i, j, k] - v[i, j, k] + c2*(
                u[i - 1, j, k] + u[i + 1, j, k] + u[i, j - 1, k] + u[i, j + 1, k]
                + u[i, j, k - 1] + u[i, j, k + 1] - 6*u[i, j, k])     {id=w, dep=*}
            ... gbarrier                                              {id=new, dep=w}
            v[x, y, z] = u[x, y, z]                                   {id=v, dep=*new}
            u[x, y, z] = w[x, y, z]                                   {id=u, dep=*v}
            ... gbarrier                                              {dep=u}
        end
        """,
        [double("u, v, w", "n, n, n"), lp.ValueArg("c2", np.float64), size("steps"), ...],
        assumptions="n >= 2",
    )
    knl = tile(tile(knl, "jk", 4), "yz", 4)
    return lp.add_prefetch(knl, "u", ["j_inner", "k_inner"], within="id:w", fetch_bounding_box=True)


@pytest.mark.parametrize("steps", [0, 3])
def test_waves_in_launches(steps: int, device: Any) -> None:
    arguments, want = wave_arguments(steps)
    arguments["w"] = np.zeros((7, 7, 7))
    assert_computes(waves_in_launches(), arguments, want, device)


# -- lattice Boltzmann, D2Q9 ----------------------------------------------------------------------

CX = np.array([0, 1, 0, -1, 0, 1, -1, -1, 1], np.int32)
CY = np.array([0, 0, 1, 0, -1, 1, 1, -1, -1], np.int32)
WEIGHTS = np.array([16, 4, 4, 4, 4, 1, 1, 1, 1]) / 36

DIRECTIONS = ("k", "a", "b", "c", "d", "o", "z")


def lattice_boltzmann(layout: str) -> lp.TranslationUnit:
    """Stream and collide; the populations of a site are an axis that is outermost or innermost."""
    shape = "9, n, m" if layout == "soa" else "n, m, 9"

    def at(array: str, q: str, i: str, j: str) -> str:
        return f"{array}[{q}, {i}, {j}]" if layout == "soa" else f"{array}[{i}, {j}, {q}]"

    tables = [
        lp.TemporaryVariable(
            name, initializer=table, read_only=True, address_space=lp.AddressSpace.GLOBAL
        )
        for name, table in (("cx", CX), ("cy", CY), ("w", WEIGHTS))
    ]
    directions = ", ".join(DIRECTIONS)
    return lp.make_kernel(
        f"{{ [i, j, {directions}]: 0 <= i < n and 0 <= j < m and 0 <= {directions} < 9 }}",
        f"""
        for i, j
            <> g[k] = {at("f", "k", "(i - cx[k]) % n", "(j - cy[k]) % m")} {{id=g}}
            <> rho = sum(a, g[a]) {{dep=g}}
            <> ux = sum(b, cx[b]*g[b])/rho {{dep=g}}
            <> uy = sum(c, cy[c]*g[c])/rho {{dep=g}}
            <> cu[d] = 3*(cx[d]*ux + cy[d]*uy) {{id=cu}}
            <> eq[o] = w[o]*rho*(1 + cu[o] + cu[o]**2/2 - 1.5*(ux**2 + uy**2)) {{id=eq, dep=cu}}
            {at("out", "z", "i", "j")} = g[z] + omega*(eq[z] - g[z]) {{dep=g:eq}}
        end
        """,
        [double("f, out", shape), lp.ValueArg("omega", np.float64), *tables, ...],
    )


def lattice_boltzmann_in_numpy(f: Array, omega: float) -> Array:
    g = np.stack([np.roll(f[k], (CX[k], CY[k]), (0, 1)) for k in range(9)])
    rho = g.sum(0)
    ux, uy = np.tensordot(CX, g, 1) / rho, np.tensordot(CY, g, 1) / rho
    cu = 3 * (CX[:, None, None] * ux + CY[:, None, None] * uy)
    eq = WEIGHTS[:, None, None] * rho * (1 + cu + cu**2 / 2 - 1.5 * (ux**2 + uy**2))
    return np.asarray(g + omega * (eq - g))


@pytest.mark.parametrize("layout", ["soa", "aos"])
def test_lattice_boltzmann(layout: str, device: Any) -> None:
    f = 1 + numbers(9, 7, 10)
    expected = lattice_boltzmann_in_numpy(f, 0.6)
    if layout == "aos":
        f, expected = (np.ascontiguousarray(np.moveaxis(x, 0, 2)) for x in (f, expected))
    knl = lattice_boltzmann(layout)
    assert_computes(knl, {"f": f, "omega": 0.6}, {"out": expected})
    tuned = lp.tag_inames(tile(knl, "ij", 4), dict.fromkeys(DIRECTIONS, "unr"))
    assert_computes(tuned, {"f": f, "omega": 0.6}, {"out": expected}, device)


def test_coordinates_have_the_precision_of_their_grid(device: Any) -> None:
    text = ["x[i] = (i + 0.5)/n", "y[i] = 2.0*i/n - 1 + sqrt(1.0*i)"]
    grid = lp.GlobalArg("x, y", np.float64, shape="n")
    knl = lp.make_kernel("{ [i]: 0 <= i < n }", text, [grid, ...])
    n, i = 97, np.arange(97)
    expected = {"x": (i + 0.5) / n, "y": 2.0 * i / n - 1 + np.sqrt(i)}
    assert_computes(knl, {"x": np.zeros(n), "y": np.zeros(n)}, expected, device)
