"""Dense matrices: products, transposes, factorizations of many small ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kgen as lp
from tests.programs.support import (
    Array,
    assert_computes,
    assert_trace,
    block,
    double,
    numbers,
    tile,
)

TILE = 8


def plain_product() -> lp.TranslationUnit:
    return lp.make_kernel(
        "{ [i, j, k]: 0 <= i < n and 0 <= j < m and 0 <= k < l }",
        "c[i, j] = sum(k, a[i, k]*b[k, j])",
        [double("a, b"), ...],
    )


def product() -> lp.TranslationUnit:
    """A tile of each operand in local memory, for any sizes."""
    knl = lp.split_iname(tile(plain_product(), "ij", TILE), "k", TILE)
    knl = lp.add_prefetch(knl, "a", ["i_inner", "k_inner"])
    return lp.add_prefetch(knl, "b", ["j_inner", "k_inner"])


def product_in_blocks() -> lp.TranslationUnit:
    """A block of each operand in a small array, and a block of sums, on the host."""
    knl = block(plain_product(), "ijk", TILE)
    knl = lp.add_prefetch(knl, "a", ["i_inner", "k_inner"], default_tag=None)
    return lp.add_prefetch(knl, "b", ["j_inner", "k_inner"], default_tag=None)


@pytest.mark.parametrize(("n", "m", "k"), [(1, 1, 1), (7, 9, 17), (16, 8, 24)])
def test_a_tiled_product(n: int, m: int, k: int, device: Any) -> None:
    a, b = numbers(n, k), numbers(k, m)
    assert_computes(product_in_blocks(), {"a": a, "b": b}, {"c": a @ b})
    assert_computes(product(), {"a": a, "b": b}, {"c": a @ b}, device)


def test_the_code_of_a_product_runs_each_instance_once() -> None:
    assert_trace(product(), n=3, m=9, l=10)
    assert lp.generate_body(product()).count("barrier(") == 2


def plain_transpose() -> lp.TranslationUnit:
    return lp.make_kernel(
        "{ [i, j]: 0 <= i < n and 0 <= j < m }", "out[j, i] = a[i, j]", [double("a"), ...]
    )


def transpose() -> lp.TranslationUnit:
    """Rows are read and rows are written; a tile in local memory is turned around."""
    knl = tile(plain_transpose(), "ji", TILE)
    return lp.add_prefetch(knl, "a", ["i_inner", "j_inner"])


@pytest.mark.parametrize(("n", "m"), [(1, 1), (7, 9), (16, 8)])
def test_a_tiled_transpose(n: int, m: int, device: Any) -> None:
    a = numbers(n, m)
    on_host = block(plain_transpose(), "ij", TILE)
    on_host = lp.add_prefetch(on_host, "a", ["i_inner", "j_inner"], default_tag=None)
    assert_computes(on_host, {"a": a}, {"out": a.T})
    assert_computes(transpose(), {"a": a}, {"out": a.T}, device)
    assert_trace(transpose(), n=n, m=m)


def small_products() -> lp.TranslationUnit:
    """Four pairs of matrices for each group, an element of a product for each work-item."""
    knl = lp.make_kernel(
        "{ [e, i, j, k]: 0 <= e < batch and 0 <= i, j, k < 5 }",
        "c[e, i, j] = sum(k, a[e, i, k]*b[e, k, j])",
        [double("a, b", "batch, 5, 5"), ...],
    )
    return lp.split_iname(knl, "e", 4)


def test_products_of_small_matrices(device: Any) -> None:
    a, b = numbers(7, 5, 5), numbers(7, 5, 5, seed=1)
    assert_computes(small_products(), {"a": a, "b": b}, {"c": a @ b})
    knl = lp.tag_inames(small_products(), "e_outer:g.0, e_inner:l.2, i:l.1, j:l.0, k:unr")
    knl = lp.add_prefetch(knl, "a", ["e_inner", "i", "k"])
    knl = lp.add_prefetch(knl, "b", ["e_inner", "k", "j"])
    assert_computes(knl, {"a": a, "b": b}, {"c": a @ b}, device)
    assert_trace(knl, batch=5)


# -- factorizations ----------------------------------------------------------------------------


def cholesky() -> lp.TranslationUnit:
    """Column by column; each depends on those before it."""
    return lp.make_kernel(
        [
            "{ [e, j]: 0 <= e < batch and 0 <= j < 4 }",
            "{ [i]: j < i < 4 }",
            "{ [k, m]: 0 <= k, m < j }",
        ],
        """
        for e, j
            <> d = sqrt(a[e, j, j] - sum(m, L[e, j, m]**2)) {id=d, dep=*}
            L[e, j, j] = d {id=diagonal, dep=*d}
            L[e, i, j] = (a[e, i, j] - sum(k, L[e, i, k]*L[e, j, k]))/d {dep=*diagonal}
        end
        """,
        [double("a, L", "batch, 4, 4"), ...],
    )


def a_matrix_per_item(*, unrolled: bool) -> lp.TranslationUnit:
    knl = lp.split_iname(cholesky(), "e", 4, outer_tag="g.0", inner_tag="l.0")
    return lp.tag_inames(knl, "i:unr, j:unr, k:unr, m:unr") if unrolled else knl


def spd() -> Array:
    g = numbers(6, 4, 4)
    return g @ g.transpose(0, 2, 1) + np.eye(4)


def test_cholesky_on_the_host() -> None:
    arguments = {"a": spd(), "L": np.zeros((6, 4, 4))}
    assert_computes(cholesky(), arguments, {"L": np.linalg.cholesky(spd())})


@pytest.mark.parametrize("unrolled", [False, True])
def test_cholesky_a_matrix_per_item(unrolled: bool, device: Any) -> None:
    knl = a_matrix_per_item(unrolled=unrolled)
    arguments = {"a": spd(), "L": np.zeros((6, 4, 4))}
    assert_computes(knl, arguments, {"L": np.linalg.cholesky(spd())}, device)
    assert_trace(knl, batch=5)


def lu() -> lp.TranslationUnit:
    """Without pivoting, in place."""
    return lp.make_kernel(
        "{ [e, k, i, j, p]: 0 <= e < batch and 0 <= k < n and k < i, j, p < n }",
        """
        for e, k
            a[e, p, k] = a[e, p, k]/a[e, k, k] {id=scale, dep=*}
            a[e, i, j] = a[e, i, j] - a[e, i, k]*a[e, k, j] {id=update, dep=*scale}
        end
        """,
        [double("a", "batch, n, n"), ...],
    )


def lu_in_numpy(a: Array) -> Array:
    a = a.copy()
    for k in range(a.shape[-1]):
        a[:, k + 1 :, k] /= a[:, k, k, None]
        a[:, k + 1 :, k + 1 :] -= a[:, k + 1 :, k, None] * a[:, k, None, k + 1 :]
    return a


def test_lu_on_the_host() -> None:
    a = numbers(5, 6, 6) + 6 * np.eye(6)
    assert_computes(lu(), {"a": a}, {"a": lu_in_numpy(a)})


def test_lu_with_a_row_per_item(device: Any) -> None:
    """Rows of a matrix meet at barriers: one where a column begins."""
    knl = lp.tag_inames(lp.fix_parameters(lu(), n=6), "e:g.0, p:l.0, i:l.0")
    a = numbers(5, 6, 6) + 6 * np.eye(6)
    assert_computes(knl, {"a": a}, {"a": lu_in_numpy(a)}, device)
    assert_trace(knl, batch=2)
    assert lp.generate_body(knl).count("barrier(") == 1


def lu_in_local_memory() -> lp.TranslationUnit:
    knl = lp.make_kernel(
        "{ [e, k, i, j, p, r, c, s, d]: "
        "0 <= e < batch and 0 <= k < 6 and k < i, j, p < 6 and 0 <= r, c, s, d < 6 }",
        """
        for e
            t[r, c] = a[e, r, c] {id=load}
            for k
                t[p, k] = t[p, k]/t[k, k] {id=scale, dep=*load}
                t[i, j] = t[i, j] - t[i, k]*t[k, j] {id=update, dep=*scale}
            end
            lu[e, s, d] = t[s, d] {dep=*update:scale:load}
        end
        """,
        [double("a", "batch, 6, 6"), lp.TemporaryVariable("t", np.float64, shape=(6, 6)), ...],
    )
    return lp.tag_inames(knl, "e:g.0, p:l.0, r:l.0, s:l.0, i:l.0")


def test_lu_in_local_memory(device: Any) -> None:
    a = numbers(5, 6, 6) + 6 * np.eye(6)
    assert_computes(lu_in_local_memory(), {"a": a}, {"lu": lu_in_numpy(a)}, device)
    assert_trace(lu_in_local_memory(), batch=2)


def test_work_items_that_do_the_same_are_refused() -> None:
    """Two axes for the update, but only one for the scaling of a column."""
    knl = lp.tag_inames(lu_in_local_memory(), "j:l.1")
    with pytest.raises(lp.ScheduleError, match=r"writes 't' without using hardware axes l\.1"):
        lp.generate_body(knl)
