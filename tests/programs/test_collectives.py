"""Work-items together: sums along rows, extrema with their places, histograms, time steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kgen as lp
from tests.programs.support import (
    Array,
    assert_computes,
    double,
    indices,
    integer,
    numbers,
    size,
    tile,
)


def rows_with_lanes() -> lp.TranslationUnit:
    """A sparse product, eight work-items side by side along each row."""
    at = "first + 8*k + lane"
    knl = lp.make_kernel(
        [
            "{ [row]: 0 <= row < n }",
            "{ [lane]: 0 <= lane < 8 }",
            f"{{ [k]: 0 <= k and {at} < last }}",
        ],
        f"""
        for row
            <> first = starts[row]
            <> last = starts[row + 1]
            y[row] = sum(lane, sum(k, values[{at}]*x[columns[{at}]]))
        end
        """,
        [double("values, x", None), integer("columns", None), integer("starts", "n + 1"), ...],
    )
    return lp.split_iname(knl, "row", 4, outer_tag="g.0", inner_tag="l.1")


def test_lanes_along_rows(device: Any) -> None:
    lengths = indices(40, 23)
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    entries, x = int(starts[-1]), numbers(30)
    columns, values = indices(30, entries), numbers(entries)
    want = np.bincount(np.repeat(np.arange(23), lengths), values * x[columns], 23)
    arguments = {"starts": starts, "columns": columns, "values": values, "x": x}
    assert_computes(rows_with_lanes(), arguments, {"y": want})
    knl = lp.tag_inames(rows_with_lanes(), "lane:l.0")
    assert_computes(knl, arguments, {"y": want}, device)


def largest() -> lp.TranslationUnit:
    """The pivot of each column: the largest magnitude, and where it is."""
    return lp.make_kernel(
        "{ [i, j]: 0 <= j < m and 0 <= i < 16 }",
        "most[j], row[j] = argmax(i, abs(a[i, j]), i)",
        [double("a", "16, m"), size("m"), ...],
    )


def test_largest_elements_of_columns(device: Any) -> None:
    a = numbers(16, 7) - 0.5
    want = {"most": np.abs(a).max(0), "row": np.abs(a).argmax(0)}
    assert_computes(largest(), {"a": a}, want)
    assert_computes(lp.tag_inames(largest(), "j:g.0, i:l.0"), {"a": a}, want, device)


def least() -> lp.TranslationUnit:
    """The least of all numbers and its place: work-items, then groups, then a second launch."""
    knl = lp.make_kernel(
        "{ [i]: 0 <= i < n }", "value, at = argmin(i, a[i], i)", [double("a", "n"), ...]
    )
    return lp.split_iname(knl, "i", 16, outer_tag="g.0", inner_tag="l.0")


@pytest.mark.parametrize("n", [1, 16, 100])
def test_the_least_of_all(n: int, device: Any) -> None:
    a = numbers(n)
    want = {"value": a.min(), "at": a.argmin()}
    assert_computes(least(), {"a": a}, want)
    assert_computes(least(), {"a": a}, want, device)


def residual() -> lp.TranslationUnit:
    """The square of a norm for each right-hand side: a group for each, all items adding up."""
    knl = lp.make_kernel(
        "{ [r, i]: 0 <= r < m and 0 <= i < n }",
        "norm2[r] = sum(i, (b[r, i] - ax[r, i])**2)",
        [double("b, ax", "m, n"), ...],
    )
    knl = lp.split_iname(knl, "i", 16, outer_iname="step", inner_iname="item")
    return lp.split_reduction_outward(knl, "item")


def test_residuals(device: Any) -> None:
    b, ax = numbers(5, 50), numbers(5, 50, seed=1)
    arguments, want = {"b": b, "ax": ax}, {"norm2": ((b - ax) ** 2).sum(1)}
    assert_computes(residual(), arguments, want)
    knl = lp.tag_inames(residual(), "r:g.0, item:l.0")
    assert_computes(knl, arguments, want, device)


def histogram() -> lp.TranslationUnit:
    return lp.make_kernel(
        "{ [i]: 0 <= i < n }",
        "counts[at[i]] = counts[at[i]] + 1 {atomic}",
        [
            integer("at", "n"),
            lp.GlobalArg("counts", np.int32, shape="bins", for_atomic=True),
            size("bins"),
            ...,
        ],
    )


def test_a_histogram(device: Any) -> None:
    at = indices(9, 200)
    arguments = {"at": at, "counts": np.zeros(9, np.int32)}
    want = {"counts": np.bincount(at, minlength=9)}
    assert_computes(histogram(), arguments, want)
    assert_computes(tile(histogram(), "i", 32), arguments, want, device)


# -- steps in time --------------------------------------------------------------------------------


def heat() -> lp.TranslationUnit:
    """Two arrays in turn: a launch for each half of a step, which the host repeats."""
    knl = lp.make_kernel(
        "{ [t, i, j]: 0 <= t < steps and 1 <= i, j < n - 1 }",
        """
        for t
            v[i] = u[i] + 0.25*(u[i - 1] - 2*u[i] + u[i + 1])    {id=there, dep=*}
            ... gbarrier                                         {id=half, dep=there}
            u[j] = v[j] + 0.25*(v[j - 1] - 2*v[j] + v[j + 1])    {id=back, dep=*half}
            ... gbarrier                                         {id=full, dep=back}
        end
        """,
        [double("u, v", "n"), size("steps"), ...],
        assumptions="n >= 2",
    )
    for iname in "ij":
        knl = lp.split_iname(knl, iname, 8, outer_tag="g.0", inner_tag="l.0")
    return knl


def heat_in_numpy(u: Array, half_steps: int) -> Array:
    for _ in range(half_steps):
        u = u.copy()
        u[1:-1] += 0.25 * (u[:-2] - 2 * u[1:-1] + u[2:])
    return u


@pytest.mark.parametrize("steps", [0, 1, 5])
def test_heat_spreads(steps: int, device: Any) -> None:
    u = numbers(30)
    arguments = {"u": u, "v": u, "steps": steps}
    want = {"u": heat_in_numpy(u, 2 * steps)}
    assert_computes(heat(), arguments, want)
    assert_computes(heat(), arguments, want, device)
