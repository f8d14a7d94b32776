"""Scans at work: numbers packed, rows of a sparse matrix found, keys sorted bit by bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kgen as lp
from tests.programs.support import (
    Array,
    assert_computes,
    assert_trace,
    double,
    indices,
    integer,
    numbers,
    size,
    tile,
)


def blocks(unit: lp.TranslationUnit, inames: str) -> lp.TranslationUnit:
    """Give each group 32 steps of each loop: four for each of its work-items."""
    for iname in inames:
        unit = lp.split_iname(unit, iname, 32, outer_tag="g.0")
        unit = lp.split_iname(unit, f"{iname}_inner", 4, outer_tag="l.0")
    return unit


def packing() -> lp.TranslationUnit:
    """Positive numbers to the front; each finds its place by counting those before it."""
    return lp.make_kernel(
        "{ [i, j]: 0 <= j <= i < n }",
        """
        for i
            <> end = sum(j, 1 if a[j] > 0 else 0)  {id=end}
            if a[i] > 0
                packed[end - 1] = a[i]             {id=pack, dep=end}
            end
            if i == n - 1
                count[0] = end                     {dep=end}
            end
        end
        """,
        [double("a", "n"), double("packed", "n"), integer("count", 1), size("n")],
        silenced_warnings=["write_race(pack)"],
        seq_dependencies=False,
    )


@pytest.mark.parametrize("n", [1, 31, 32, 33, 500])
def test_numbers_are_packed(n: int, device: Any) -> None:
    a = numbers(n) - 0.5
    kept = a[a > 0]
    arguments = {"a": a, "packed": np.zeros(n), "count": np.zeros(1, np.int32)}
    want = {"packed": np.pad(kept, (0, n - len(kept))), "count": np.array([len(kept)])}
    knl = lp.add_and_infer_dtypes(packing(), {})
    on_host = lp.realize_reduction(knl.copy(target=lp.ExecutableCTarget()), force_scan=True)
    assert_computes(on_host, arguments, want)
    knl = lp.realize_reduction(blocks(knl, "i"), force_scan=True)
    assert_computes(knl, arguments, want, device)


def row_starts() -> lp.TranslationUnit:
    """Entries in any order become compressed rows: counted, scanned, put into their places."""
    return lp.make_kernel(
        ["{ [e]: 0 <= e < entries }", "{ [i]: 0 <= i <= n }", "{ [j]: 0 <= j < i }",
         "{ [f]: 0 <= f < entries }"],
        """
        counts[row[e]] = counts[row[e]] + 1    {id=count, atomic}
        ... gbarrier                           {id=counted, dep=count}
        starts[i] = sum(j, counts[j])          {id=scan, dep=counted}
        ... gbarrier                           {id=scanned, dep=scan}
        columns[starts[row[f]] + rank[f]] = column[f]   {id=put, dep=scanned}
        """,
        [
            integer("row, rank, column, columns", "entries"),
            lp.GlobalArg("counts", np.int32, shape="n", for_atomic=True),
            lp.GlobalArg("starts", np.int32, shape="n + 1", is_input=False),
            size("n"),
            size("entries"),
        ],
        silenced_warnings=["write_race(put)"],
    )  # fmt: skip


def test_rows_of_a_sparse_matrix(device: Any) -> None:
    n, entries = 70, 400
    row, column = indices(n, entries), indices(n, entries, seed=6)
    rank = np.array([(row[:e] == row[e]).sum() for e in range(entries)], np.int32)
    counts = np.bincount(row, minlength=n)
    order = np.argsort(row, kind="stable")
    want = {"starts": np.concatenate([[0], np.cumsum(counts)]), "columns": column[order]}
    arguments = {
        "row": row, "rank": rank, "column": column,
        "columns": np.zeros(entries, np.int32), "counts": np.zeros(n, np.int32), "n": n,
    }  # fmt: skip
    knl = lp.add_and_infer_dtypes(row_starts(), {})
    on_host = lp.realize_reduction(knl.copy(target=lp.ExecutableCTarget()), force_scan=True)
    assert_computes(on_host, arguments, want)
    knl = lp.realize_reduction(blocks(tile(tile(knl, "e", 32), "f", 32), "i"), force_scan=True)
    assert_computes(knl, arguments, want, device)


def radix_sort() -> lp.TranslationUnit:
    """One bit after the other, there and back: keys with a zero go first, in their order."""
    there = half_of_sort("u", "v", "2*b", ("i", "j", "k"))
    back = half_of_sort("v", "u", "2*b + 1", ("l", "m", "o"))
    return lp.make_kernel(
        ["{ [b]: 0 <= b < bits }", "{ [i, j]: 0 <= j <= i < n }", "{ [l, m]: 0 <= m <= l < n }",
         "{ [k, o]: 0 <= k, o < n }"],
        f"for b\n{there}\n{back}\nend",
        [integer("u, v", "n"), size("bits, n"), lp.TemporaryVariable(
            "zeros", np.int32, shape="n", address_space=lp.AddressSpace.GLOBAL), ...],
        seq_dependencies=True,
        silenced_warnings=["write_race(put_*)"],
        assumptions="n >= 1",
    )  # fmt: skip


def half_of_sort(source: str, target: str, bit: str, inames: tuple[str, str, str]) -> str:
    """G. E. Blelloch: Prefix sums and their applications, 1990: the operation *split*."""
    i, j, k = inames
    return f"""
        zeros[{i}] = sum({j}, 1 - (({source}[{j}] >> ({bit})) & 1))
        ... gbarrier
        <> before_{k} = zeros[{k}]
        <> is_one_{k} = ({source}[{k}] >> ({bit})) & 1
        <> at_{k} = zeros[n - 1] + {k} - before_{k} if is_one_{k} else before_{k} - 1
        {target}[at_{k}] = {source}[{k}]   {{id=put_{k}}}
        ... gbarrier
    """


@pytest.mark.parametrize("n", [1, 100])
def test_keys_are_sorted(n: int, device: Any) -> None:
    keys = indices(256, n)
    arguments = {"u": keys, "v": np.zeros_like(keys), "bits": 4}
    want: dict[str, Array] = {"u": np.sort(keys)}
    knl = lp.add_and_infer_dtypes(radix_sort(), {})
    on_host = lp.realize_reduction(knl.copy(target=lp.ExecutableCTarget()), force_scan=True)
    assert_computes(on_host, arguments, want)
    knl = lp.realize_reduction(blocks(tile(tile(knl, "k", 16), "o", 16), "il"), force_scan=True)
    assert_computes(knl, arguments, want, device)


def test_the_code_of_packing_runs_each_instance_once() -> None:
    knl = lp.add_and_infer_dtypes(packing(), {})
    assert_trace(lp.realize_reduction(blocks(knl, "i"), force_scan=True), n=70)
