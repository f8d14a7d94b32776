"""
Softmax of rows
===============

The softmax of rows: each row is in shared memory while its maximum and its sum are found.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from case import Arrays, Case

import kgen as lp

F32 = np.float32


def softmax(n: int, target: Any) -> lp.TranslationUnit:
    text = """
    for r
        <> most = max(i, a[r, i])
        <> scale = 1/sum(j, exp(a[r, j] - most))
        out[r, k] = exp(a[r, k] - most)*scale
    end
    """
    data = [lp.GlobalArg("a, out", F32, shape=(8192, n))]
    domain = f"{{ [r, i, j, k]: 0 <= r < 8192 and 0 <= i, j, k < {n} }}"
    return lp.make_kernel(domain, text, data, target=target, seq_dependencies=True)


def row_for_each_group(knl: lp.TranslationUnit) -> lp.TranslationUnit:
    """Let 256 work-items share a row, four adjacent numbers at a time."""
    for name, tag in (("i", "unr"), ("j", "unr"), ("k", "vec")):
        knl = lp.split_iname(knl, name, 4, outer_iname=f"{name}o", inner_tag=tag)
        knl = lp.split_iname(knl, f"{name}o", 256, outer_tag="unr", inner_tag="l.0")
    sweep = [f"{name}{part}" for name in "ijk" for part in ("o_outer", "o_inner", "_inner")]
    tile: Any = {"temporary_name": "row", "temporary_address_space": lp.AddressSpace.LOCAL}
    knl = lp.add_prefetch(
        knl, "a", sweep, ["at", "c"], default_tag=None, fetch_outer_inames="r", **tile
    )
    knl = lp.split_iname(knl, "c", 4, inner_tag="vec")
    knl = lp.split_iname(knl, "c_outer", 256, outer_tag="unr", inner_tag="l.0")
    return lp.tag_inames(lp.align_temporaries(knl, "row", 16), "r:g.0")


def _expected(given: Arrays) -> np.ndarray[Any, Any]:
    a = given["a"].astype(np.float64)
    powers = np.exp(a - a.max(axis=1, keepdims=True))
    result: np.ndarray[Any, Any] = powers / powers.sum(axis=1, keepdims=True)
    return result


CASES = (
    Case(
        title="softmax of 8192 rows",
        kernel=softmax,
        schedule=row_for_each_group,
        inputs=lambda rng, n: {"a": rng.random((8192, n), dtype=F32)},
        expected=_expected,
        work=lambda n: 8 * 8192 * n,
        size=8192,
        small=1024,
        peer=lambda torch, on: lambda: torch.softmax(on["a"], dim=1),
    ),
)
