"""
Fused layers of a perceptron
============================

Layers of a perceptron with bias and activation in the kernel of the product: one, and two of them.

The hidden values between two layers stay in registers: they are what the first product makes, and
the first factor of the second one.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from case import Arrays, Case
from flash_attention import fetched, of_warps

import kgen as lp

HALF = np.float16
#: Inputs and outputs of the two layers, hidden values, and how many of those are made at a time.
WIDTH, HIDDEN, BLOCK = 128, 512, 32

#: The Gaussian error linear unit.
GELU = "gelu(z) := 0.5*z*(1 + erf(0.70710678*z))\n"
ONE_LAYER = """
for i, j
    <float32> z = sum(k, cast(np.float32, x[i, k])*cast(np.float32, w[j, k])) + bias[j]  {id=insn}
    y[i, j] = gelu(z)  {dep=insn}
end
"""
TWO_LAYERS = f"""
for i
    o[e] = 0  {{id=o0}}
    for t
        h[j] = sum(d, cast(np.float32, x[i, d])*cast(np.float32, w1[{BLOCK}*t + j, d])) \
{{id=hidden, dep=o0}}
        a[j] = gelu(h[j] + b1[{BLOCK}*t + j])  {{id=activated, dep=hidden}}
        o[e] = o[e] + cast(np.float32, a[jj])*cast(np.float32, w2[e, {BLOCK}*t + jj]) \
{{id=outputs, inames=i:t:e:jj, dep=activated:o0}}
    end
    y[i, e] = o[e] + b2[e]  {{dep=outputs}}
end
"""


def make_layer(n: int, target: Any) -> lp.TranslationUnit:
    """Return one layer as it is written: *n* rows of *n* inputs, and of *n* outputs."""
    knl = lp.make_kernel(
        "{ [i, j, k]: 0 <= i, j, k < n }",
        GELU + ONE_LAYER,
        [
            lp.GlobalArg("x, w, y", HALF, shape="n, n"),
            lp.GlobalArg("bias", HALF, shape="n"),
            "...",
        ],
        target=target,
        name="layer",
    )
    return lp.fix_parameters(knl, n=n)


def make_layers(n: int, target: Any) -> lp.TranslationUnit:
    """Return two layers as they are written, for *n* rows."""
    knl = lp.make_kernel(
        [
            f"{{ [i, t]: 0 <= i < n and 0 <= t < {HIDDEN // BLOCK} }}",
            f"{{ [j, jj, d, e]: 0 <= j, jj < {BLOCK} and 0 <= d, e < {WIDTH} }}",
        ],
        GELU + TWO_LAYERS,
        [
            lp.GlobalArg("x, y", HALF, shape=f"n, {WIDTH}"),
            lp.GlobalArg("w1", HALF, shape=(HIDDEN, WIDTH)),
            lp.GlobalArg("w2", HALF, shape=(WIDTH, HIDDEN)),
            lp.GlobalArg("b1", HALF, shape=HIDDEN),
            lp.GlobalArg("b2", HALF, shape=WIDTH),
            lp.TemporaryVariable("h", np.float32, shape=BLOCK),
            lp.TemporaryVariable("a", HALF, shape=BLOCK),
            lp.TemporaryVariable("o", np.float32, shape=WIDTH),
            "...",
        ],
        target=target,
        name="layers",
    )
    return lp.fix_parameters(knl, n=n)


def schedule_layer(knl: lp.TranslationUnit) -> lp.TranslationUnit:
    """Let two warpgroups compute tiles of 128 x 256; bias and activation come behind the sums."""
    knl = lp.split_iname(lp.split_iname(knl, "i", 128), "i_inner", 64, outer_tag="l.1")
    knl = lp.split_iname(lp.split_iname(knl, "j", 256), "j_outer", 4)
    knl = lp.join_inames(knl, "j_outer_outer, i_outer, j_outer_inner", "tile")
    knl = lp.split_iname(lp.split_iname(knl, "k", 64), "k_inner", 16, outer_tag="unr")
    knl = lp.tag_inames(knl, "tile: g.0")
    for f, rows in (("x", "i_inner_outer, i_inner_inner"), ("w", "j_inner")):
        swept, around = f"{rows}, k_inner_outer, k_inner_inner", "tile, k_outer"
        knl = lp.add_prefetch(knl, f, swept, f"{f}_row, {f}_col", None, fetch_outer_inames=around)
        knl = lp.split_iname(knl, f"{f}_col", 8, inner_tag="vec")
        knl = lp.join_inames(knl, f"{f}_row, {f}_col_outer", item := f"{f}_item")
        knl = lp.split_iname(knl, item, 128, inner_tag="l.0")
        knl = lp.split_iname(knl, f"{item}_outer", 2, inner_tag="l.1", outer_tag="unr")
    knl = lp.align_temporaries(knl, "x_fetch, w_fetch", 1024)
    knl = lp.tag_array_axes(knl, "x_fetch, w_fetch", "swizzle:128")
    knl = lp.tensorize(knl, "insn", "i_inner_inner, j_inner, k_inner_inner", "m64n256k16")
    return lp.pipeline(lp.async_copy(knl, "x_fetch_rule, w_fetch_rule"), "k_outer", 4, ahead=2)


def schedule_layers(knl: lp.TranslationUnit) -> lp.TranslationUnit:
    """Keep hidden values and sums in registers, and fetch the weights of the next ones."""
    knl = lp.split_iname(knl, "i", 128, outer_tag="g.0")
    knl = lp.privatize_temporaries_with_inames(knl, "i_inner", "h, a, o")
    for f, swept, around, row in (
        ("x", "i_inner, d", "i_outer", WIDTH),
        ("w1", "j, d", "i_outer, t", WIDTH),
        ("w2", "e, jj", "i_outer, t", BLOCK),
    ):
        knl = fetched(knl, f, swept, f"{f}_row, {f}_col", around, row)
    knl = of_warps(knl)
    knl = lp.tensorize(knl, "hidden", "i_warp_mma, j_mma, d_mma", lane="group, pair")
    knl = lp.tensorize(knl, "outputs", "i_warp_mma, e_mma, jj_mma")
    knl = lp.distribute_temporaries(knl, "h, a, o")
    return lp.pipeline(lp.async_copy(knl, "w1_fetch_rule, w2_fetch_rule"), "t", stages=2)


def gelu(z: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the activation in numpy."""
    result: np.ndarray[Any, Any] = 0.5 * z * (1 + np.vectorize(math.erf)(z / math.sqrt(2)))
    return result


