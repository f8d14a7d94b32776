"""The product of a sparse matrix in CSR, five numbers in a row, by a vector."""

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
        peer=_cusparse,
    ),
)
