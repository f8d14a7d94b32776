"""
Running sums
============

Running sums: tiles in shared memory, each read once; groups wait for the totals of those before.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from case import Case

import kgen as lp

F32 = np.float32


def running_sums(n: int, target: Any) -> lp.TranslationUnit:
    data = [lp.GlobalArg("a, out", F32, shape=n)]
    domain = f"{{ [i, j]: 0 <= j <= i < {n} }}"
    return lp.make_kernel(domain, "out[i] = sum(j, a[j])", data, target=target)


def across_groups(knl: lp.TranslationUnit) -> lp.TranslationUnit:
    """Let 512 work-items scan 11 numbers each; what they read and write are runs of vectors."""
    knl = lp.split_iname(knl, "i", 512 * 11, outer_tag="g.0", slabs=(0, 1))
    knl = lp.split_iname(knl, "i_inner", 11, outer_tag="l.0", inner_tag="unr")
    knl = lp.realize_reduction(knl, force_scan=True)
    tile: Any = {"default_tag": None, "temporary_address_space": lp.AddressSpace.LOCAL}
    names: Any = {"fetch_outer_inames": "i_outer", "prefetch_insn_id": "fetch"}
    knl = lp.add_prefetch(knl, "a", "j_0, j_1", "run", **names, **tile)
    sums = ["i_inner_outer", "i_inner_inner"]
    knl = lp.buffer_array(knl, "out", sums, init_expression=False, **tile)
    knl = lp.align_temporaries(knl, "a_fetch, out_buf", 16)
    knl = lp.tag_inames(in_vectors(in_vectors(knl, "run"), "out_store_0"), "j_0:unr")
    knl = lp.tag_instructions(knl, lp.UseStreamingStoreTag(), "writes:out")
    if isinstance(knl.default_entrypoint.target, lp.CudaTarget):
        knl = lp.async_copy(knl, "fetch")
    return knl


def in_vectors(knl: lp.TranslationUnit, run: str) -> lp.TranslationUnit:
    knl = lp.split_iname(knl, run, 4, inner_tag="vec")
    return lp.split_iname(knl, f"{run}_outer", 512, outer_tag="unr", inner_tag="l.0")


CASES = (
    Case(
        title="running sums",
        kernel=running_sums,
        schedule=across_groups,
        inputs=lambda rng, n: {"a": rng.random(n, dtype=F32)},
        expected=lambda given: np.cumsum(given["a"], dtype=np.float64),
        work=lambda n: 8 * n,
        size=1 << 28,
        small=1 << 13,
        peer=lambda torch, on: lambda: torch.cumsum(on["a"], 0, out=on["out"]),
    ),
)
