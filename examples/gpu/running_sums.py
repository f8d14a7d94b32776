"""
Running sums
============

Running sums: tiles in shared memory, each read once; groups look back at those before.
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
    knl = lp.split_iname(knl, "i", 3840, outer_tag="g.0", slabs=(0, 1))
    knl = lp.split_iname(knl, "i_inner", 15, outer_tag="l.0", inner_tag="unr")
    knl = lp.realize_reduction(knl, force_scan=True)
    tile: Any = {"temporary_address_space": lp.AddressSpace.LOCAL}
    knl = lp.add_prefetch(knl, "a", "j_0, j_1", fetch_outer_inames="i_outer", **tile)
    run = "i_inner_outer, i_inner_inner"
    return lp.buffer_array(knl, "out", run, init_expression=False, **tile)


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
