"""
Products of matrices
====================

The product of two matrices: 8 x 16 sums in each work-item, tiles of both factors in vectors; on
tensor cores, float32 as two numbers of TF32 each, and float64.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from case import Case

import kgen as lp

LOCAL = lp.AddressSpace.LOCAL
#: Vectors of a are stored number by number: the tile has its columns in memory.
KNOWN = ("vectorize_failed(a_fetch_rule*)",)
OF_GROUPS = "i_outer, j_outer, k_outer"
#: The numbers of work-items along the rows and the columns of a tile.
Items = tuple[int, int]
SQUARE: Items = (16, 16)
#: The numbers of a vector of float32.
LANES = 4
IN_TWO_PARTS = "3xtf32"


def product(dtype: Any, n: int, target: Any) -> lp.TranslationUnit:
    data = [lp.GlobalArg("a, b, out", dtype, shape=(n, n))]
    domain = f"{{ [i, j, k]: 0 <= i, j, k < {n} }}"
    text = "out[i, j] = sum(k, a[i, k]*b[k, j])"
    return lp.make_kernel(domain, text, data, target=target, silenced_warnings=KNOWN)


def pieces(knl: lp.TranslationUnit, items: Items = SQUARE) -> lp.TranslationUnit:
    """Let work-items compute 128 x 128 sums, blocks of 4 x 4 of them side by side."""
    for name, axis, count in (("i", 1, items[0]), ("j", 0, items[1])):
        knl = lp.split_iname(knl, name, 128, outer_tag=f"g.{axis}", inner_iname=f"{name}b")
        part: Any = {"outer_iname": f"{name}p", "outer_tag": "ilp"}
        knl = lp.split_iname(knl, f"{name}b", count * LANES, **part)
        own: Any = {"outer_iname": f"{name}l", "inner_iname": f"{name}v", "inner_tag": "ilp"}
        knl = lp.split_iname(knl, f"{name}b_inner", LANES, outer_tag=f"l.{axis}", **own)
    return knl


def tiles(knl: lp.TranslationUnit, items: Items = SQUARE) -> lp.TranslationUnit:
    """Fetch 16 columns of a, and as many rows of b, in vectors."""
    knl = lp.split_iname(knl, "k", 16, inner_tag="unr")
    knl = fetched(knl, "a", "ip, il, iv, k_inner", items)
    return fetched(knl, "b", "jp, jl, jv, k_inner", items)


def fetched(knl: lp.TranslationUnit, array: str, sweep: str, items: Items) -> lp.TranslationUnit:
    """Fetch a tile in vectors: work-items side by side along the last axis of the array."""
    axes, run = [f"{array}_row", f"{array}_column"], f"{array}_run"
    tile: Any = {"temporary_name": f"{array}_tile", "temporary_address_space": LOCAL}
    knl = lp.add_prefetch(
        knl, array, sweep, axes, default_tag=None, fetch_outer_inames=OF_GROUPS, **tile
    )
    knl = lp.split_iname(knl, axes[1], LANES, inner_tag="vec")
    knl = lp.join_inames(knl, [axes[0], f"{axes[1]}_outer"], run)
    knl = lp.split_iname(knl, run, items[0] * items[1], outer_tag="unr")
    side: Any = {"outer_iname": f"{array}y", "inner_iname": f"{array}x"}
    knl = lp.split_iname(knl, f"{run}_inner", items[1], outer_tag="l.1", inner_tag="l.0", **side)
    return lp.align_temporaries(knl, f"{array}_tile", 16)


def vectors_of_tiles(knl: lp.TranslationUnit, items: Items = SQUARE) -> lp.TranslationUnit:
    """Read the factors of a work-item's sums into registers, in vectors."""
    knl = lp.tag_array_axes(knl, "a_tile", "N0, N1")
    outer = f"{OF_GROUPS}, k_inner, il, jl"
    for name, axis, sweep, axes in (
        ("a_tile", 0, "ip, iv", ["ap", "av"]),
        ("b_tile", 1, "jp, jv", ["bk", "bp", "bv"]),
    ):
        knl = lp.split_array_axis(knl, name, axis, items[axis] * LANES)
        knl = lp.add_prefetch(knl, name, sweep, axes, default_tag=None, fetch_outer_inames=outer)
    return lp.tag_inames(knl, "ap:unr, av:vec, bp:unr, bv:vec")


