"""
Forces between all pairs
========================

Forces between all pairs of bodies: work-items have two bodies, and groups a part of the sums.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from case import Arrays, Case

import kgen as lp

F32 = np.float32
SOFTENING = 0.01


def forces(n: int, target: Any) -> lp.TranslationUnit:
    text = f"""
    for i
        here[b] = p[i, b]
        for j
            d[c] = p$far[j, c] - here[c]
            <> near = rsqrt({SOFTENING} + d[0]*d[0] + d[1]*d[1] + d[2]*d[2])
            <> w = p$far[j, 3]*near*(near*near)
        end
        out[i, a] = sum(j, w*d[a])
    end
    """
    data = [
        lp.GlobalArg("p", F32, shape=(n, 4)),
        lp.GlobalArg("out", F32, shape=(n, 3)),
        lp.TemporaryVariable("here, d", F32, shape=3),
    ]
    domain = f"{{ [i, j, a, b, c]: 0 <= i, j < {n} and 0 <= a, b, c < 3 }}"
    knl = lp.make_kernel(domain, text, data, target=target)
    if isinstance(target, lp.CudaTarget):
        knl = lp.set_options(knl, build_options=["-use_fast_math"])
    return knl


def parts_of_all_bodies(knl: lp.TranslationUnit) -> lp.TranslationUnit:
    """Let 512 work-items have two bodies each, and read a part of all bodies, as vectors of four.

    A second launch adds up the parts of each sum. For 65536 bodies there are 33, so that all 132
    multiprocessors have 16 groups each.
    """
    knl = lp.split_iname(knl, "i", 2 * 512, outer_tag="g.0", outer_iname="ig", inner_iname="it")
    knl = lp.split_iname(knl, "it", 512, outer_tag="ilp", inner_tag="l.0")
    knl = lp.split_iname(knl, "j", 51, outer_iname="block", inner_iname="jj", inner_tag="unr")
    knl = lp.split_iname(knl, "block", 39, outer_tag="g.1", outer_iname="jg", inner_iname="jb")
    tile: Any = {"default_tag": None, "temporary_address_space": lp.AddressSpace.LOCAL}
    tile["fetch_outer_inames"] = "ig, jg"
    knl = lp.add_prefetch(knl, "p$far", "jb, jj, c", "body, v", **tile)
    knl = lp.align_temporaries(knl, "p_far_fetch", 16)
    knl = lp.split_iname(knl, "body", 512, inner_tag="l.0", outer_tag="unr")
    # vectors would tie a body's own numbers to the banks of registers of those that it reads
    knl = lp.tag_inames(knl, "a:ilp, b:unr, c:unr, v:vec")
    if isinstance(knl.default_entrypoint.target, lp.CudaTarget):
        # an optimizing ptxas moves the products with one weight apart, and reads it again for each
        options = knl.default_entrypoint.options.build_options
        knl = lp.set_options(knl, build_options=[*options, "-Xptxas=-O1"])
    return lp.set_launch_bounds(knl, min_groups=2)


def _expected(given: Arrays) -> np.ndarray[Any, Any]:
    p = given["p"].astype(np.float64)
    result = []
    for body in _sample(p):
        d = p[:, :3] - body[:3]
        w = p[:, 3] / (np.sum(d * d, axis=1) + SOFTENING) ** 1.5
        result.append(w @ d)
    return np.array(result)


def _sample(rows: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return as many rows as numpy sums up in a second."""
    return rows[:: max(1, len(rows) // 256)]


CASES = (
    Case(
        title="N-body, all pairs",
        kernel=forces,
        schedule=parts_of_all_bodies,
        inputs=lambda rng, n: {"p": rng.random((n, 4), dtype=F32)},
        expected=_expected,
        compared=_sample,
        work=lambda n: 20.0 * n * n,
        unit="TFLOP/s",
        size=65536,
        small=4096,
    ),
)
