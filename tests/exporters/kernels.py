"""Kernels that show what exported launchers do: offsets, temporaries, loops, complex numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

import kgen as lp

__all__ = ["rotated", "scale", "steps", "turned"]


def in_groups(knl: lp.TranslationUnit, *inames: str) -> lp.TranslationUnit:
    """Return a kernel with groups of 32 work-items along each of some loops."""
    for iname in inames:
        knl = lp.split_iname(knl, iname, 32, outer_tag="g.0", inner_tag="l.0")
    return knl


def scale() -> lp.TranslationUnit:
    """Return a kernel of arrays that begin anywhere in their buffers."""
    args = [lp.GlobalArg("a, out", np.float32, shape="n", offset=lp.auto), "..."]
    knl = lp.make_kernel("{ [i]: 0 <= i < n }", "out[i] = 2*a[i]", args, name="scale")
    return in_groups(knl, "i")


def turned() -> lp.TranslationUnit:
    """Return a kernel of three launches, with two temporaries in global memory between them."""
    code = """
    t[i] = 2*a[i] {id=first}
    ... gbarrier {id=wait, dep=first}
    u[j] = t[n - 1 - j] {id=second, dep=wait}
    ... gbarrier {id=again, dep=second}
    out[k] = u[n - 1 - k] + t[k] {dep=again}
    """
    temporary = lp.TemporaryVariable("t, u", shape="n", address_space=lp.AddressSpace.GLOBAL)
    args = [lp.GlobalArg("a, out", np.float32, shape="n"), temporary, "..."]
    domain = "{ [i, j, k]: 0 <= i, j, k < n }"
    return in_groups(lp.make_kernel(domain, code, args, name="turned"), "i", "j", "k")


def steps(name: str = "steps", **options: Any) -> lp.TranslationUnit:
    """Return a kernel that the host launches m times: a loop around a global barrier."""
    code = """
    ... gbarrier {id=wait, inames=t}
    a[t + 1, i] = a[t, n - 1 - i] + t {dep=wait}
    """
    args = [lp.GlobalArg("a", np.float64, shape="m + 1, n"), "..."]
    domain = "{ [t, i]: 0 <= t < m and 0 <= i < n }"
    return in_groups(lp.make_kernel(domain, code, args, name=name, options=options), "i")


def rotated() -> lp.TranslationUnit:
    """Return a kernel of complex numbers, with one of them and a bool as arguments."""
    args = [
        lp.GlobalArg("z, out", np.complex64, shape="n"),
        lp.ValueArg("w", np.complex64),
        lp.ValueArg("is_swapped", np.bool_),
        "...",
    ]
    code = "out[i] = if(is_swapped, w*z[i]/(z[i] + 2), sqrt(z[i]) + exp(w)*conj(z[i]))"
    knl = lp.make_kernel("{ [i]: 0 <= i < n }", code, args, name="rotated")
    return in_groups(knl, "i")
