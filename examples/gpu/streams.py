"""
Streams
=======

Kernels that read each array once: a sum of vectors, reductions, a transposition, a histogram.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from case import Case

import kgen as lp

F32, LOCAL = np.float32, lp.AddressSpace.LOCAL


def axpy(n: int, target: Any) -> lp.TranslationUnit:
    data = [lp.GlobalArg("x, y, out", F32, shape=n)]
    return lp.make_kernel(f"{{ [i]: 0 <= i < {n} }}", "out[i] = 2*x[i] + y[i]", data, target=target)


def in_lanes(knl: lp.TranslationUnit) -> lp.TranslationUnit:
    """Let each work-item load and store four adjacent numbers at once."""
    knl = lp.split_iname(knl, "i", 1024, outer_tag="g.0")
    return lp.split_iname(knl, "i_inner", 4, outer_tag="l.0", inner_tag="vec")


def total(n: int, target: Any) -> lp.TranslationUnit:
    data = [lp.GlobalArg("a", F32, shape=n), lp.GlobalArg("out", F32, shape=())]
    return lp.make_kernel(f"{{ [i]: 0 <= i < {n} }}", "out = sum(i, a[i])", data, target=target)


def argmax(n: int, target: Any) -> lp.TranslationUnit:
    data = [
        lp.GlobalArg("a", F32, shape=n),
        lp.GlobalArg("best", F32, shape=1),
        lp.GlobalArg("out", np.int32, shape=1),
    ]
    text = "best[0], out[0] = argmax(i, a[i], i)"
    return lp.make_kernel(f"{{ [i]: 0 <= i < {n} }}", text, data, target=target)


def in_strides(knl: lp.TranslationUnit) -> lp.TranslationUnit:
    """Reduce four numbers at once in each work-item, then work-groups, then a second launch."""
    knl = lp.split_iname(knl, "i", 4, inner_tag="ilp", outer_iname="io", inner_iname="iv")
    knl = lp.split_iname(knl, "io", 256, inner_tag="l.0", outer_iname="ig", inner_iname="il")
    knl = lp.split_iname(knl, "ig", 132 * 8, inner_tag="g.0", outer_iname="is", inner_iname="ib")
    knl = lp.add_prefetch(knl, "a", "iv", "lane", default_tag=None, fetch_outer_inames="is, ib, il")
    return lp.tag_inames(knl, "lane:vec")


def transpose(n: int, target: Any) -> lp.TranslationUnit:
    data = [lp.GlobalArg("a, out", F32, shape=(n, n))]
    domain = f"{{ [i, j]: 0 <= i, j < {n} }}"
    return lp.make_kernel(domain, "out[i, j] = a[j, i]", data, target=target)


def in_tiles(knl: lp.TranslationUnit) -> lp.TranslationUnit:
    """Read and write rows of 64 numbers in vectors of four; a padded tile holds the square."""
    knl = lp.split_iname(knl, "i", 64, outer_tag="g.1", outer_iname="ig", inner_iname="it")
    knl = lp.split_iname(knl, "j", 64, outer_tag="g.0", outer_iname="jg", inner_iname="jt")
    knl = lp.add_prefetch(
        knl,
        "a",
        "it, jt",
        "row, column",
        default_tag=None,
        temporary_name="tile",
        fetch_outer_inames="ig, jg",
        temporary_address_space=LOCAL,
    )
    for name in ("column", "jt"):
        knl = lp.split_iname(knl, name, 4, outer_tag="l.0", inner_tag="vec")
    for name in ("row", "it"):
        knl = lp.split_iname(knl, name, 16, outer_tag="unr", inner_tag="l.1")
    return lp.add_padding(knl, "tile", 0, 65 * 4)


GROUPS, ITEMS, LANES = 132 * 8, 256, 8


def histogram(n: int, target: Any) -> lp.TranslationUnit:
    """Count in the memory of each work-group, and add up by atomic updates."""
    step = f"({LANES}*({ITEMS}*({GROUPS}*k + g) + l)"
    data = [
        lp.GlobalArg("a", np.int32, shape=n),
        lp.GlobalArg("out", np.int32, shape=256, for_atomic=True),
        lp.TemporaryVariable("own", np.int32, shape=256, address_space=LOCAL, for_atomic=True),
        lp.TemporaryVariable("at", np.int32, shape=LANES),
    ]
    text = f"""
    own[b] = 0 {{id=clear, inames=g:b}}
    at[u] = a[{step} + u)] {{id=at, inames=g:k:l:u}}
    own[at[v]] = own[at[v]] + 1 {{id=count, dep=clear:at, atomic, inames=g:k:l:v}}
    out[c] = out[c] + own[c] {{dep=count, atomic, inames=g:c}}
    """
    domains = [
        f"{{ [g, k, l]: 0 <= g < {GROUPS} and 0 <= l < {ITEMS} and 0 <= k and {step}) < {n} }}",
        f"{{ [b, c, u, v]: 0 <= b, c < 256 and 0 <= u, v < {LANES} }}",
    ]
    return lp.make_kernel(domains, text, data, target=target)


def on_groups(knl: lp.TranslationUnit) -> lp.TranslationUnit:
    """Load eight numbers at once in two vectors."""
    knl = lp.split_iname(knl, "u", 4, outer_tag="unr", inner_tag="vec")
    knl = lp.split_array_axis(knl, "at", 0, 4)
    return lp.tag_inames(knl, "g:g.0, l:l.0, b:l.0, c:l.0, v:unr")


def _one(rng: np.random.Generator, n: int) -> dict[str, np.ndarray[Any, Any]]:
    return {"a": rng.random(n, dtype=F32)}


CASES = (
    Case(
        title="z = 2x + y",
        kernel=axpy,
        schedule=in_lanes,
        inputs=lambda rng, n: {"x": rng.random(n, dtype=F32), "y": rng.random(n, dtype=F32)},
        expected=lambda given: 2.0 * given["x"] + given["y"],
        work=lambda n: 12 * n,
        size=1 << 28,
        small=1 << 12,
        peer=lambda torch, on: lambda: torch.add(on["y"], on["x"], alpha=2, out=on["out"]),
    ),
    Case(
        title="sum",
        kernel=total,
        schedule=in_strides,
        inputs=_one,
        expected=lambda given: given["a"].sum(dtype=np.float64),
        work=lambda n: 4 * n,
        size=1 << 28,
        small=1 << 14,
        peer=lambda torch, on: lambda: torch.sum(on["a"]),
    ),
    Case(
        title="argmax",
        kernel=argmax,
        schedule=in_strides,
        inputs=_one,
        expected=lambda given: np.array([given["a"].argmax()]),
        work=lambda n: 4 * n,
        size=1 << 28,
        small=1 << 14,
        tolerance=0,
        peer=lambda torch, on: lambda: torch.argmax(on["a"]),
    ),
    Case(
        title="transposition",
        kernel=transpose,
        schedule=in_tiles,
        inputs=lambda rng, n: {"a": rng.random((n, n), dtype=F32)},
        expected=lambda given: given["a"].T,
        work=lambda n: 8 * n * n,
        size=8192,
        small=128,
        tolerance=0,
        peer=lambda torch, on: lambda: on["out"].copy_(on["a"].T),
    ),
    Case(
        title="histogram of 256",
        kernel=histogram,
        schedule=on_groups,
        inputs=lambda rng, n: {
            "a": rng.integers(0, 256, n, dtype=np.int32),
            "out": np.zeros(256, np.int32),
        },
        expected=lambda given: np.bincount(given["a"], minlength=256),
        work=lambda n: 4 * n,
        size=1 << 28,
        small=LANES * ITEMS * GROUPS,
        tolerance=0,
        peer=lambda torch, on: lambda: torch.bincount(on["a"], minlength=256),
    ),
)
