"""
Product by warpgroups
=====================

A product of bfloat16 matrices by warpgroups: wgmma, which reads tiles in shared memory itself.

For compute capability 9.0. It needs numpy's bfloat16: ``pip install '.[bfloat16]'``.
"""

from __future__ import annotations

import numpy as np
from case import Case
from tensor_product import BFLOAT16, make_product

import kgen as lp

#: The loops over a tile of either factor.
TILES = {
    "a": "i_inner_outer, i_inner_inner, k_inner_outer, k_inner_inner",
    "b": "k_inner_outer, k_inner_inner, j_inner",
}
AROUND = "tile, k_outer"
#: Parts of 64 columns are outermost.
ORDER = "N1, N2, N0"


def of_warpgroups(knl: lp.TranslationUnit) -> lp.TranslationUnit:
    """Let two warpgroups compute a tile of 128 x 256 elements; groups go down four tile columns."""
    knl = lp.split_iname(lp.split_iname(knl, "i", 128), "i_inner", 64, outer_tag="l.1")
    knl = lp.split_iname(lp.split_iname(knl, "j", 256), "j_outer", 4)
    knl = lp.join_inames(knl, "j_outer_outer, i_outer, j_outer_inner", "tile")
    knl = lp.split_iname(lp.split_iname(knl, "k", 64), "k_inner", 16, outer_tag="unr")
    return lp.tag_inames(knl, "tile: g.0")


def fetched(knl: lp.TranslationUnit) -> lp.TranslationUnit:
    """Fetch tiles, 8 numbers at a time, in parts whose rows are the 128 bytes of a swizzle."""
    for f, swept in TILES.items():
        knl = lp.add_prefetch(knl, f, swept, f"{f}_row, {f}_col", None, fetch_outer_inames=AROUND)
        knl = lp.tag_array_axes(lp.split_array_axis(knl, f"{f}_fetch", 1, 64), f"{f}_fetch", ORDER)
        knl = lp.split_iname(knl, f"{f}_col", 64, inner_iname=f"{f}_part")
        knl = lp.split_iname(knl, f"{f}_part", 8, inner_tag="vec")
        knl = lp.join_inames(knl, f"{f}_col_outer, {f}_row, {f}_part_outer", item := f"{f}_item")
        knl = lp.split_iname(knl, item, 128, inner_tag="l.0")
        knl = lp.split_iname(knl, f"{item}_outer", 2, inner_tag="l.1", outer_tag="unr")
    return lp.align_temporaries(knl, "a_fetch, b_fetch", 1024)


def schedule(knl: lp.TranslationUnit) -> lp.TranslationUnit:
    """Keep four tiles of each factor: two on their way, and two that tensor cores read."""
    knl = lp.tag_array_axes(fetched(of_warpgroups(knl)), "a_fetch, b_fetch", "swizzle:128")
    knl = lp.tensorize(knl, "insn", "i_inner_inner, j_inner, k_inner_inner", "m64n256k16")
    return lp.pipeline(lp.async_copy(knl, "a_fetch_rule, b_fetch_rule"), "k_outer", 4, ahead=2)


CASES = (
    Case(
        title="product, bfloat16, by warpgroups",
        kernel=make_product,
        schedule=schedule,
        inputs=lambda rng, n: {name: rng.random((n, n)).astype(BFLOAT16) for name in "ab"},
        expected=lambda given: given["a"].astype(np.float64) @ given["b"].astype(np.float64),
        work=lambda n: 2 * n**3,
        unit="TFLOP/s",
        size=4096,
        small=1024,
        result="c",
    ),
)
