"""Finite elements: volume terms, gathered fluxes, assembly."""

from __future__ import annotations

from typing import Any

import numpy as np

import kgen as lp
from tests.programs.support import (
    assert_computes,
    assert_trace,
    double,
    indices,
    integer,
    numbers,
    size,
    tile,
)

NODES = 10


def volume() -> lp.TranslationUnit:
    """The divergence in discontinuous elements: sums in sums, small dimensions unrolled."""
    return lp.make_kernel(
        [
            f"{{ [e, i, j]: 0 <= e < elements and 0 <= i, j < {NODES} }}",
            "{ [r, x]: 0 <= r, x < 3 }",
        ],
        "du[e, i] = sum(x, sum(r, metric[e, x, r]*sum(j, D[r, i, j]*f[x, e, j])))",
        [double("metric, D, f"), ...],
    )


def volume_in_tiles() -> lp.TranslationUnit:
    """Four elements for each group; their fluxes and the matrices in local memory."""
    knl = lp.split_iname(volume(), "e", 4, outer_tag="g.0", inner_tag="l.1")
    knl = lp.tag_inames(knl, "i:l.0, r:unr, x:unr")
    knl = lp.add_prefetch(knl, "f", ["j", "x", "e_inner"])
    return lp.add_prefetch(knl, "D", ["i", "j", "r"])


def test_volume_terms(device: Any) -> None:
    metric, d, f = numbers(7, 3, 3), numbers(3, NODES, NODES), numbers(3, 7, NODES)
    arguments = {"metric": metric, "D": d, "f": f}
    want = {"du": np.einsum("exr, rij, xej -> ei", metric, d, f)}
    assert_computes(volume(), arguments, want)
    assert_computes(volume_in_tiles(), arguments, want, device)


def test_the_code_of_volume_terms_runs_each_instance_once() -> None:
    assert_trace(volume_in_tiles(), elements=5)
    assert lp.generate_body(volume_in_tiles()).count("barrier(") == 1


def fluxes() -> lp.TranslationUnit:
    """Both sides of a face gather their values; the wind decides which of them counts."""
    return lp.make_kernel(
        "{ [f, p]: 0 <= f < faces and 0 <= p < 3 }",
        """
        <> inner = u[inside[f], inner_nodes[f, p]]
        <> outer = u[outside[f], outer_nodes[f, p]]
        <> wind = speed*normal[f]
        if wind > 0
            flux[f, p] = wind*inner
        else
            flux[f, p] = wind*outer
        end
        """,
        [
            double("u", "elements, nodes"),
            double("normal", "faces"),
            integer("inside, outside", "faces"),
            integer("inner_nodes, outer_nodes", "faces, 3"),
            lp.ValueArg("speed", np.float64),
            size("elements, nodes"),
            ...,
        ],
    )


def test_fluxes_are_gathered(device: Any) -> None:
    u, normal = numbers(5, NODES), numbers(7) - 0.5
    gathered = {
        "inside": indices(5, 7),
        "outside": indices(5, 7, seed=1),
        "inner_nodes": indices(NODES, 7, 3),
        "outer_nodes": indices(NODES, 7, 3, seed=1),
    }
    arguments = {"u": u, "normal": normal, "speed": -0.7, **gathered}
    sides = [("inside", "inner_nodes"), ("outside", "outer_nodes")]
    inner, outer = (u[gathered[face][:, None], gathered[nodes]] for face, nodes in sides)
    wind = -0.7 * normal[:, None]
    want = {"flux": np.where(wind > 0, wind * inner, wind * outer)}
    assert_computes(fluxes(), arguments, want)
    assert_computes(lp.tag_inames(tile(fluxes(), "f", 4), "p:unr"), arguments, want, device)


def assembly() -> lp.TranslationUnit:
    """Each triangle adds its part of the load vector to its corners."""
    return lp.make_kernel(
        "{ [t, c, q]: 0 <= t < triangles and 0 <= c, q < 3 }",
        """
        <> mean = sum(q, source[corners[t, q]])/3
        load[corners[t, c]] = load[corners[t, c]] + area[t]*mean/3 {atomic}
        """,
        [
            integer("corners", "triangles, 3"),
            double("area", "triangles"),
            double("source", "points"),
            lp.GlobalArg("load", np.float64, shape="points", for_atomic=True),
            size("points"),
            ...,
        ],
    )


def stiffness() -> lp.TranslationUnit:
    """Each triangle adds its products of gradients to the rows of its corners."""
    return lp.make_kernel(
        "{ [t, c, q, x]: 0 <= t < triangles and 0 <= c, q < 3 and 0 <= x < 2 }",
        """
        <> entry = area[t]*sum(x, gradient[t, c, x]*gradient[t, q, x])
        matrix[corners[t, c], corners[t, q]] = matrix[corners[t, c], corners[t, q]] + entry {atomic}
        """,
        [
            integer("corners", "triangles, 3"),
            double("area", "triangles"),
            double("gradient", "triangles, 3, 2"),
            lp.GlobalArg("matrix", np.float64, shape="points, points", for_atomic=True),
            size("points"),
            ...,
        ],
    )


def test_matrices_are_assembled(device: Any) -> None:
    corners, area, gradient = indices(6, 11, 3), numbers(11), numbers(11, 3, 2)
    want = np.zeros((6, 6))
    entries = area[:, None, None] * gradient @ gradient.transpose(0, 2, 1)
    np.add.at(want, (corners[:, :, None], corners[:, None, :]), entries)
    arguments = {"corners": corners, "area": area, "gradient": gradient, "matrix": np.zeros((6, 6))}
    assert_computes(stiffness(), arguments, {"matrix": want})
    knl = lp.tag_inames(tile(stiffness(), "t", 4), "c:l.1, q:unr, x:unr")
    assert_computes(knl, arguments, {"matrix": want}, device)


def test_loads_are_assembled(device: Any) -> None:
    corners, area, source = indices(6, 11, 3), numbers(11), numbers(6)
    want = np.zeros(6)
    np.add.at(want, corners, (area * source[corners].mean(1) / 3)[:, None])
    arguments = {"corners": corners, "area": area, "source": source, "load": np.zeros(6)}
    assert_computes(assembly(), arguments, {"load": want})
    assert_computes(tile(assembly(), "t", 4), arguments, {"load": want}, device)
