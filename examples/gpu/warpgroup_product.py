"""
Product by warpgroups
=====================

Products of bfloat16 and TF32 by warpgroups: wgmma, which reads tiles in shared memory itself.

For compute capability 9.0. It needs numpy's bfloat16: ``pip install '.[bfloat16]'``.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from case import Case
from tensor_product import BFLOAT16, make_product

import kgen as lp

#: The loops over rows of a tile, over its columns, and over its terms.
ROWS, COLUMNS, TERMS = "i_inner_outer, i_inner_inner", "j_inner", "k_inner_outer, k_inner_inner"
AROUND = "tile, k_outer"
#: Parts of 128 bytes of each row are outermost.
ORDER = "N1, N2, N0"


def make_product_of_rows(n: int, target: Any) -> lp.TranslationUnit:
    """Return a product whose terms are neighbours in both factors, as TF32's have to be."""
    knl = lp.make_kernel(
        "{ [i, j, k]: 0 <= i, j, k < n }",
        "c[i, j] = sum(k, a[i, k]*b[j, k])",
        [lp.GlobalArg("a, b, c", np.float32, shape="n, n"), "..."],
        target=target,
        name="product",
    )
    return lp.fix_parameters(knl, n=n)


def of_warpgroups(knl: lp.TranslationUnit, size: int) -> lp.TranslationUnit:
    """Let two warpgroups compute a tile of 128 x 256 elements; groups go down four tile columns."""
    knl = lp.split_iname(lp.split_iname(knl, "i", 128), "i_inner", 64, outer_tag="l.1")
    knl = lp.split_iname(lp.split_iname(knl, "j", 256), "j_outer", 4)
    knl = lp.join_inames(knl, "j_outer_outer, i_outer, j_outer_inner", "tile")
    knl = lp.split_iname(lp.split_iname(knl, "k", 128 // size), "k_inner", 32 // size)
    return lp.tag_inames(knl, "tile: g.0, k_inner_outer: unr")


def fetched(knl: lp.TranslationUnit, size: int, columns: str) -> lp.TranslationUnit:
    """Fetch tiles, 16 bytes at a time, in parts whose rows are the 128 bytes of a swizzle."""
    row = 128 // size
    for f, swept in (("a", f"{ROWS}, {TERMS}"), ("b", columns)):
        knl = lp.add_prefetch(knl, f, swept, f"{f}_row, {f}_col", None, fetch_outer_inames=AROUND)
        knl = lp.split_array_axis(knl, f"{f}_fetch", 1, row)
        knl = lp.tag_array_axes(knl, f"{f}_fetch", ORDER)
        knl = lp.split_iname(knl, f"{f}_col", row, inner_iname=f"{f}_part")
        knl = lp.split_iname(knl, f"{f}_part", 16 // size, inner_tag="vec")
        knl = lp.join_inames(knl, f"{f}_col_outer, {f}_row, {f}_part_outer", item := f"{f}_item")
        knl = lp.split_iname(knl, item, 128, inner_tag="l.0")
        knl = lp.split_iname(knl, f"{item}_outer", 2, inner_tag="l.1", outer_tag="unr")
    return lp.align_temporaries(knl, "a_fetch, b_fetch", 1024)


def staged(knl: lp.TranslationUnit) -> lp.TranslationUnit:
    """Keep four tiles of each factor: two on their way, and two that tensor cores read."""
    return lp.pipeline(lp.async_copy(knl, "a_fetch_rule, b_fetch_rule"), "k_outer", 4, ahead=2)


def schedule(
    knl: lp.TranslationUnit, size: int, columns: str, **precision: str
) -> lp.TranslationUnit:
    """Schedule a product of numbers of *size* bytes, with the loops over *columns* of a tile."""
    knl = fetched(of_warpgroups(knl, size), size, columns)
    knl = lp.tag_array_axes(knl, "a_fetch, b_fetch", "swizzle:128")
    loops, shape = "i_inner_inner, j_inner, k_inner_inner", f"m64n256k{32 // size}"
    return staged(lp.tensorize(knl, "insn", loops, shape, **precision))


CASES = (
    Case(
        title="product, bfloat16, by warpgroups",
        kernel=make_product,
        schedule=partial(schedule, size=2, columns=f"{TERMS}, {COLUMNS}"),
        inputs=lambda rng, n: {name: rng.random((n, n)).astype(BFLOAT16) for name in "ab"},
        expected=lambda given: given["a"].astype(np.float64) @ given["b"].astype(np.float64),
        work=lambda n: 2 * n**3,
        unit="TFLOP/s",
        size=4096,
        small=1024,
        result="c",
    ),
    Case(
        title="product, TF32, by warpgroups",
        kernel=make_product_of_rows,
        schedule=partial(schedule, size=4, columns=f"{COLUMNS}, {TERMS}", precision="tf32"),
        inputs=lambda rng, n: {name: rng.random((n, n), np.float32) for name in "ab"},
        expected=lambda given: given["a"].astype(np.float64) @ given["b"].astype(np.float64).T,
        work=lambda n: 2 * n**3,
        unit="TFLOP/s",
        size=4096,
        small=1024,
        tolerance=2e-3,
        result="c",
    ),
)
