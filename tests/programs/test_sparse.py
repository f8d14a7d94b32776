"""Sparse matrices: rows whose lengths are data, in three formats, and a step of a solver."""

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

ROWS, COLUMNS = 13, 9


def matrix() -> Array:
    """Return a matrix with few entries, and a row without any."""
    matrix = numbers(ROWS, COLUMNS) * (numbers(ROWS, COLUMNS, seed=1) < 0.3)
    matrix[4] = 0
    return matrix


def compressed(matrix: Array) -> dict[str, Array]:
    starts = np.concatenate([[0], np.cumsum((matrix != 0).sum(1))]).astype(np.int32)
    columns = matrix.nonzero()[1].astype(np.int32)
    return {"starts": starts, "columns": columns, "values": matrix[matrix != 0]}


def csr() -> lp.TranslationUnit:
    return lp.make_kernel(
        ["{ [row]: 0 <= row < n }", "{ [k]: first <= k < last }"],
        """
        for row
            <> first = starts[row]
            <> last = starts[row + 1]
            y[row] = sum(k, values[k]*x[columns[k]])
        end
        """,
        [double("values, x", None), integer("columns", None), integer("starts", "n + 1"), ...],
    )


def test_compressed_rows(device: Any) -> None:
    x = numbers(COLUMNS)
    arguments, want = {**compressed(matrix()), "x": x}, {"y": matrix() @ x}
    assert_computes(csr(), arguments, want)
    assert_computes(tile(lp.rename_iname(csr(), "row", "r"), "r", 4), arguments, want, device)


def test_loops_over_data_count_in_32_bits() -> None:
    assert "for (int k = first; k < last; ++k)" in lp.generate_body(csr())


def ell() -> lp.TranslationUnit:
    """Rows are padded to one length; neighbouring work-items read neighbouring entries."""
    return lp.make_kernel(
        "{ [r, k]: 0 <= r < n and 0 <= k < width }",
        "y[r] = sum(k, values[k, r]*x[columns[k, r]])",
        [double("values"), double("x", None), integer("columns"), ...],
    )


def test_padded_rows(device: Any) -> None:
    columns, values, x = indices(COLUMNS, 4, ROWS), numbers(4, ROWS), numbers(COLUMNS)
    arguments = {"columns": columns, "values": values, "x": x}
    want = {"y": (values * x[columns]).sum(0)}
    assert_computes(ell(), arguments, want)
    assert_computes(tile(ell(), "r", 4), arguments, want, device)


def bsr() -> lp.TranslationUnit:
    """The entries are blocks of 3 by 3."""
    return lp.make_kernel(
        [
            "{ [r, i]: 0 <= r < n and 0 <= i < 3 }",
            "{ [k]: first <= k < last }",
            "{ [j]: 0 <= j < 3 }",
        ],
        """
        for r
            <> first = starts[r]
            <> last = starts[r + 1]
            y[r, i] = sum(k, sum(j, blocks[k, i, j]*x[columns[k], j]))
        end
        """,
        [
            double("blocks", "entries, 3, 3"),
            double("x", "m, 3"),
            integer("columns", "entries"),
            integer("starts", "n + 1"),
            size("entries, m"),
            ...,
        ],
    )


def test_blocks(device: Any) -> None:
    arguments = compressed(matrix())
    blocks, x = numbers(len(arguments.pop("values")), 3, 3), numbers(COLUMNS, 3)
    row_of = matrix().nonzero()[0]
    want = np.zeros((ROWS, 3))
    np.add.at(want, row_of, np.einsum("kij,kj->ki", blocks, x[arguments["columns"]]))
    arguments |= {"blocks": blocks, "x": x}
    assert_computes(bsr(), arguments, {"y": want})
    knl = lp.split_iname(bsr(), "r", 4, outer_tag="g.0", inner_tag="l.1")
    assert_computes(lp.tag_inames(knl, "i:l.0, j:unr"), arguments, {"y": want}, device)


# -- a step of conjugate gradients ----------------------------------------------------------------


def conjugate_gradients() -> lp.TranslationUnit:
    """Four launches: a product, two sums that everybody needs, the exchange."""
    loops = "i0, i1, i2, i3, k, s, t, u, v"
    return lp.make_kernel(
        f"{{ [{loops}]: 0 <= {loops} < n }}",
        """
        q[i0] = sum(k, A[i0, k]*p[k])                             {id=q, dep=*}
        ... gbarrier                                              {id=one, dep=q}
        <> alpha = sum(s, r[s]**2)/sum(t, p[t]*q[t])              {id=alpha, dep=*one, inames=i1}
        x[i1] = x[i1] + alpha*p[i1]                               {id=x, dep=*alpha}
        z[i1] = r[i1] - alpha*q[i1]                               {id=z, dep=*alpha}
        ... gbarrier                                              {id=two, dep=x:z}
        <> beta = sum(u, z[u]**2)/sum(v, r[v]**2)                 {id=beta, dep=*two, inames=i2}
        d[i2] = z[i2] + beta*p[i2]                                {id=d, dep=*beta}
        ... gbarrier                                              {id=three, dep=d}
        p[i3] = d[i3]                                             {dep=*three}
        r[i3] = z[i3]                                             {dep=*three}
        """,
        [
            double("A", "n, n"),
            double("x, p, r", "n"),
            *(
                lp.TemporaryVariable(
                    name, np.float64, shape="n", address_space=lp.AddressSpace.GLOBAL
                )
                for name in "qzd"
            ),
            ...,
        ],
    )


def cg_arguments(n: int) -> tuple[dict[str, Array], dict[str, Array]]:
    g, b, x = numbers(n, n), numbers(n, seed=8), np.zeros(n)
    a = g @ g.T + np.eye(n)
    q = a @ b
    alpha = b @ b / (b @ q)
    z = b - alpha * q
    want = {"x": alpha * b, "r": z, "p": z + z @ z / (b @ b) * b}
    return {"A": a, "x": x, "p": b, "r": b}, want


@pytest.mark.parametrize("n", [1, 9])
def test_conjugate_gradients(n: int, device: Any) -> None:
    assert_computes(conjugate_gradients(), *cg_arguments(n))
    knl = conjugate_gradients()
    for k in range(4):
        knl = lp.split_iname(knl, f"i{k}", 4, outer_tag="g.0", inner_tag="l.0")
    for iname in "stuv":  # each group adds up what it needs, its work-items together
        knl = lp.split_iname(knl, iname, 4, inner_tag="l.0")
    assert_computes(knl, *cg_arguments(n), device=device)
