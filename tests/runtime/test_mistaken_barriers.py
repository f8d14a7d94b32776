"""Kernels that PoCL 3.1 has compiled wrongly, or not at all."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kgen as lp


@pytest.mark.parametrize("n", [1, 5])
def test_scans_in_a_loop(device: Any, n: int) -> None:
    """The process ended with a failed assertion: no barrier began the loop over k."""
    knl = lp.make_kernel(
        "{[k, i, q]: -2 <= k < n - 2 and 0 <= i < 4 and 0 <= q <= i}",
        ["out[i, k + 2] = sum(q, fmin(a[3 - q], 1)) + 1", "sums[i, k + 2] = sum(q, b[p[k + 2]])"],
        [lp.GlobalArg("a", "float32", shape=4), lp.GlobalArg("b", "int32", shape=4), ...],
    )
    knl = lp.split_iname(knl, "i", 4, outer_tag="g.0")
    knl = lp.split_iname(knl, "i_inner", 2, outer_tag="l.0")
    knl = lp.realize_reduction(knl, force_scan=True)
    a, b = np.arange(4, dtype=np.float32), np.arange(1, 5, dtype=np.int32)
    p = np.arange(n, dtype=np.int32) % 4
    _, (out, sums) = device(knl, a=a, b=b, p=p)
    steps = 1 + np.cumsum(np.minimum(a[::-1], 1))
    np.testing.assert_array_equal(out, np.tile(steps[:, None], n))
    np.testing.assert_array_equal(sums, np.outer(np.arange(1, 5), b[p]))


def test_tiles_in_a_loop_whose_iterations_differ(device: Any) -> None:
    """The process ended with a failed assertion, for what only some iterations do."""
    local = lp.TemporaryVariable("t", "float32", shape=3, address_space=lp.AddressSpace.LOCAL)
    knl = lp.make_kernel(
        "{[i, j, f, u, v]: 0 <= i < n and 1 <= j < 5 and 0 <= f, u < 3 and 0 <= v < 4}",
        """
        t[f] = fmin(a[p[2*i], 2*f], b[(j - 1) // 4, f]) {id=fill, inames=i:j:f}
        out[j - 1, 2*i, u] = 2*t[2 - u] + t[0] {dep=fill, inames=i:j:u}
        other[i, v] = v {inames=i:v}
        """,
        [
            local,
            lp.GlobalArg("p", "int32", shape="2*n"),
            lp.GlobalArg("a", "float32", shape=(4, 6)),
            lp.GlobalArg("b", "float32", shape=(4, 3)),
            lp.GlobalArg("out", "float32", shape="4, 2*n, 3"),
            ...,
        ],
    )
    knl = lp.tag_inames(knl, "f:l.0, u:l.0, v:l.0, i:g.0")
    knl = lp.split_iname(knl, "j", 3, inner_tag="vec", slabs=(1, 1))
    knl = lp.split_iname(knl, "j_outer", 5, slabs=(1, 0))
    a = np.arange(24, dtype=np.float32).reshape(4, 6)
    b, p = np.array([[1, 8, 9]] * 4, np.float32), np.array([2, 0, 0, 0], np.int32)
    _, (out, _) = device(knl, a=a, b=b, p=p, out=np.zeros((4, 4, 3), np.float32))
    t = np.minimum(a[p[::2], ::2], b[0])
    np.testing.assert_array_equal(out[:, ::2], np.tile(2 * t[:, ::-1] + t[:, :1], (4, 1, 1)))


@pytest.mark.parametrize("n", [1, 4])
def test_values_set_and_read_under_one_condition(device: Any, n: int) -> None:
    """Two barriers later, some work-items had other values."""
    knl = lp.make_kernel(
        ["{[i]: 0 <= 2*i < n}", "{[k, f, u]: 0 <= k < 5 and 0 <= f, u < 2}", "{[r]: 0 <= r < 4}"],
        """
        for i, k, f
            t[f] = a[i, k] + f {id=set}
        end
        out[i, k, u] = 2*t[1 - u] + t[0] {dep=set, inames=i:k:u}
        most[k, f, i] = max(r, b[r]) - n {inames=i:k:f}
        """,
        [lp.TemporaryVariable("t", "int32", shape=2, address_space=lp.AddressSpace.PRIVATE), ...],
    )
    knl = lp.split_iname(knl, "i", 2, outer_tag="g.0", inner_tag="l.0")
    knl = lp.tag_inames(knl, "k:l.1, r:l.0")
    knl = lp.split_iname(knl, "f", 3, inner_tag="ilp")
    count = (n + 1) // 2
    a, b = np.arange(5 * count, dtype=np.int32).reshape(count, 5), np.arange(4, dtype=np.int32)
    _, (most, out) = device(knl, a=a, b=b, n=n)
    t = a[..., None] + np.arange(2, dtype=np.int32)
    np.testing.assert_array_equal(out, 2 * t[..., ::-1] + t[..., :1])
    np.testing.assert_array_equal(most, np.full((5, 2, count), 3 - n))


@pytest.mark.parametrize("trips", [1, 2, 3])
def test_conditions_behind_a_loop_with_barriers(device: Any, trips: int) -> None:
    """The process ended with a failed assertion: the loop and what follows have one condition."""
    knl = lp.make_kernel(
        [
            f"{{[k, f, u]: 0 <= k < {trips} and 0 <= f, u < 3}}",
            "{[l]: 0 <= l < 4}",
            "{[v]: 0 <= v < 3}",
        ],
        """
        t[f] = a[k, f] {id=set, inames=k:f}
        out[k, u] = t[2 - u] {dep=set, inames=k:u}
        more[v] = a[0, v]
        other[l] = l
        """,
        [
            lp.TemporaryVariable("t", "int32", shape=3, address_space=lp.AddressSpace.LOCAL),
            lp.GlobalArg("a", "int32", shape=(trips, 3)),
            ...,
        ],
    )
    knl = lp.tag_inames(knl, "f:l.0, u:l.0, v:l.0, l:l.0")
    a = np.arange(3 * trips, dtype=np.int32).reshape(trips, 3)
    _, (more, _, out) = device(knl, a=a)
    np.testing.assert_array_equal(out, a[:, ::-1])
    np.testing.assert_array_equal(more, a[0])


@pytest.mark.parametrize("outer", [1, 2])
@pytest.mark.parametrize("inner", [1, 2, 5])
def test_accumulators_over_barriers(device: Any, outer: int, inner: int) -> None:
    """Sums of a loop with barriers were lost where the condition on them is asked again."""
    knl = lp.make_kernel(
        f"{{[o, k, f, u]: 0 <= o < {outer} and 0 <= k < {inner} and 0 <= f < 4 and 0 <= u < n}}",
        """
        <> total = 0 {id=start, inames=o:u}
        t[f] = a[o, k, f] {id=set, inames=o:k:f}
        total = total + t[3 - u] {id=add, dep=start:set, inames=o:k:u}
        out[o, u] = total {dep=add, inames=o:u}
        """,
        [
            lp.TemporaryVariable("t", "int32", shape=4, address_space=lp.AddressSpace.LOCAL),
            lp.GlobalArg("a", "int32", shape=(outer, inner, 4)),
            ...,
        ],
        assumptions="1 <= n <= 4",
    )
    knl = lp.tag_inames(knl, "f:l.0, u:l.0")
    a = np.arange(4 * outer * inner, dtype=np.int32).reshape(outer, inner, 4)
    _, (out,) = device(knl, a=a, n=3)
    np.testing.assert_array_equal(out, a.sum(axis=1)[:, :0:-1])


def test_what_comes_before_the_first_barrier_of_a_branch(device: Any) -> None:
    """Work-items did nothing between the branch of all and its first barrier."""
    knl = lp.make_kernel(
        ["{[i, q]: 0 <= i < n and i mod 2 = 1 and 0 <= q < 4}", "{[k]: 1 <= k < 3}"],
        """
        total[i] = sum(q, b[q])
        most[k - 1, i] = max(q, a[i]) + 1 {id=most, if=k >= i}
        """,
        [
            lp.GlobalArg("b", "int32", shape=4),
            lp.GlobalArg("a, total", "int32", shape="n"),
            lp.GlobalArg("most", "int32", shape="2, n"),
            ...,
        ],
    )
    knl = lp.split_iname(knl, "i", 7, outer_tag="g.0", inner_tag="l.0")
    knl = lp.split_iname(lp.tag_inames(knl, "q:l.1"), "k", 3)
    knl = lp.split_iname(knl, "k_inner", 4, slabs=(1, 0))
    knl = lp.duplicate_inames(knl, "k_inner_inner", within="id:most")
    knl = lp.split_iname(knl, "k_inner_inner_0", 4, inner_tag="ilp.seq", slabs=(1, 1))
    for start in (1, 5, 9):
        a, b = np.arange(start, start + 4, dtype=np.int32), np.arange(4, dtype=np.int32)
        most, total = np.zeros((2, 4), np.int32), np.zeros(4, np.int32)
        device(knl, a=a, b=b, most=most, total=total)
        np.testing.assert_array_equal(total, [0, 6, 0, 6])
        np.testing.assert_array_equal(most, [[0, a[1] + 1, 0, 0]] * 2)


def test_conditions_in_a_loop_of_two_work_items(device: Any) -> None:
    """The process ended with a failed assertion: each work-item has code of its own."""
    private = lp.AddressSpace.PRIVATE
    knl = lp.make_kernel(
        "{[i, k, f, u]: 0 <= i < n and 0 <= k, f, u < 3}",
        """
        s[f] = b[f] // 3        {id=s, inames=i:k:f}
        out[u, k, i] = s[2 - u] {dep=s, inames=i:k:u, if=a[u] > 0}
        """,
        [lp.TemporaryVariable("s", "int32", shape=3, address_space=private), ...],
        assumptions="n mod 2 = 0 and n >= 2",
    )
    knl = lp.split_iname(knl, "i", 2, outer_tag="g.0", inner_tag="l.0")
    knl = lp.add_prefetch(knl, "b", "f", default_tag="l.auto")
    a, b = np.array([1, 0, 1], np.float32), np.array([9, -3, 4], np.int32)
    out = np.zeros((3, 3, 4), np.int32)
    device(knl, a=a, b=b, out=out)
    np.testing.assert_array_equal(out[:, 1, 2], [1, 0, 3])


def test_conditions_of_barriers_alone_in_a_loop(device: Any) -> None:
    """PoCL 3.1 added twice for some work-items behind ``if (k == 0 || n >= 8) barrier(...)``."""
    domain = "{ [i, j, r]: 0 <= i and 2*i < n and 0 <= j and 3*j < n and 1 <= r < 5 }"
    knl = lp.make_kernel(
        domain,
        "out[j + 1, i + 1] = sum(r, a[i])",
        [
            lp.GlobalArg("a", np.int32, shape="n + 1"),
            lp.GlobalArg("out", shape="n + 1, n + 1"),
            "...",
        ],
        assumptions="n >= 0 and n mod 4 = 0",
    )
    knl = lp.tag_inames(knl, "i:g.0, r:l.1")
    knl = lp.split_iname(knl, "j", 2, inner_tag="ilp.seq", slabs=(1, 1))
    a = np.arange(5, dtype=np.int32)
    _, (out,) = device(knl, a=a, n=4)
    assert out[1:3, 1:3].tolist() == [[0, 4], [0, 4]]
