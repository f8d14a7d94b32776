"""
Rows of sparse matrices
=======================

Products of sparse matrices in CSR by vectors: five numbers in a row, and rows by a power law.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from case import Arrays, Case

import kgen as lp

F32, I32 = np.float32, np.int32


def rows_by_vector(n: int, target: Any) -> lp.TranslationUnit:
    text = """
    for row
        <> first = starts[row]
        <> count = starts[row + 1] - first
        out[row] = sum(k, values[first + k]*x[columns[first + k]])
    end
    """
    data = [
        lp.GlobalArg("values", F32, shape="entries"),
        lp.GlobalArg("columns", I32, shape="entries"),
        lp.GlobalArg("starts", I32, shape=n * n + 1),
        lp.GlobalArg("x, out", F32, shape=n * n),
        lp.ValueArg("entries", I32),
    ]
    domains = [f"{{ [row]: 0 <= row < {n * n} }}", "{ [k]: 0 <= k < count }"]
    return lp.make_kernel(domains, text, data, target=target)


def row_for_each_item(knl: lp.TranslationUnit) -> lp.TranslationUnit:
    knl = lp.split_iname(knl, "row", 128, outer_tag="g.0", inner_tag="l.0")
    return lp.split_iname(knl, "k", 5, inner_tag="unr")


def rows_of_any_length(n: int, target: Any) -> lp.TranslationUnit:
    text = """
    for row
        <> first = starts[row]
        <> last = starts[row + 1]
        out[row] = sum(k, values[k]*x[columns[k]])
    end
    """
    data = [
        lp.GlobalArg("values", F32, shape="entries"),
        lp.GlobalArg("columns", I32, shape="entries"),
        lp.GlobalArg("starts", I32, shape=n + 1),
        lp.GlobalArg("x, out", F32, shape=n),
        lp.ValueArg("entries", I32),
    ]
    domains = [f"{{ [row]: 0 <= row < {n} }}", "{ [k]: first <= k < last }"]
    return lp.make_kernel(domains, text, data, target=target)


def same_work_for_each_item(knl: lp.TranslationUnit) -> lp.TranslationUnit:
    is_cuda = isinstance(knl.default_entrypoint.target, lp.CudaTarget)
    knl = lp.tag_arrays(knl, "values, columns", "!streaming_load")  # caches keep x
    knl = lp.set_launch_bounds(knl, local_memory_share=60)
    return lp.balance(knl, "row, k", items=7, group_size=512 if is_cuda else 256)


def _five_points(rng: np.random.Generator, n: int) -> Arrays:
    """Draw a matrix with the pattern of five points on a square of *n* x *n*."""
    rows = np.arange(n * n).reshape(n, n)
    around = [np.roll(rows, by, axis) for by in (1, -1) for axis in (0, 1)]
    columns = np.sort(np.stack([rows, *around], axis=-1).reshape(-1, 5), axis=1)
    return {
        "values": rng.random(columns.size, dtype=F32),
        "columns": columns.astype(I32).ravel(),
        "starts": np.arange(0, columns.size + 1, 5, dtype=I32),
        "x": rng.random(n * n, dtype=F32),
    }


def _lengths(n: int) -> np.ndarray[Any, Any]:
    """Return lengths of rows by Zipf's law, about 16 on average: a few have most entries."""
    lengths: np.ndarray[Any, Any] = 3.4 * n**0.8 * np.arange(1, n + 1) ** -0.8
    return lengths.astype(I32)


def _power_law(rng: np.random.Generator, n: int) -> Arrays:
    starts = np.zeros(n + 1, I32)
    np.cumsum(rng.permutation(_lengths(n)), out=starts[1:])
    return {
        "values": rng.random(starts[-1], dtype=F32),
        "columns": rng.integers(0, n, starts[-1], dtype=I32),
        "starts": starts,
        "x": rng.random(n, dtype=F32),
    }


def _sums_of_rows(given: Arrays) -> np.ndarray[Any, Any]:
    terms = given["values"].astype(np.float64) * given["x"][given["columns"]]
    result: np.ndarray[Any, Any] = np.add.reduceat(terms, given["starts"][:-1])
    return result


def _expected(given: Arrays) -> np.ndarray[Any, Any]:
    terms = given["values"].astype(np.float64) * given["x"][given["columns"]]
    result: np.ndarray[Any, Any] = terms.reshape(-1, 5).sum(axis=1)
    return result


def _cusparse(torch: Any, on: Any) -> Any:
    size = on["x"].shape[0]
    matrix = torch.sparse_csr_tensor(on["starts"], on["columns"], on["values"], (size, size))
    return lambda: torch.mv(matrix, on["x"])


CASES = (
    Case(
        title="sparse matrix (CSR), 5 in a row",
        kernel=rows_by_vector,
        schedule=row_for_each_item,
        inputs=_five_points,
        expected=_expected,
        work=lambda n: n * n * (5 * 8 + 4 + 8),
        size=2048,
        small=32,
        stated={"trips": {"k": 5}},
        peer=_cusparse,
    ),
    Case(
        title="sparse matrix (CSR), a power law",
        kernel=rows_of_any_length,
        schedule=same_work_for_each_item,
        inputs=_power_law,
        expected=_sums_of_rows,
        work=lambda n: int(_lengths(n).sum()) * 8 + n * (4 + 8),
        size=2**22,
        small=300,
        tolerance=1e-3,  # the longest row is a sum of 670,000 numbers
        stated={"ascending": "starts"},
        peer=_cusparse,
    ),
)
