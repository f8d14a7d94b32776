"""
Derivatives of fields
=====================

Derivatives of a discontinuous Galerkin method: three 35 x 35 matrices by four fields.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from case import Case

import kgen as lp

F32, LOCAL = np.float32, lp.AddressSpace.LOCAL
NODES, FIELDS = 35, 4
#: The matrices belong to the program: their numbers become operands of instructions.
MATRICES = np.random.default_rng(11).random((3, NODES, NODES), dtype=F32) - F32(0.5)


def derivatives(n: int, target: Any) -> lp.TranslationUnit:
    space = lp.AddressSpace.GLOBAL
    data = [
        lp.TemporaryVariable("d", initializer=MATRICES, read_only=True, address_space=space),
        lp.GlobalArg("u", F32, shape=(FIELDS, n, NODES)),
        lp.GlobalArg("out", F32, shape=(3, FIELDS, n, NODES)),
    ]
    domain = "{ [r, f, e, i, j]: 0 <= r < 3 and 0 <= f < 4 and 0 <= e < %d and 0 <= i, j < 35 }"
    text = "out[r, f, e, i] = sum(j, d[r, i, j]*u[f, e, j])"
    return lp.make_kernel(domain % n, text, data, target=target)


def columns_of_numbers(knl: lp.TranslationUnit) -> lp.TranslationUnit:
    """Give work-items an element and a field; what they read and write are runs of vectors."""
    knl = lp.split_iname(knl, "e", 160, outer_tag="g.0", inner_tag="l.0")
    knl = lp.tag_inames(knl, "f:g.1, j:unr, r:unr, i:unr")
    tile: Any = {"default_tag": None, "temporary_address_space": LOCAL}
    knl = lp.add_prefetch(
        knl, "u", "e_inner, j", "pf, pe, pj", fetch_outer_inames="e_outer, f", **tile
    )
    knl = as_one_run(knl, ["pe", "pj"])
    own: Any = {"default_tag": None, "fetch_outer_inames": "e_outer, f, e_inner"}
    knl = lp.add_prefetch(knl, "u_fetch", "j", "qe, qj", temporary_name="column", **own)
    knl = lp.buffer_array(knl, "out", "e_inner, i", init_expression=False, **tile)
    knl = as_one_run(lp.tag_inames(knl, "qj:unr"), ["out_store_2", "out_store_3"])
    knl = lp.align_temporaries(knl, "u_fetch, out_buf", 16)
    return lp.alias_temporaries(knl, "u_fetch, out_buf", "tile")


def as_one_run(knl: lp.TranslationUnit, axes: list[str]) -> lp.TranslationUnit:
    run = axes[0] + "_run"
    knl = lp.split_iname(lp.join_inames(knl, axes, run), run, 4, inner_tag="vec")
    return lp.split_iname(knl, f"{run}_outer", 160, outer_tag="unr", inner_tag="l.0")


def _in_torch(torch: Any, on: Any) -> Any:
    matrices = torch.from_numpy(MATRICES).cuda()
    return lambda: torch.einsum("rij,fej->rfei", matrices, on["u"])


CASES = (
    Case(
        title="derivatives of DG",
        kernel=derivatives,
        schedule=columns_of_numbers,
        inputs=lambda rng, n: {"u": rng.random((FIELDS, n, NODES), dtype=F32)},
        expected=lambda given: np.einsum("rij,fej->rfei", MATRICES, given["u"], optimize=True),
        work=lambda n: 4 * FIELDS * n * NODES * 4,
        size=100_000,
        small=320,
        peer=_in_torch,
    ),
)
