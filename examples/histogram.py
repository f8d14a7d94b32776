"""
Histogram by atomic counters
============================

Count how often each value occurs: many work-items add to few counters, each in one step. Two ways:
every work-item adds to counters in global memory; or each group counts in local memory of its own,
and adds its counters up at the end, which far fewer have to wait for.

    python examples/histogram.py --device {c,opencl,cuda} [--n 1000000]
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

import numpy as np

import kgen as lp

BINS = 256
GROUPS, ITEMS = 64, 256


def count_globally(target: Any, dtype: str) -> lp.TranslationUnit:
    """Return a kernel whose work-items all add to the same counters."""
    knl = lp.make_kernel(
        "{ [i]: 0 <= i < n }",
        "counts[value[i]] = counts[value[i]] + 1 {atomic}",
        [
            lp.GlobalArg("value", np.int32, shape="n"),
            lp.GlobalArg("counts", dtype, shape=(BINS,), for_atomic=True),
            ...,
        ],
        name="count_globally",
        target=target,
    )
    return lp.split_iname(knl, "i", ITEMS, outer_tag="g.0", inner_tag="l.0")


def count_in_groups(target: Any, dtype: str) -> lp.TranslationUnit:
    """Return a kernel whose groups count on their own, in strides through the values."""
    knl = lp.make_kernel(
        f"{{ [g, k, l, b, c]: 0 <= g < {GROUPS} and 0 <= l < {ITEMS} and 0 <= k "
        f"and {ITEMS}*({GROUPS}*k + g) + l < n and 0 <= b, c < {BINS} }}",
        f"""
        own[b] = 0                                              {{id=clear, inames=g:b}}
        <> at = value[{ITEMS}*({GROUPS}*k + g) + l]             {{id=at}}
        own[at] = own[at] + 1                                   {{id=count, dep=clear:at, atomic}}
        counts[c] = counts[c] + own[c]                          {{dep=count, inames=g:c, atomic}}
        """,
        [
            lp.GlobalArg("value", np.int32, shape="n"),
            lp.GlobalArg("counts", dtype, shape=(BINS,), for_atomic=True),
            lp.TemporaryVariable(
                "own", dtype, shape=(BINS,), address_space=lp.AddressSpace.LOCAL, for_atomic=True
            ),
            ...,
        ],
        name="count_in_groups",
        target=target,
        assumptions="n >= 0",
    )
    return lp.tag_inames(knl, "g:g.0, l:l.0, b:l.0, c:l.0")


def kernels() -> dict[str, lp.TranslationUnit]:
    """Return the way that every device has."""
    return {
        "c": count_globally(lp.ExecutableCTarget(), "int32"),
        "opencl": count_globally(lp.PyOpenCLTarget(), "int32"),
        "cuda": count_globally(lp.PyCudaTarget(), "int32"),
    }


def run(knl: lp.TranslationUnit, queue: tuple[Any, ...], value: Any, dtype: str) -> Any:
    """Return the counters after one call."""
    counts = np.zeros(BINS, dtype)
    knl(*queue, value=value, counts=counts)
    return counts


def open_device(device: str) -> tuple[Any, tuple[Any, ...]]:
    """Return the target, and the queue that calls take."""
    if device == "c":
        return lp.ExecutableCTarget(), ()
    if device == "cuda":
        import pycuda.autoprimaryctx

        print(f"on {pycuda.autoprimaryctx.device.name()}\n")
        return lp.PyCudaTarget(), ()
    import pyopencl as cl

    return lp.PyOpenCLTarget(), (cl.CommandQueue(cl.create_some_context(interactive=False)),)


def main(arguments: list[str]) -> int:
    """Count, and compare with numpy's counts; return 1 where they differ."""
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=layout)
    parser.add_argument("--device", choices=("c", "opencl", "cuda"), default="c")
    parser.add_argument("--n", type=int, default=1_000_000)
    given = parser.parse_args(arguments)
    value = np.random.default_rng(1).integers(0, BINS, given.n).astype(np.int32)
    expected = np.bincount(value, minlength=BINS)
    target, queue = open_device(given.device)
    ways = [count_globally] if given.device == "c" else [count_globally, count_in_groups]
    for way in ways:
        for dtype in ("int32", "int64", "float32", "float64"):
            found = run(way(target, dtype), queue, value, dtype)
            wrong = int((found != expected).sum())
            print(f"{way.__name__}, {dtype}: {wrong} of {BINS} counters differ from numpy's")
            if wrong:
                return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
