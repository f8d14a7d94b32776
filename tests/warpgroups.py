"""Products that warpgroups compute, whose tiles are in local memory as the PTX ISA asks for."""

from __future__ import annotations

from typing import Any

import numpy as np

import kgen as lp
from tests.cuda_host import LaunchMemoryTarget
from tests.transforms.helpers import kernel_of

__all__ = ["TEXT", "TURNED", "warpgroup_product"]

TEXT = "c[i, j] = sum(k, a[i, k]*b[k, j])"
TURNED = "c[i, j] = sum(k, a[k, i]*b[j, k])"
#: The loops over a tile of either factor, in the order of its axes.
SWEPT = {
    "a": ["i_inner", "k_inner_outer, k_inner_inner"],
    "b": ["k_inner_outer, k_inner_inner", "j_inner"],
}


def warpgroup_product(
    n: int,
    text: str = TEXT,
    dtype: Any = np.float16,
    target: Any = None,
    rows: int = 128,
    terms: int = 128,
    **kwargs: Any,
) -> lp.TranslationUnit:
    """Return a product of *rows* x *terms* and *terms* x *n* elements."""
    knl = lp.make_kernel(
        f"{{ [i, j, k]: 0 <= i < {rows} and 0 <= j < {n} and 0 <= k < {terms} }}",
        text,
        [
            lp.GlobalArg("a, b", dtype, shape=lp.auto),
            lp.GlobalArg("c", np.float32, shape=lp.auto),
            "...",
        ],
        target=target or LaunchMemoryTarget(),
    )
    knl = lp.split_iname(knl, "i", 64, outer_tag="g.0")
    knl = lp.split_iname(knl, "j", n, outer_tag="g.1")
    knl = lp.split_iname(lp.split_iname(knl, "k", 64), "k_inner", 16, outer_tag="unr")
    return _staged(knl, text, **kwargs)


def _staged(
    knl: lp.TranslationUnit,
    text: str,
    stages: int = 2,
    ahead: int | None = None,
    layout: str | None = "swizzle:128",
    alignment: int = 1024,
    fetches: str = "ab",
    shape: str | None = None,
) -> lp.TranslationUnit:
    """Return it with tiles in local memory, the rows of which have 64 elements."""
    for f in fetches:
        swept = SWEPT[f][::-1] if text == TURNED else SWEPT[f]
        around = "i_outer, j_outer, k_outer"
        knl = lp.add_prefetch(
            knl, f, ", ".join(swept), f"{f}0, {f}1", None, fetch_outer_inames=around
        )
        knl = lp.split_array_axis(knl, f"{f}_fetch", 1, 64)
        knl = lp.tag_array_axes(knl, f"{f}_fetch", "N1, N2, N0")
        knl = lp.split_iname(lp.split_iname(knl, f"{f}1", 64), f"{f}1_inner", 8, inner_tag="vec")
        knl = lp.join_inames(knl, f"{f}1_outer, {f}0, {f}1_inner_outer", f * 2)
        knl = lp.split_iname(knl, f * 2, 128, inner_tag="l.0", outer_tag="unr")
        knl = lp.align_temporaries(knl, f"{f}_fetch", alignment)
        knl = knl if layout is None else lp.tag_array_axes(knl, f"{f}_fetch", layout)
    columns = kernel_of(knl).get_iname_bounds("j_inner").extent
    knl = lp.tensorize(knl, "insn", "i_inner, j_inner, k_inner_inner", shape or f"m64n{columns}k16")
    if stages > 1:
        knl = lp.async_copy(knl, [f"{f}_fetch_rule" for f in fetches])
        knl = lp.pipeline(knl, "k_outer", stages, ahead=ahead)
    return knl