def more_sums(knl: lp.TranslationUnit) -> lp.TranslationUnit:
    """Let each of 16 x 8 work-items have 8 x 16 sums, in registers for two groups."""
    items = (16, 8)
    knl = vectors_of_tiles(tiles(pieces(knl, items), items), items)
    knl = lp.add_padding_to_avoid_bank_conflicts(knl, "a_tile")
    knl = lp.pipeline(knl, "k_outer", 2, "a_tile, b_tile")
    return lp.set_launch_bounds(knl, min_groups=2)


def tiles_on_tensor_cores(
    knl: lp.TranslationUnit, lanes: int, precision: str | None = None
) -> lp.TranslationUnit:
    """Let four warps compute 128 x 64 sums, from tiles that are copied in vectors of *lanes*."""
    for name, axis, length, of_warp, mma in (("i", 1, 128, 64, 16), ("j", 0, 64, 32, 8)):
        own: Any = {"outer_iname": f"{name}w", "outer_tag": f"l.{axis + 1}"}
        knl = lp.split_iname(knl, name, length, outer_tag=f"g.{axis}")
        knl = lp.split_iname(knl, f"{name}_inner", of_warp, inner_iname=f"{name}p", **own)
        knl = lp.split_iname(knl, f"{name}p", mma, outer_tag="ilp", inner_iname=f"{name}v")
    terms = 8 * lanes  # 128 bytes
    knl = lp.split_iname(lp.split_iname(knl, "k", terms), "k_inner", 8, outer_tag="unr")
    k = "k_inner_outer, k_inner_inner"
    for array, sweep in (("a", f"iw, ip_outer, iv, {k}"), ("b", f"{k}, jw, jp_outer, jv")):
        knl = copied_by_warps(knl, array, sweep, lanes)
    # the work-items of a warp load elements: with longer rows, a fragment is in all banks
    knl = lp.tag_array_axes(knl, "a_tile", f"stride:{terms + 4}, stride:1")
    knl = lp.tag_array_axes(knl, "b_tile", f"stride:{64 + 2 * lanes}, stride:1")
    knl = lp.tensorize(knl, "insn", "iv, jv, k_inner_inner", "m16n8k8", precision=precision)
    return lp.pipeline(lp.async_copy(knl, "a_tile_copy, b_tile_copy"), "k_outer", stages=3)


def copied_by_warps(
    knl: lp.TranslationUnit, array: str, sweep: str, lanes: int
) -> lp.TranslationUnit:
    """Copy a tile in vectors, for asynchronous copies."""
    run, tile = f"{array}_run", f"{array}_tile"
    copy: Any = {"temporary_name": tile, "prefetch_insn_id": f"{tile}_copy", "default_tag": None}
    axes = [f"{array}_row", f"{array}_column"]
    knl = lp.add_prefetch(knl, array, sweep, axes, fetch_outer_inames=OF_GROUPS, **copy)
    knl = lp.split_iname(knl, axes[1], lanes, inner_tag="vec")
    knl = lp.join_inames(knl, [axes[0], f"{axes[1]}_outer"], run)
    for axis, length in enumerate((32, 2, 2)):
        knl = lp.split_iname(knl, run + axis * "_outer", length, inner_tag=f"l.{axis}")
    return lp.align_temporaries(knl, tile, 16)


def float32_in_two_parts(knl: lp.TranslationUnit) -> lp.TranslationUnit:
    """Let tensor cores multiply float32 as two numbers of TF32 each."""
    return tiles_on_tensor_cores(knl, LANES, IN_TWO_PARTS)


def float64_on_tensor_cores(knl: lp.TranslationUnit) -> lp.TranslationUnit:
    """Let tensor cores multiply float64, with registers for two groups."""
    return lp.set_launch_bounds(tiles_on_tensor_cores(knl, LANES // 2), min_groups=2)


def _case(
    title: str, dtype: Any, schedule: Callable[..., lp.TranslationUnit], **stated: Any
) -> Case:
    return Case(
        title=title,
        kernel=partial(product, dtype),
        schedule=schedule,
        inputs=lambda rng, n: {name: rng.random((n, n)).astype(dtype) for name in "ab"},
        expected=lambda given: given["a"].astype(np.float64) @ given["b"].astype(np.float64),
        work=lambda n: 2 * n**3,
        unit="TFLOP/s",
        size=4096,
        small=256,
        stated=stated,
        peer=lambda torch, on: lambda: torch.matmul(on["a"], on["b"], out=on["out"]),
    )


CASES = (
    _case("product, float32", np.float32, more_sums),
    _case(
        "product, float32 in two parts", np.float32, float32_in_two_parts, precision=IN_TWO_PARTS
    ),
    _case("product, float64", np.float64, float64_on_tensor_cores),
)
