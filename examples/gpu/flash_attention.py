"""
Flash attention
===============

Attention of float16, forward: blocks of keys one after the other, scores and weights in registers.

The kernel is the recurrence of the online softmax (T. Dao et al., FlashAttention, 2022): a largest
score, a sum of weights, and a result that is scaled down when a larger score is found.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from case import Arrays, Case

import kgen as lp

HEADS, WIDTH, BLOCK = 32, 128, 64

TEXT = """
for h, i
    <float32> largest = -1e30  {{id=largest0}}
    <float32> total = 0  {{id=total0}}
    o[e] = 0  {{id=o0}}
    for t
        s[j] = sum(d, cast(np.float32, q[h, i, d])*cast(np.float32, k[h, {block}*t + j, d])) \
{{id=scores, dep=o0:largest0}}
        <float32> now = fmax(largest, scale*max(j_max, s[j_max]))  {{id=now, dep=scores}}
        <float32> down = native_exp2(largest - now)  {{id=down, dep=now}}
        s[j] = native_exp2(scale*s[j] - now)  {{id=weights, dep=now}}
        w[j] = s[j]  {{id=rounded, dep=weights}}
        total = down*total + sum(j_sum, s[j_sum])  {{id=total, dep=weights:down:total0}}
        o[e] = down*o[e]  {{id=scaled, dep=down}}
        o[e] = o[e] + cast(np.float32, w[jj])*cast(np.float32, v[h, {block}*t + jj, e]) \
{{id=values, inames=h:i:t:e:jj, dep=rounded:scaled}}
        largest = now  {{id=largest, dep=down:weights}}
    end
    <float32> part = 1/total  {{id=part, dep=total}}
    out[h, i, e] = part*o[e]  {{dep=values:part}}
end
"""


def make_attention(
    n: int, target: Any, heads: int = HEADS, width: int = WIDTH, block: int = BLOCK
) -> lp.TranslationUnit:
    """Return attention as it is written, of *n* queries and keys, a multiple of 128."""
    knl = lp.make_kernel(
        [
            f"{{ [h, i, t]: 0 <= h < heads and 0 <= i < n and 0 <= t < n/{block} }}",
            f"{{ [j, j_max, j_sum, jj]: 0 <= j, j_max, j_sum, jj < {block} }}",
            f"{{ [d, e]: 0 <= d, e < {width} }}",
        ],
        TEXT.format(block=block),
        [
            lp.GlobalArg("q, k, v, out", np.float16, shape=f"heads, n, {width}"),
            lp.TemporaryVariable("s", np.float32, shape=block),
            lp.TemporaryVariable("w", np.float16, shape=block),
            lp.TemporaryVariable("o", np.float32, shape=width),
            "...",
        ],
        target=target,
        name="attention",
    )
    scale = np.float32(math.log2(math.e) / math.sqrt(width))
    return lp.fix_parameters(knl, n=n, heads=heads, scale=scale)


def fetched(
    knl: lp.TranslationUnit, f: str, swept: str, axes: str, around: str, row: int
) -> lp.TranslationUnit:
    """Fetch rows of 16 bits by four warps, 8 numbers at a time; rows lie in different banks."""
    knl = lp.add_prefetch(knl, f, swept, axes, None, fetch_outer_inames=around)
    knl = lp.split_iname(knl, f"{f}_col", 8, inner_tag="vec")
    knl = lp.join_inames(knl, f"{f}_row, {f}_col_outer", item := f"{f}_item")
    for axis, count in enumerate((4, 8, 4)):
        knl = lp.split_iname(knl, item + axis * "_outer", count, inner_tag=f"l.{axis}")
    knl = lp.align_temporaries(knl, f"{f}_fetch", 16)
    return lp.tag_array_axes(knl, f"{f}_fetch", f"stride:{row + 8}, stride:1")


def of_warps(knl: lp.TranslationUnit) -> lp.TranslationUnit:
    """Let each of four warps have 32 rows of two products, in tiles of tensor cores."""
    knl = lp.split_iname(knl, "i_inner", 32, inner_iname="i_warp", outer_tag="l.2")
    for x, length in (("i_warp", 16), ("j", 8), ("e", 8)):
        knl = lp.split_iname(knl, x, length, inner_iname=f"{x}_mma", outer_tag="ilp")
    for x in ("d", "jj"):
        knl = lp.split_iname(knl, x, 16, inner_iname=f"{x}_mma", outer_tag="unr")
    return knl


def schedule(knl: lp.TranslationUnit) -> lp.TranslationUnit:
    """Keep scores, weights and results in registers, and fetch the next keys and values."""
    width = int(knl.default_entrypoint.temporary_variables["o"].shape[0])
    knl = lp.tag_inames(lp.split_iname(knl, "i", 128, outer_tag="g.0"), "h: g.1")
    knl = lp.privatize_temporaries_with_inames(knl, "i_inner", "s, w, o")
    for f, swept, around in (("q", "i_inner, d", ""), ("k", "j, d", "t"), ("v", "jj, e", "t")):
        axes = f"{f}_head, {f}_row, {f}_col"
        knl = fetched(knl, f, swept, axes, f"h, i_outer, {around}".rstrip(", "), width)
    knl = of_warps(knl)
    for x in ("j_max", "j_sum"):
        knl = lp.split_iname(knl, x, 8, outer_tag="unr")
        knl = lp.split_iname(knl, f"{x}_inner", 2, outer_tag="l.0", inner_tag="unr")
    knl = lp.tensorize(knl, "scores", "i_warp_mma, j_mma, d_mma", lane="group, pair")
    knl = lp.tensorize(knl, "values", "i_warp_mma, e_mma, jj_mma")
    knl = lp.distribute_temporaries(knl, "s, w, o")
    return lp.pipeline(lp.async_copy(knl, "k_fetch_rule, v_fetch_rule"), "t", stages=2)


def expected(given: Arrays) -> np.ndarray[Any, Any]:
    """Return some rows of the first head."""
    q, k, v = (given[name][0].astype(np.float64) for name in "qkv")
    scores = q[:64] @ k.T / math.sqrt(q.shape[1])
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    result: np.ndarray[Any, Any] = weights @ v / weights.sum(axis=1, keepdims=True)
    return result


CASES = (
    Case(
        title="attention, float16",
        kernel=make_attention,
        schedule=schedule,
        inputs=lambda rng, n: {
            name: rng.standard_normal((HEADS, n, WIDTH), np.float32).astype(np.float16)
            for name in "qkv"
        },
        expected=expected,
        compared=lambda found: found[0, :64],
        work=lambda n: 4 * HEADS * WIDTH * n**2,
        unit="TFLOP/s",
        size=4096,
        small=256,
        tolerance=2e-3,
        peer=lambda torch, on: (
            lambda: torch.nn.functional.scaled_dot_product_attention(on["q"], on["k"], on["v"])
        ),
    ),
)
