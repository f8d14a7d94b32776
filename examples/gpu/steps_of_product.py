"""
Steps of a product
==================

A product of two matrices, from a loop to the schedules that are best, step by step.

docs/product.md goes through the steps, and benchmarks/product_steps.py times them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from product import KNOWN, OF_GROUPS, more_sums, pieces, product, tiles, vectors_of_tiles
from tensor_product import (
    BFLOAT16,
    fetched,
    make_product,
    of_warps,
    schedule,
    swizzled,
    with_mma,
)

import kgen as lp

FLOAT32 = np.dtype(np.float32)


def loops(knl: lp.TranslationUnit) -> lp.TranslationUnit:
    return knl


def work_groups(knl: lp.TranslationUnit) -> lp.TranslationUnit:
    knl = lp.split_iname(knl, "i", 16, outer_tag="g.1", inner_tag="l.1")
    return lp.split_iname(knl, "j", 16, outer_tag="g.0", inner_tag="l.0")


def shared_memory(knl: lp.TranslationUnit) -> lp.TranslationUnit:
    knl = lp.split_iname(work_groups(knl), "k", 16)
    knl = lp.add_prefetch(knl, "a", "i_inner, k_inner", fetch_outer_inames=OF_GROUPS)
    return lp.add_prefetch(knl, "b", "k_inner, j_inner", fetch_outer_inames=OF_GROUPS)


def registers(knl: lp.TranslationUnit) -> lp.TranslationUnit:
    knl = lp.split_iname(pieces(knl), "k", 16, inner_tag="unr")
    knl = lp.add_prefetch(knl, "a", "ip, il, iv, k_inner", fetch_outer_inames=OF_GROUPS)
    return lp.add_prefetch(knl, "b", "k_inner, jp, jl, jv", fetch_outer_inames=OF_GROUPS)


def vectors(knl: lp.TranslationUnit) -> lp.TranslationUnit:
    return tiles(pieces(knl))


def layout(knl: lp.TranslationUnit) -> lp.TranslationUnit:
    return vectors_of_tiles(vectors(knl))


def padding(knl: lp.TranslationUnit) -> lp.TranslationUnit:
    return lp.add_padding_to_avoid_bank_conflicts(layout(knl), "a_tile")


def pipeline(knl: lp.TranslationUnit) -> lp.TranslationUnit:
    return lp.pipeline(padding(knl), "k_outer", 2, "a_tile, b_tile")


def of_any_size(_: int, target: Any) -> lp.TranslationUnit:
    """Return the product for all sizes of which rows are whole vectors."""
    return lp.make_kernel(
        "{ [i, j, k]: 0 <= i, j, k < n }",
        "out[i, j] = sum(k, a[i, k]*b[k, j])",
        [lp.GlobalArg("a, b, out", FLOAT32, shape="n, n"), ...],
        target=replace(target, min_groups=2),
        assumptions="1 <= n <= 40000 and n mod 4 = 0",
        silenced_warnings=KNOWN,
    )


def tensor_cores(knl: lp.TranslationUnit) -> lp.TranslationUnit:
    return with_mma(fetched(of_warps(knl)))


def swizzles(knl: lp.TranslationUnit) -> lp.TranslationUnit:
    return with_mma(swizzled(fetched(of_warps(knl))))


def of_size(n: int, target: Any) -> lp.TranslationUnit:
    return product(FLOAT32, n, target)


@dataclass(frozen=True)
class Step:
    """A schedule, the kernel that it is for, and the size to time it for, if it is a special one.

    *kernel* makes the kernel for a size and a target; *dtype* is that of the factors.
    """

    title: str
    schedule: Callable[[lp.TranslationUnit], lp.TranslationUnit]
    kernel: Callable[[int, Any], lp.TranslationUnit] = of_size
    dtype: np.dtype[Any] = FLOAT32
    size: int | None = None

    def scheduled(self, n: int, target: Any) -> lp.TranslationUnit:
        """Return the kernel with its schedule."""
        return self.schedule(self.kernel(n, target))


STEPS = (
    Step("loops, one work-item", loops, size=128),
    Step("work-groups", work_groups),
    Step("shared memory", shared_memory),
    Step("registers", registers),
    Step("vectors", vectors),
    Step("layout", layout),
    Step("padding", padding),
    Step("pipeline", pipeline),
    Step("more sums", more_sums),
    Step("any size", pipeline, of_any_size),
    Step("any size, tiles at the border", pipeline, of_any_size, size=4060),
    Step("tensor cores", tensor_cores, make_product, BFLOAT16),
    Step("swizzles", swizzles, make_product, BFLOAT16),
    Step("asynchronous copies", schedule, make_product, BFLOAT16),
)
