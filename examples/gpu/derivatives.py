"""
Derivatives of fields
=====================

Derivatives of a discontinuous Galerkin method: three 35 x 35 matrices by four fields.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from case import Case

import kgen as lp

F32, LOCAL = np.float32, lp.AddressSpace.LOCAL
TILE: Any = {"default_tag": None, "temporary_address_space": LOCAL}
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
    knl = lp.add_prefetch(
        knl, "u", "e_inner, j", "pf, pe, pj", fetch_outer_inames="e_outer, f", **TILE
    )
    knl = as_one_run(knl, ["pe", "pj"], 160)
    own: Any = {"default_tag": None, "fetch_outer_inames": "e_outer, f, e_inner"}
    knl = lp.add_prefetch(knl, "u_fetch", "j", "qe, qj", temporary_name="column", **own)
    knl = lp.buffer_array(knl, "out", "e_inner, i", init_expression=False, **TILE)
    knl = as_one_run(lp.tag_inames(knl, "qj:unr"), ["out_store_2", "out_store_3"], 160)
    knl = lp.align_temporaries(knl, "u_fetch, out_buf", 16)
    return lp.alias_temporaries(knl, "u_fetch, out_buf", "tile")


def as_one_run(knl: lp.TranslationUnit, axes: list[str], items: int) -> lp.TranslationUnit:
    run = axes[0] + "_run"
    knl = lp.split_iname(lp.join_inames(knl, axes, run), run, 4, inner_tag="vec")
    return lp.split_iname(knl, f"{run}_outer", items, outer_tag="unr", inner_tag="l.0")


def on_tensor_cores(knl: lp.TranslationUnit, groups: int = 132) -> lp.TranslationUnit:
    """Give each of 12 warps tiles of 16 elements; matrices stay in local memory, in two parts."""
    knl = with_mma(matrices_in_parts(tiles_of_warps(knl, groups)))
    knl = lp.pipeline(lp.async_copy(knl, "u_fetch_rule"), "step", stages=2)
    return lp.add_dependency(knl, "id:u_fetch_rule_prologue", "id:d_padded*")


def tiles_of_warps(knl: lp.TranslationUnit, groups: int) -> lp.TranslationUnit:
    """Let warps copy and store their own tiles, so that no warp waits for another one."""
    knl = lp.pad_inames(lp.pad_inames(knl, "j", 8), "i", 4)
    knl = lp.split_iname(knl, "e", 16)
    around = "f, e_outer"
    knl = lp.add_prefetch(knl, "u", "e_inner, j", "pf, pe, pj", fetch_outer_inames=around, **TILE)
    knl = lp.buffer_array(knl, "out", "r, e_inner, i", init_expression=False, **TILE)
    knl = as_one_run(lp.tag_inames(knl, "out_store_0:unr"), ["out_store_2", "out_store_3"], 32)
    knl = lp.join_inames(as_one_run(knl, ["pe", "pj"], 32), around, "tile")
    knl = lp.split_iname(knl, "tile", 12 * groups, outer_iname="step", inner_iname="group")
    knl = lp.split_iname(knl, "group", 12, inner_iname="warp", outer_tag="g.0", inner_tag="l.1")
    knl = lp.privatize_temporaries_with_inames(knl, "warp", "u_fetch, out_buf")
    knl = lp.tag_array_axes(knl, "u_fetch", "N1,N0,N2")
    knl = lp.tag_array_axes(knl, "out_buf", "N2,N1,N0,N3")
    return lp.align_temporaries(knl, "u_fetch, out_buf", 16)


def matrices_in_parts(knl: lp.TranslationUnit) -> lp.TranslationUnit:
    """Fetch the rows of all matrices once; what a lane needs for a step is 16 bytes."""
    knl = lp.pad_inames(lp.join_inames(knl, "r, i", "q"), "q", 8)
    own: Any = {"temporary_name": "parts", "precompute_outer_inames": "group_outer", **TILE}
    knl = lp.precompute(knl, "d_padded", "q, j", precompute_inames="dq, dj", **own)
    knl = lp.split_iname(lp.join_inames(knl, "dq, dj", "item"), "item", 32, inner_tag="l.0")
    knl = lp.split_iname(knl, "item_outer", 12, outer_tag="unr", inner_tag="l.1")
    knl = lp.split_values(knl, "parts")
    for axis, count in ((1, 4), (1, 2), (0, 4), (0, 2)):
        knl = lp.split_array_axis(knl, "parts", axis, count)
    return lp.align_temporaries(
        lp.tag_array_axes(knl, "parts", "N6,N3,N4,N5,N0,N2,N1"), "parts", 16
    )


def with_mma(knl: lp.TranslationUnit) -> lp.TranslationUnit:
    """Multiply 16 elements by 8 rows; their order avoids bank conflicts of loads and stores."""
    knl = lp.split_iname(knl, "e_inner", 2, outer_iname="pair", inner_iname="half")
    knl = lp.join_inames(knl, "half, pair", "element")
    knl = lp.split_iname(knl, "q", 8, outer_tag="ilp")
    knl = lp.join_inames(lp.split_iname(knl, "q_inner", 4), "q_inner_inner, q_inner_outer", "row")
    knl = lp.split_iname(knl, "j", 8, outer_tag="unr")
    return lp.tensorize(knl, "insn_sum", "element, row, j_inner", "m16n8k8", precision="3xtf32")


def _in_torch(torch: Any, on: Any) -> Any:
    matrices = torch.from_numpy(MATRICES).cuda()
    return lambda: torch.einsum("rij,fej->rfei", matrices, on["u"])


def _case(
    title: str, schedule: Callable[[lp.TranslationUnit], lp.TranslationUnit], **stated: Any
) -> Case:
    return Case(
        title=title,
        kernel=derivatives,
        schedule=schedule,
        inputs=lambda rng, n: {"u": rng.random((FIELDS, n, NODES), dtype=F32)},
        expected=lambda given: np.einsum("rij,fej->rfei", MATRICES, given["u"], optimize=True),
        work=lambda n: 4 * FIELDS * n * NODES * 4,
        size=100_000,
        small=320,
        stated=stated,
        peer=_in_torch,
    )


CASES = (
    _case("derivatives of DG", columns_of_numbers),
    _case("derivatives of DG, in two parts", on_tensor_cores, precision="3xtf32"),
)