def expected_layer(given: Arrays) -> np.ndarray[Any, Any]:
    """Return some rows of the outputs of one layer."""
    x, w, bias = (given[name].astype(np.float64) for name in ("x", "w", "bias"))
    return gelu(x[:64] @ w.T + bias)


def expected_layers(given: Arrays) -> np.ndarray[Any, Any]:
    """Return some rows of the outputs of two layers."""
    x, w1, w2, b1, b2 = (given[n].astype(np.float64) for n in ("x", "w1", "w2", "b1", "b2"))
    result: np.ndarray[Any, Any] = gelu(x[:64] @ w1.T + b1) @ w2.T + b2
    return result


def draw(rng: np.random.Generator, **shapes: tuple[int, ...]) -> Arrays:
    """Return random numbers between -0.5 and 0.5."""
    return {
        name: (rng.random(shape, np.float32) - np.float32(0.5)).astype(HALF)
        for name, shape in shapes.items()
    }


def layer_in_torch(torch: Any, x: Any, w: Any, bias: Any) -> Any:
    """Return what a layer computes with its bias, and the activation."""
    of = torch.nn.functional
    return of.gelu(of.linear(x, w, bias))


CASES = (
    Case(
        title="layer with GELU, float16",
        kernel=make_layer,
        schedule=schedule_layer,
        inputs=lambda rng, n: draw(rng, x=(n, n), w=(n, n), bias=(n,)),
        expected=expected_layer,
        compared=lambda found: found[:64],
        work=lambda n: 2 * n**3,
        unit="TFLOP/s",
        size=4096,
        small=1024,
        tolerance=2e-3,
        result="y",
        peer=lambda torch, on: lambda: layer_in_torch(torch, on["x"], on["w"], on["bias"]),
    ),
    Case(
        title="two layers with GELU, float16",
        kernel=make_layers,
        schedule=schedule_layers,
        inputs=lambda rng, n: draw(
            rng, x=(n, WIDTH), w1=(HIDDEN, WIDTH), b1=(HIDDEN,), w2=(WIDTH, HIDDEN), b2=(WIDTH,)
        ),
        expected=expected_layers,
        compared=lambda found: found[:64],
        work=lambda n: 4 * WIDTH * HIDDEN * n,
        unit="TFLOP/s",
        size=65536,
        small=256,
        tolerance=2e-3,
        result="y",
        peer=lambda torch, on: (
            lambda: torch.nn.functional.linear(
                layer_in_torch(torch, on["x"], on["w1"], on["b1"]), on["w2"], on["b2"]
            )
        ),
    ),
)
