"""
Forces between all pairs
========================

Forces between all pairs of bodies: the bodies of a tile come to shared memory in vectors.
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
        here[a] = p[i, a]
        <> fx = 0f
        <> fy = 0f
        <> fz = 0f
        for j
            <> dx = p$far[j, 0] - here[0]
            <> dy = p$far[j, 1] - here[1]
            <> dz = p$far[j, 2] - here[2]
            <> near = rsqrt({SOFTENING} + dx*dx + dy*dy + dz*dz)
            <> w = p$far[j, 3]*near*(near*near)
            fx = fx + w*dx
            fy = fy + w*dy
            fz = fz + w*dz
        end
        out[i, 0] = fx
        out[i, 1] = fy
        out[i, 2] = fz
    end
    """
    data = [
        lp.GlobalArg("p", F32, shape=(n, 4)),
        lp.GlobalArg("out", F32, shape=(n, 3)),
        lp.TemporaryVariable("here", F32, shape=4),
    ]
    domain = f"{{ [i, j, a]: 0 <= i, j < {n} and 0 <= a < 4 }}"
    return lp.make_kernel(domain, text, data, target=target, seq_dependencies=True)


def tiles_of_bodies(knl: lp.TranslationUnit) -> lp.TranslationUnit:
    """Let 512 work-items read 512 bodies at a time, each as a vector of four."""
    knl = lp.split_iname(knl, "i", 512, outer_tag="g.0", inner_tag="l.0")
    knl = lp.split_iname(knl, "j", 512)
    tile: Any = {"default_tag": None, "temporary_address_space": lp.AddressSpace.LOCAL}
    knl = lp.add_prefetch(
        knl, "p$far", "j_inner", "body, c", fetch_outer_inames="i_outer, j_outer", **tile
    )
    knl = lp.align_temporaries(knl, "p_fetch", 16)
    knl = lp.split_iname(knl, "j_inner", 16, inner_tag="unr")
    knl = lp.tag_inames(knl, "a:vec, body:l.0, c:vec")
    if isinstance(knl.default_entrypoint.target, lp.CudaTarget):
        knl = lp.set_options(knl, build_options=["-use_fast_math"])
    return knl


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
        schedule=tiles_of_bodies,
        inputs=lambda rng, n: {"p": rng.random((n, 4), dtype=F32)},
        expected=_expected,
        compared=_sample,
        work=lambda n: 20.0 * n * n,
        unit="TFLOP/s",
        size=65536,
        small=1024,
    ),
)
