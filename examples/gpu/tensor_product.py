"""
Product on tensor cores
=======================

A product of bfloat16 matrices on NVIDIA's tensor cores: warps of mma.sync, tiles by cp.async.

It needs numpy's bfloat16: ``pip install '.[bfloat16]'``.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from case import Case

import kgen as lp

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
TEXT = "c[i, j] = sum(k, cast(np.float32, a[i, k])*cast(np.float32, b[k, j]))"

#: The loops over a tile of either factor, and the bytes of a row of its swizzle.
TILES = {
    "a": ("i_inner_outer, i_inner_inner_outer, i_mma, k_inner_outer, k_inner_inner", 128),
    "b": ("k_inner_outer, k_inner_inner, j_inner_outer, j_inner_inner_outer, j_mma", 256),
}
AROUND = "i_outer, j_outer, k_outer"


def make_product(n: int, target: Any) -> lp.TranslationUnit:
    """Return the product as it is written, for matrices of *n* rows, a multiple of 128."""
    knl = lp.make_kernel(
        "{ [i, j, k]: 0 <= i, j, k < n }",
        TEXT,
        [
            lp.GlobalArg("a, b", BFLOAT16, shape="n, n"),
            lp.GlobalArg("c", np.float32, shape="n, n"),
            "...",
        ],
        target=target,
        name="product",
    )
    return lp.fix_parameters(knl, n=n)


def of_warps(knl: lp.TranslationUnit) -> lp.TranslationUnit:
    """Let 8 warps compute a tile of 128 x 128 elements, each 64 x 32 of them."""
    for x, warp, mma, axis in (("i", 64, 16, 1), ("j", 32, 8, 0)):
        knl = lp.split_iname(knl, x, 128, outer_tag=f"g.{axis}")
        knl = lp.split_iname(knl, f"{x}_inner", warp, outer_tag=f"l.{axis + 1}")
        knl = lp.split_iname(knl, f"{x}_inner_inner", mma, inner_iname=x + "_mma", outer_tag="ilp")
    return lp.split_iname(lp.split_iname(knl, "k", 32), "k_inner", 16, outer_tag="unr")


def fetched(knl: lp.TranslationUnit) -> lp.TranslationUnit:
    """Fetch tiles of both factors, 8 numbers at a time."""
    for f, (swept, _) in TILES.items():
        knl = lp.add_prefetch(knl, f, swept, f"{f}_row, {f}_col", None, fetch_outer_inames=AROUND)
        knl = lp.split_iname(knl, f"{f}_col", 8, inner_tag="vec")
        knl = lp.join_inames(knl, f"{f}_row, {f}_col_outer", item := f"{f}_item")
        for axis, count in enumerate((32, 4, 2)):
            knl = lp.split_iname(knl, item + axis * "_outer", count, inner_tag=f"l.{axis}")
    return lp.align_temporaries(knl, "a_fetch, b_fetch", 16)


def with_mma(knl: lp.TranslationUnit) -> lp.TranslationUnit:
    return lp.tensorize(knl, "insn", "i_mma, j_mma, k_inner_inner", "m16n8k16")


def swizzled(knl: lp.TranslationUnit) -> lp.TranslationUnit:
    for f, (_, row) in TILES.items():
        knl = lp.tag_array_axes(knl, f"{f}_fetch", f"swizzle:{row}")
    return knl


def schedule(knl: lp.TranslationUnit) -> lp.TranslationUnit:
    """Keep three tiles of each factor, two of them on their way."""
    knl = with_mma(swizzled(fetched(of_warps(knl))))
    return lp.pipeline(lp.async_copy(knl, "a_fetch_rule, b_fetch_rule"), "k_outer", stages=3)


CASES = (
    Case(
        title="product, bfloat16",
        kernel=make_product,
        schedule=schedule,
        inputs=lambda rng, n: {name: rng.random((n, n)).astype(BFLOAT16) for name in "ab"},
        expected=lambda given: given["a"].astype(np.float64) @ given["b"].astype(np.float64),
        work=lambda n: 2 * n**3,
        unit="TFLOP/s",
        size=4096,
        small=512,
        result="c",
    ),
)
