"""Products that warpgroups compute, whose tiles are in local memory as the PTX ISA asks for."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

import kgen as lp
from tests.cuda_host import LaunchMemoryTarget
from tests.transforms.helpers import kernel_of

__all__ = ["BY_ROWS", "TEXT", "TURNED", "warpgroup_product"]

TEXT = "c[i, j] = sum(k, a[i, k]*b[k, j])"
TURNED = "c[i, j] = sum(k, a[k, i]*b[j, k])"
BY_ROWS = "c[i, j] = sum(k, a[i, k]*b[j, k])"


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
    size = np.dtype(dtype).itemsize
    knl = lp.split_iname(knl, "k", 128 // size)
    knl = lp.split_iname(knl, "k_inner", 32 // size, outer_tag="unr")
    return _staged(knl, text, size, **kwargs)


def _staged(
    knl: lp.TranslationUnit,
    text: str,
    size: int,
    stages: int = 2,
    ahead: int | None = None,
    layout: str | None = "swizzle:128",
    alignment: int = 1024,
    fetches: str = "ab",
    shape: str | None = None,
) -> lp.TranslationUnit:
    """Return it with tiles in local memory, the rows of which have 128 bytes."""
    loops = {"i": "i_inner", "j": "j_inner", "k": "k_inner_outer, k_inner_inner"}
    row = 128 // size
    for f in fetches:
        axes = re.search(rf"{f}\[(.), (.)\]", text)
        assert axes is not None
        swept, around = [loops[axis] for axis in axes.groups()], "i_outer, j_outer, k_outer"
        knl = lp.add_prefetch(
            knl, f, ", ".join(swept), f"{f}0, {f}1", None, fetch_outer_inames=around
        )
        knl = lp.split_array_axis(knl, f"{f}_fetch", 1, row)
        knl = lp.tag_array_axes(knl, f"{f}_fetch", "N1, N2, N0")
        knl = lp.split_iname(knl, f"{f}1", row)
        knl = lp.split_iname(knl, f"{f}1_inner", 16 // size, inner_tag="vec")
        knl = lp.join_inames(knl, f"{f}1_outer, {f}0, {f}1_inner_outer", f * 2)
        knl = lp.split_iname(knl, f * 2, 128, inner_tag="l.0", outer_tag="unr")
        knl = lp.align_temporaries(knl, f"{f}_fetch", alignment)
        knl = knl if layout is None else lp.tag_array_axes(knl, f"{f}_fetch", layout)
    columns = kernel_of(knl).get_iname_bounds("j_inner").extent
    shape = shape or f"m64n{columns}k{32 // size}"
    precision = "tf32" if size == 4 else None
    knl = lp.tensorize(knl, "insn", "i_inner, j_inner, k_inner_inner", shape, precision=precision)
    if stages > 1:
        knl = lp.async_copy(knl, [f"{f}_fetch_rule" for f in fetches])
        knl = lp.pipeline(knl, "k_outer", stages, ahead=ahead)
    return knl
