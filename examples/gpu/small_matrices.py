"""
Small matrices
==============

A million products of 10 x 10 matrices, which come to shared memory as one run of vectors.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from case import Case

import kgen as lp

F32, LOCAL, M = np.float32, lp.AddressSpace.LOCAL, 10


def matvec(n: int, target: Any) -> lp.TranslationUnit:
    data = [lp.GlobalArg("a", F32, shape=(n, M, M)), lp.GlobalArg("x, out", F32, shape=(n, M))]
    domain = f"{{ [e, i, j]: 0 <= e < {n} and 0 <= i, j < {M} }}"
    return lp.make_kernel(domain, "out[e, i] = sum(j, a[e, i, j]*x[e, j])", data, target=target)


def matmat(n: int, target: Any) -> lp.TranslationUnit:
    data = [lp.GlobalArg("a, b, out", F32, shape=(n, M, M))]
    domain = f"{{ [e, i, j, k]: 0 <= e < {n} and 0 <= i, j, k < {M} }}"
    text = "out[e, i, j] = sum(k, a[e, i, k]*b[e, k, j])"
    return lp.make_kernel(domain, text, data, target=target)


def fetched(knl: lp.TranslationUnit, array: str, sweep: str, items: int) -> lp.TranslationUnit:
    """Fetch the matrices of a work-group: all work-items copy adjacent vectors of four."""
    axes = [f"{array}{k}" for k in range(3)]
    tile: Any = {"temporary_name": f"{array}_tile", "temporary_address_space": LOCAL}
    outer: Any = {"default_tag": None, "fetch_outer_inames": "e_outer"}
    knl = lp.add_prefetch(knl, array, sweep, axes, **tile, **outer)
    return as_one_run(lp.align_temporaries(knl, f"{array}_tile", 16), axes, items)


def as_one_run(knl: lp.TranslationUnit, axes: list[str], items: int) -> lp.TranslationUnit:
    run = axes[0] + "_run"
    knl = lp.join_inames(knl, axes, run)
    knl = lp.split_iname(knl, run, 4, inner_tag="vec")
    knl = lp.split_iname(knl, f"{run}_outer", items * M, outer_tag="unr")
    return lp.split_iname(knl, f"{run}_outer_inner", M, outer_tag="l.1", inner_tag="l.0")


def in_pairs(knl: lp.TranslationUnit, array: str, sweep: str, outer: str) -> lp.TranslationUnit:
    """Read pairs of numbers into registers."""
    axes = [f"{array}_{k}" for k in range(3 if "tile" in array else 2)]
    knl = lp.add_prefetch(knl, array, sweep, axes, default_tag=None, fetch_outer_inames=outer)
    return lp.split_iname(knl, axes[-1], 2, inner_tag="vec", outer_tag="unr")


def rows_of_items(knl: lp.TranslationUnit) -> lp.TranslationUnit:
    """Compute a number in each work-item: 32 matrices for each work-group."""
    knl = lp.split_iname(knl, "e", 32, outer_tag="g.0", inner_tag="l.1")
    knl = fetched(lp.tag_inames(knl, "i:l.0"), "a", "e_inner, i, j", 32)
    knl = in_pairs(knl, "x", "j", "e_outer, e_inner, i")
    knl = in_pairs(knl, "a_tile", "j", "e_outer, e_inner, i")
    return lp.tag_inames(knl, "j:unr")


def staged_rows(knl: lp.TranslationUnit) -> lp.TranslationUnit:
    """Compute a row in each work-item; the result goes through shared memory as well."""
    knl = lp.split_iname(knl, "e", 16, outer_tag="g.0", inner_tag="l.1")
    knl = lp.tag_inames(knl, "i:l.0, j:ilp")
    knl = fetched(knl, "a", "e_inner, i, k", 16)
    knl = fetched(knl, "b", "e_inner, k, j", 16)
    knl = in_pairs(knl, "b_tile", "j", "e_outer, e_inner, i, k")
    knl = in_pairs(knl, "a_tile", "k", "e_outer, e_inner, i")
    tile: Any = {"init_expression": False, "default_tag": None, "temporary_address_space": LOCAL}
    knl = lp.buffer_array(knl, "out", "e_inner, i, j", **tile)
    knl = as_one_run(knl, ["out_store_0", "out_store_1", "out_store_2"], 16)
    return lp.tag_inames(lp.align_temporaries(knl, "out_buf", 16), "k:unr")


CASES = (
    Case(
        title="10 x 10 matrix by vector",
        kernel=matvec,
        schedule=rows_of_items,
        inputs=lambda rng, n: {
            "a": rng.random((n, M, M), dtype=F32),
            "x": rng.random((n, M), dtype=F32),
        },
        expected=lambda given: np.einsum("eij,ej->ei", given["a"], given["x"]),
        work=lambda n: 4 * n * (M * M + 2 * M),
        size=1 << 20,
        small=64,
        peer=lambda torch, on: lambda: torch.bmm(on["a"], on["x"][:, :, None]),
    ),
    Case(
        title="10 x 10 matrix by matrix",
        kernel=matmat,
        schedule=staged_rows,
        inputs=lambda rng, n: {name: rng.random((n, M, M), dtype=F32) for name in "ab"},
        expected=lambda given: given["a"].astype(np.float64) @ given["b"],
        work=lambda n: 12 * n * M * M,
        size=1 << 20,
        small=64,
        peer=lambda torch, on: lambda: torch.bmm(on["a"], on["b"], out=on["out"]),
    ),
)
