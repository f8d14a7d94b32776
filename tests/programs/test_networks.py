"""Networks in local memory: butterflies and comparators, a stage after the other."""

from __future__ import annotations

from typing import Any

import numpy as np

import kgen as lp
from tests.programs.support import assert_computes, assert_trace, double, integer, numbers

N = 32
STAGES = 5


def butterflies() -> lp.TranslationUnit:
    """A Fourier transform of N numbers, reordered first, then two by two."""
    return lp.make_kernel(
        f"{{ [b, l, o, s, i]: 0 <= b < batches and 0 <= l, o < {N} "
        f"and 0 <= s < {STAGES} and 0 <= i < {N // 2} }}",
        f"""
        for b
            x[l] = a[b, reversed[l]] {{id=load}}
            for s, i
                <> span = 1 << s
                <> p = i % span
                <> at = 2*i - p
                <> u = x[at] {{id=u, dep=load}}
                <> v = root[p*({N // 2} >> s)]*x[at + span] {{id=v, dep=load}}
                x[at] = u + v {{id=plus, dep=u:v}}
                x[at + span] = u - v {{id=minus, dep=u:v:plus}}
            end
            out[b, o] = x[o] {{dep=plus:minus}}
        end
        """,
        [
            lp.GlobalArg("a", np.complex128, shape=f"batches, {N}"),
            lp.GlobalArg("root", np.complex128, shape=N // 2),
            integer("reversed", N),
            lp.TemporaryVariable("x", np.complex128, shape=(N,)),
            ...,
        ],
    )


def test_a_fourier_transform(device: Any) -> None:
    a = numbers(3, N) + 1j * numbers(3, N, seed=9)
    order = [int(f"{i:0{STAGES}b}"[::-1], 2) for i in range(N)]
    arguments = {
        "a": a,
        "root": np.exp(-2j * np.pi * np.arange(N // 2) / N),
        "reversed": np.array(order, np.int32),
    }
    assert_computes(butterflies(), arguments, {"out": np.fft.fft(a)})
    knl = lp.tag_inames(butterflies(), "b:g.0, i:l.0")
    for iname in "lo":
        knl = lp.split_iname(knl, iname, N // 2, outer_tag="unr", inner_tag="l.0")
    assert_computes(knl, arguments, {"out": np.fft.fft(a)}, device)
    assert_trace(knl, batches=2)


def bitonic(*, in_parallel: bool) -> lp.TranslationUnit:
    """Each work-item keeps the smaller or the larger of its number and a partner's."""
    knl = lp.make_kernel(
        f"{{ [b, l, o, i, p, d]: 0 <= b < batches and 0 <= l, o, i < {N} "
        f"and 0 <= p < {STAGES} and 0 <= d <= p }}",
        """
        for b
            x[l] = a[b, l] {id=load}
            for p, d, i
                <> partner = i ^ (1 << (p - d))
                <> rising = (i & (2 << p)) == 0
                <> mine = x[i] {id=mine, dep=load}
                <> theirs = x[partner] {id=theirs, dep=load}
                <> smaller = (i < partner) == rising
                x[i] = min(mine, theirs) if smaller else max(mine, theirs) {id=kept}
            end
            out[b, o] = x[o] {dep=kept}
        end
        """,
        [double("a", f"batches, {N}"), lp.TemporaryVariable("x", np.float64, shape=(N,)), ...],
    )
    if in_parallel:
        return lp.tag_inames(knl, "b:g.0, l:l.0, o:l.0, i:l.0")
    # on the host all are read before any is written: what a barrier does
    held = ["mine", "theirs", "smaller"]
    knl = lp.privatize_temporaries_with_inames(knl, "i", held)
    return lp.duplicate_inames(knl, "i", within="id:kept")


def test_a_bitonic_sort(device: Any) -> None:
    a = numbers(3, N)
    assert_computes(bitonic(in_parallel=False), {"a": a}, {"out": np.sort(a)})
    knl = bitonic(in_parallel=True)
    assert_computes(knl, {"a": a}, {"out": np.sort(a)}, device)
    assert_trace(knl, batches=2)


def transpositions() -> lp.TranslationUnit:
    """Neighbours are exchanged, at even places and at odd ones in turn."""
    return lp.make_kernel(
        "{ [b, t, k]: 0 <= b < batches and 0 <= t < n and 0 <= k < n - 1 and (k + t) mod 2 = 0 }",
        """
        for b, t, k
            <> low = min(a[b, k], a[b, k + 1]) {id=low, dep=*}
            <> high = max(a[b, k], a[b, k + 1]) {id=high, dep=*}
            a[b, k] = low {id=left, dep=*low:high}
            a[b, k + 1] = high {dep=*left}
        end
        """,
        [double("a", "batches, n"), ...],
    )


def test_a_sorting_network(device: Any) -> None:
    a = numbers(5, 9)
    want = {"a": np.sort(a)}
    assert_computes(transpositions(), {"a": a}, want)
    row_per_item = lp.split_iname(transpositions(), "b", 4, outer_tag="g.0", inner_tag="l.0")
    assert_computes(row_per_item, {"a": a}, want, device)
    assert_trace(row_per_item, batches=5, n=4)
    row_per_group = lp.tag_inames(lp.fix_parameters(transpositions(), n=9), "b:g.0, k:l.0")
    assert_computes(row_per_group, {"a": a}, want, device)
    assert_trace(row_per_group, batches=2)
    assert lp.generate_body(row_per_group).count("barrier(") == 1
