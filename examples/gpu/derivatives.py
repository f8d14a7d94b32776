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


def on_tensor_cores(knl: lp.TranslationUnit) -> lp.TranslationUnit:
    """Let warps multiply 32 elements by 112 rows, of which 105 exist; a product is three of TF32.

    The order of elements and rows in fragments avoids conflicts of the banks of local memory.
    """
    knl = lp.pad_inames(lp.pad_inames(knl, "j", 8), "i", 4)
    knl = lp.split_iname(knl, "e", 160)
    tile: Any = {"default_tag": None, "temporary_address_space": LOCAL}
    around: Any = {"fetch_outer_inames": "f, e_outer"}
    knl = lp.add_prefetch(knl, "u", "e_inner, j", "pf, pe, pj", **around, **tile)
    knl = by_five_warps(knl, ["pe", "pj"], lanes=4)
    knl = lp.buffer_array(knl, "out", "r, e_inner, i", init_expression=False, **tile)
    knl = lp.tag_inames(knl, "out_store_0:unr")
    knl = by_five_warps(knl, ["out_store_2", "out_store_3"], lanes=4)
    knl = lp.pad_inames(lp.join_inames(knl, "r, i", "row"), "row", 8)
    knl = lp.split_iname(lp.join_inames(knl, "f, e_outer", "tile"), "tile", 264, inner_tag="g.0")
    once: Any = {"precompute_inames": "prow, pterm", "precompute_outer_inames": "tile_inner"}
    knl = lp.precompute(knl, "d_padded", "row, j", temporary_name="matrices", **once, **tile)
    knl = lp.add_padding(by_five_warps(knl, ["prow", "pterm"], lanes=1), "matrices", 0, 44 * 4)
    knl = lp.split_iname(knl, "e_inner", 32, inner_iname="own", outer_tag="l.1")
    knl = lp.split_iname(knl, "own", 4, outer_iname="group", inner_iname="four")
    knl = lp.split_iname(knl, "four", 2, inner_iname="half", outer_tag="ilp")
    knl = lp.join_inames(knl, "half, group", "element")
    knl = lp.split_iname(knl, "row", 8, inner_iname="eight", outer_tag="ilp")
    knl = lp.split_iname(knl, "eight", 4, outer_iname="part", inner_iname="place")
    knl = lp.join_inames(knl, "place, part", "column")
    knl = lp.split_iname(knl, "j", 8, outer_tag="unr")
    knl = lp.tensorize(knl, "insn_sum", "element, column, j_inner", "m16n8k8", precision="3xtf32")
    return lp.align_temporaries(knl, "u_fetch, out_buf", 16)


def by_five_warps(knl: lp.TranslationUnit, axes: list[str], lanes: int) -> lp.TranslationUnit:
    run = axes[0] + "_run"
    knl = lp.split_iname(lp.join_inames(knl, axes, run), run, lanes, inner_tag="vec")
    knl = lp.split_iname(knl, f"{run}_outer", 32, outer_iname=f"{run}_warps", inner_tag="l.0")
    return lp.split_iname(knl, f"{run}_warps", 5, outer_tag="unr", inner_tag="l.1")


def as_one_run(knl: lp.TranslationUnit, axes: list[str]) -> lp.TranslationUnit:
    run = axes[0] + "_run"
    knl = lp.split_iname(lp.join_inames(knl, axes, run), run, 4, inner_tag="vec")
    return lp.split_iname(knl, f"{run}_outer", 160, outer_tag="unr", inner_tag="l.0")


def _in_torch(torch: Any, on: Any) -> Any:
    matrices = torch.from_numpy(MATRICES).cuda()
    return lambda: torch.einsum("rij,fej->rfei", matrices, on["u"])


CASES = tuple(
    Case(
        title=title,
        kernel=derivatives,
        schedule=schedule,
        inputs=lambda rng, n: {"u": rng.random((FIELDS, n, NODES), dtype=F32)},
        expected=lambda given: np.einsum("rij,fej->rfei", MATRICES, given["u"], optimize=True),
        work=lambda n: 4 * FIELDS * n * NODES * 4,
        size=100_000,
        small=320,
        peer=_in_torch,
    )
    for title, schedule in (
        ("derivatives of DG", columns_of_numbers),
        ("derivatives of DG, 3xTF32", on_tensor_cores),
    )
)
