"""Kernels that several tests draw."""

from __future__ import annotations

from typing import Any

import kgen as lp


def stencil(target: Any = None) -> lp.TranslationUnit:
    """A sum of five neighbours, of which tiles of 4 x 8 are fetched."""
    knl = lp.make_kernel(
        "{ [i, j]: 1 <= i, j < n - 1 }",
        "b[i, j] = a[i-1, j] + a[i, j-1] + a[i, j] + a[i, j+1] + a[i+1, j]",
        [lp.GlobalArg("a, b", "float32", shape="n, n"), ...],
        target=target or lp.OpenCLTarget(),
    )
    knl = lp.split_iname(knl, "j", 8, outer_tag="g.0", inner_tag="l.0")
    knl = lp.split_iname(knl, "i", 4, outer_tag="g.1", inner_tag="l.1")
    return lp.add_prefetch(knl, "a", "i_inner, j_inner", default_tag="l.auto")


def transpose(*, size: int = 32, padding: int = 0) -> lp.TranslationUnit:
    """A transposed copy by tiles in local memory, whose rows may have further elements."""
    knl = lp.make_kernel(
        "{ [i, j]: 0 <= i, j < 64 }",
        "out[j, i] = a[i, j]",
        [lp.GlobalArg("a", "float32", shape="64, 64"), ...],
        target=lp.OpenCLTarget(),
    )
    knl = lp.split_iname(knl, "i", size, outer_tag="g.1", inner_tag="l.0")
    knl = lp.split_iname(knl, "j", size, outer_tag="g.0", inner_tag="l.1")
    knl = lp.add_prefetch(knl, "a", "i_inner, j_inner", default_tag="l.auto")
    return lp.tag_array_axes(knl, "a_fetch", f"stride:{size + padding}, stride:1")


def wave() -> lp.TranslationUnit:
    """A recurrence in time that needs three neighbours of the step before."""
    return lp.make_kernel(
        "{ [t, i]: 1 <= t < m and 1 <= i < n - 1 }",
        "a[t, i] = a[t-1, i-1] + a[t-1, i] + a[t-1, i+1]",
        [lp.GlobalArg("a", "float64", shape="m, n"), ...],
        target=lp.CTarget(),
    )


def product() -> lp.TranslationUnit:
    """A product of matrices."""
    return lp.make_kernel(
        "{ [i, j, k]: 0 <= i, j, k < n }",
        "c[i, j] = sum(k, a[i, k]*b[k, j])",
        [lp.GlobalArg("a, b", "float32", shape="n, n"), ...],
        target=lp.OpenCLTarget(),
    )
