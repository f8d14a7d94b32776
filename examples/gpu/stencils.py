"""
Stencils
========

Stencils of 5 points in the plane and of 7 and 25 in space, from registers.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from case import Arrays, Case

import kgen as lp

F32 = np.float32
Schedule = Callable[[int, lp.TranslationUnit], lp.TranslationUnit]
#: Numbers around the grid along the last axis, so that vectors of four are aligned.
SIDE = 4
#: The weights of the middle and of the points in distance 1, 2...
WEIGHTS = {1: (-6.0, 1.0), 4: (-8.5, 1.6, -0.2, 0.025, -0.0018)}


def plane(n: int, target: Any) -> lp.TranslationUnit:
    data = [lp.GlobalArg("u", F32, shape=(n + 2, n + 8)), lp.GlobalArg("out", F32, shape=(n, n))]
    text = "out[i, j] = u[i+2, j+4] + u[i, j+4] + u[i+1, j+5] + u[i+1, j+3] - 4*u[i+1, j+4]"
    return lp.make_kernel(f"{{ [i, j]: 0 <= i, j < {n} }}", text, data, target=target)


def rows_of_vectors(knl: lp.TranslationUnit) -> lp.TranslationUnit:
    """Compute four numbers in each of two rows; all that they need is read as vectors first."""
    knl = lp.split_iname(knl, "i", 8, outer_tag="g.1")
    knl = lp.split_iname(knl, "i_inner", 2, outer_tag="l.1", inner_tag="unr")
    knl = lp.split_iname(knl, "j", 128, outer_tag="g.0")
    knl = lp.split_iname(knl, "j_inner", 4, outer_tag="l.0", outer_iname="jl", inner_tag="vec")
    knl = lp.add_prefetch(
        knl,
        "u",
        "i_inner_inner, j_inner_inner",
        "row, column",
        default_tag=None,
        fetch_bounding_box=True,
        fetch_outer_inames="i_outer, i_inner_outer, j_outer, jl",
    )
    knl = lp.affine_map_inames(knl, "column", "at", "at = column + 3")  # where vectors are aligned
    knl = lp.split_iname(knl, "at", 4, inner_tag="vec", outer_tag="unr")
    return lp.tag_inames(knl, "row:unr")


def star(radius: int, n: int, target: Any) -> lp.TranslationUnit:
    """Make a star in space, whose reads along an axis are tagged with its name."""
    middle = [f"z + {radius}", f"y + {radius}", f"x + {SIDE}"]
    terms = [f"({WEIGHTS[radius][0]})*u$x[{', '.join(middle)}]"]
    for distance in range(1, radius + 1):
        for axis, tag in enumerate("zyx"):
            for by in (-distance, distance):
                index = [f"{at} + {by}" if k == axis else at for k, at in enumerate(middle)]
                terms.append(f"({WEIGHTS[radius][distance]})*u${tag}[{', '.join(index)}]")
    shape = (n + 2 * radius, n + 2 * radius, n + 2 * SIDE)
    data = [lp.GlobalArg("u", F32, shape=shape), lp.GlobalArg("out", F32, shape=(n, n, n))]
    domain = f"{{ [z, y, x]: 0 <= z, y, x < {n} }}"
    return lp.make_kernel(domain, f"out[z, y, x] = {' + '.join(terms)}", data, target=target)


def columns_of_vectors(radius: int, knl: lp.TranslationUnit) -> lp.TranslationUnit:
    """Compute four numbers in each of eight planes, from registers that hold the three arms."""
    knl = lp.split_iname(knl, "z", 8, outer_tag="g.2", inner_tag="unr")
    knl = lp.split_iname(knl, "y", 8, outer_tag="g.1", inner_tag="l.1")
    knl = in_vectors(knl)
    outer = "z_outer, y_outer, y_inner, x_outer, xl"
    for arm, begin in (("x", SIDE - radius), ("y", 0), ("z", 0)):
        knl = with_arm(knl, arm, begin, "z_inner, xx", outer)
    return lp.tag_instructions(knl, lp.UseStreamingStoreTag(), "writes:out")


def planes_ahead(radius: int, knl: lp.TranslationUnit) -> lp.TranslationUnit:
    """Go along z with the column in registers; planes for the other arms are copied ahead."""
    knl = lp.split_iname(knl, "z", 128, outer_tag="g.2")
    knl = lp.split_iname(knl, "y", 32, outer_tag="g.1")
    knl = lp.split_iname(knl, "y_inner", 2, outer_tag="l.1", inner_iname="yy", inner_tag="unr")
    knl = in_vectors(knl)
    window: Any = {"window": "z_inner", "temporary_address_space": lp.AddressSpace.PRIVATE}
    knl = lp.add_prefetch(knl, "u$z", "yy, xx", "zz, zy, zx", temporary_name="column", **window)
    knl = lp.tag_inames(knl, "zx:vec, zx_prologue:vec", force=True)
    outer = "z_outer, z_inner, y_outer, y_inner_outer, x_outer, xl"
    knl = with_arm(knl, "x", SIDE - radius, "yy, xx", outer)
    knl = with_arm(knl, "y", 0, "yy, xx", outer)
    swept = "y_inner_outer, xl, zy, zx, x_y, at_x_outer, at_x_inner, y_y, at_y_outer, at_y_inner"
    window["temporary_address_space"] = lp.AddressSpace.LOCAL
    box: Any = {"fetch_bounding_box": True, "default_tag": None, "within": "iname:z_inner"}
    names: Any = {"temporary_name": "plane", "prefetch_insn_id": "plane_fetch"}
    knl = lp.add_prefetch(knl, "u", swept, "pz, py, px", **names, **box, **window)
    knl = lp.align_temporaries(by_all_items(by_all_items(knl), "_prologue"), "plane", 16)
    if isinstance(knl.default_entrypoint.target, lp.CudaTarget):
        knl = lp.async_copy(knl, "plane_fetch")
    return lp.pipeline(knl, "z_inner", stages=5, fetches="plane")


def by_all_items(knl: lp.TranslationUnit, suffix: str = "") -> lp.TranslationUnit:
    """Fetch a plane by 16 x 32 work-items as a run of vectors."""
    knl = lp.split_iname(knl, f"px{suffix}", 4, inner_tag="vec")
    knl = lp.join_inames(knl, [f"py{suffix}", f"px{suffix}_outer"], f"run{suffix}")
    knl = lp.split_iname(knl, f"run{suffix}", 32, inner_tag="l.0")
    return lp.split_iname(knl, f"run{suffix}_outer", 16, inner_tag="l.1", outer_tag="unr")


def in_vectors(knl: lp.TranslationUnit) -> lp.TranslationUnit:
    """Give each work-item four numbers side by side."""
    knl = lp.split_iname(knl, "x", 128, outer_tag="g.0")
    names: Any = {"outer_iname": "xl", "inner_iname": "xx"}
    return lp.split_iname(knl, "x_inner", 4, outer_tag="l.0", inner_tag="vec", **names)


def with_arm(
    knl: lp.TranslationUnit, arm: str, begin: int, sweep: str, outer: str
) -> lp.TranslationUnit:
    """Read an arm into registers as vectors, the first of which begins so many numbers before."""
    axes = [f"{arm}_z", f"{arm}_y", f"{arm}_x"]
    box: Any = {"default_tag": None, "fetch_bounding_box": True, "fetch_outer_inames": outer}
    knl = lp.add_prefetch(knl, f"u${arm}", sweep, axes, temporary_name=f"arm_{arm}", **box)
    knl = lp.affine_map_inames(knl, axes[2], f"at_{arm}", f"at_{arm} = {axes[2]} + {begin}")
    knl = lp.split_iname(knl, f"at_{arm}", 4, inner_tag="vec", outer_tag="unr")
    return lp.tag_inames(knl, f"{arm}_z:unr, {arm}_y:unr")


def _star_of(radius: int, given: Arrays) -> np.ndarray[Any, Any]:
    u = given["u"].astype(np.float64)
    n = u.shape[0] - 2 * radius
    around = (radius, radius, SIDE)

    def moved(axis: int, by: int) -> np.ndarray[Any, Any]:
        starts = [at + by * (k == axis) for k, at in enumerate(around)]
        return u[tuple(slice(start, start + n) for start in starts)]

    total = WEIGHTS[radius][0] * moved(0, 0)
    for distance in range(1, radius + 1):
        arms = (moved(axis, by) for axis in range(3) for by in (-distance, distance))
        total = total + WEIGHTS[radius][distance] * sum(arms)
    return total


def _plane_of(given: Arrays) -> np.ndarray[Any, Any]:
    u = given["u"][:, 3:-3].astype(np.float64)
    around = u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2]
    result: np.ndarray[Any, Any] = around - 4 * u[1:-1, 1:-1]
    return result


def _grid(radius: int, rng: np.random.Generator, n: int) -> Arrays:
    shape = (n + 2 * radius, n + 2 * radius, n + 2 * SIDE)
    return {"u": rng.random(shape, dtype=F32)}


def _convolution(torch: Any, on: Any) -> Any:
    """Return a convolution by cuDNN, the way to write a stencil in PyTorch."""
    ndim = on["u"].ndim
    weights = torch.rand((1, 1) + (3,) * ndim, device="cuda")
    convolve = torch.nn.functional.conv2d if ndim == 2 else torch.nn.functional.conv3d
    return lambda: convolve(on["u"][None, None], weights)


def _star_case(radius: int, schedule: Schedule) -> Case:
    return Case(
        title=f"{6 * radius + 1} points",
        kernel=partial(star, radius),
        schedule=partial(schedule, radius),
        inputs=partial(_grid, radius),
        expected=partial(_star_of, radius),
        work=lambda n: 8 * n**3,
        size=512,
        small=128,
    )


CASES = (
    Case(
        title="5 points",
        kernel=plane,
        schedule=rows_of_vectors,
        inputs=lambda rng, n: {"u": rng.random((n + 2, n + 8), dtype=F32)},
        expected=_plane_of,
        work=lambda n: 8 * n * n,
        size=8192,
        small=256,
        peer=_convolution,
    ),
    _star_case(1, columns_of_vectors),
    _star_case(4, planes_ahead),
)
