"""The product of two matrices: 8 x 8 sums in each work-item, tiles of both factors in vectors."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from case import Case

import kgen as lp

LOCAL = lp.AddressSpace.LOCAL


def product(dtype: Any, n: int, target: Any) -> lp.TranslationUnit:
    data = [lp.GlobalArg("a, b, out", dtype, shape=(n, n))]
    domain = f"{{ [i, j, k]: 0 <= i, j, k < {n} }}"
    text = "out[i, j] = sum(k, a[i, k]*b[k, j])"
    return lp.make_kernel(domain, text, data, target=target)


def tiles_of_vectors(lanes: int, knl: lp.TranslationUnit) -> lp.TranslationUnit:
    """Let 16 x 16 work-items have pieces of *lanes* x *lanes* sums in a square of 128."""
    for name, axis in (("i", 1), ("j", 0)):
        knl = lp.split_iname(knl, name, 128, outer_tag=f"g.{axis}", inner_iname=f"{name}b")
        knl = lp.split_iname(knl, f"{name}b", 16 * lanes, outer_tag="ilp", outer_iname=f"{name}p")
        own: Any = {"outer_iname": f"{name}l", "inner_iname": f"{name}v", "inner_tag": "ilp"}
        knl = lp.split_iname(knl, f"{name}b_inner", lanes, outer_tag=f"l.{axis}", **own)
    knl = lp.split_iname(knl, "k", 16)
    knl = fetched(knl, "a", "ip, il, iv, k_inner", "k_outer", lanes)
    knl = fetched(knl, "b", "jp, jl, jv, k_inner", "k_outer", lanes)
    knl = lp.tag_array_axes(knl, "a_tile", "N0, N1")
    for name, axis in (("a", 0), ("b", 1)):
        knl = lp.split_array_axis(knl, f"{name}_tile", axis, 16 * lanes)
    knl = in_registers(knl, "a_tile", "ip, iv", ["ap", "av"])
    knl = in_registers(knl, "b_tile", "jp, jv", ["bk", "bp", "bv"])
    knl = lp.tag_inames(knl, "k_inner:unr, ap:unr, av:vec, bp:unr, bv:vec")
    knl = lp.add_padding_to_avoid_bank_conflicts(knl, "a_tile")
    return lp.pipeline(knl, "k_outer", 2, "a_tile, b_tile")


def fetched(
    knl: lp.TranslationUnit, array: str, sweep: str, loop: str, lanes: int
) -> lp.TranslationUnit:
    """Fetch a tile in vectors: work-items side by side along the last axis of the array."""
    axes, outer = [f"{array}_row", f"{array}_column"], f"i_outer, j_outer, {loop}"
    tile: Any = {"temporary_name": f"{array}_tile", "temporary_address_space": LOCAL}
    knl = lp.add_prefetch(
        knl, array, sweep, axes, default_tag=None, fetch_outer_inames=outer, **tile
    )
    knl = lp.split_iname(knl, axes[1], lanes, inner_tag="vec")
    knl = lp.join_inames(knl, [axes[0], f"{axes[1]}_outer"], f"{array}_run")
    knl = lp.split_iname(knl, f"{array}_run", 256, outer_tag="unr")
    knl = lp.split_iname(knl, f"{array}_run_inner", 16, outer_tag="l.1", inner_tag="l.0")
    return lp.align_temporaries(knl, f"{array}_tile", 16)


def in_registers(
    knl: lp.TranslationUnit, tile: str, sweep: str, axes: list[str]
) -> lp.TranslationUnit:
    outer = "i_outer, j_outer, k_outer, k_inner, il, jl"
    return lp.add_prefetch(knl, tile, sweep, axes, default_tag=None, fetch_outer_inames=outer)


def _case(title: str, dtype: Any) -> Case:
    return Case(
        title=title,
        kernel=partial(product, dtype),
        schedule=partial(tiles_of_vectors, 16 // np.dtype(dtype).itemsize),
        inputs=lambda rng, n: {name: rng.random((n, n)).astype(dtype) for name in "ab"},
        expected=lambda given: given["a"].astype(np.float64) @ given["b"].astype(np.float64),
        work=lambda n: 2 * n**3,
        unit="TFLOP/s",
        size=4096,
        small=256,
        peer=lambda torch, on: lambda: torch.matmul(on["a"], on["b"], out=on["out"]),
    )


CASES = (_case("product, float32", np.float32), _case("product, float64", np.float64))
