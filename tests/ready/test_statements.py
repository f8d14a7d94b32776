"""Statements of C as instructions: branches, loops, declarations, atomic updates."""

from __future__ import annotations

import numpy as np
import pytest

from kgen.elementwise import ElementwiseKernel
from kgen.errors import KgenError


def run(operation: str, x: np.ndarray, m: int = 5) -> list[int]:
    y = np.full(len(x), 99, np.int32)
    ElementwiseKernel("int *x, int *y, int m", operation)(x, y, m)
    return [int(value) for value in y]


X = np.arange(-4, 5, dtype=np.int32)


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        (
            "if (x[i] > 1) y[i] = 1; else if (x[i] < -1) y[i] = -1; else { y[i] = 0; }",
            lambda v: (v > 1) - (v < -1),
        ),
        (
            "if (x[i] < 0) { y[i] = 7; PYOPENCL_ELWISE_CONTINUE; } y[i] = x[i];",
            lambda v: 7 if v < 0 else v,
        ),
        (
            "int s = 0, t; for (int k = 0; k < m; ++k) { t = k*x[i]; s += t; } y[i] = s",
            lambda v: 10 * v,
        ),
        (
            "int s = x[i]; for (int k = 1; k <= m; k += 2) for (int l = 0; l < k; l++) s++; y[i]=s",
            lambda v: 9 + v,
        ),
        ("int s = 0; for (int k = 0; k < x[i]; ++k) ++s; y[i] = s", lambda v: max(v, 0)),
        ("int t[3] = {1, 2, 3}; y[i] = t[((x[i] % 3) + 3) % 3]", lambda v: v % 3 + 1),
        ("int a = x[i]; { int a = 2; y[i] = a; } y[i] -= a;", lambda v: 2 - v),
        (
            "y[i] = x[i]; if (y[i] > 0) { y[i] = -y[i]; y[i] -= 1; }",
            lambda v: v if v <= 0 else -v - 1,
        ),
        ("y[i] = 1; y[i] <<= 2, y[i] |= 1;", lambda v: 5),
        ("*(y + i) = x[i] /* here */ + *x; // and the first one\n", lambda v: v - 4),
    ],
)
def test_statements_do_what_they_do_in_c(operation: str, expected: object) -> None:
    assert callable(expected)
    assert run(operation, X) == [expected(int(v)) for v in X]


def test_atomic_updates_of_counters() -> None:
    x, counts = np.arange(1000, dtype=np.int32), np.zeros(7, np.int32)
    ElementwiseKernel("int *x, int *counts", "atomic_add(&counts[x[i] % 7], 1);")(x, counts)
    assert counts.tolist() == np.bincount(x % 7).tolist()


@pytest.mark.parametrize(
    ("operation", "message"),
    [
        ("while (1) y[i] = 1;", "While is not a statement"),
        ("m = 3", "declare a variable of another name"),
        ("for (int k = 9; k > 0; --k) y[i] = k;", "count up"),
        ("for (int k = 0; k != 9; ++k) y[i] = k;", "does not end at a bound"),
        ("int k; for (k = 0; k < 9; ++k) y[i] = k;", "does not declare"),
        ("for (int k = 0; k < 9; k *= 2) y[i] = k;", "step"),
        ("y[i].x = 3", "assign all of it"),
        ("sqrt(2.0);", "statements that are calls"),
        ("int t[m]; y[i] = 1", "not a constant"),
    ],
)
def test_what_cannot_be_expressed_says_what_to_write(operation: str, message: str) -> None:
    with pytest.raises(KgenError, match=message):
        run(operation, X)


@pytest.mark.parametrize("operation", ["x[i] = 7", "++x[0]", "atomic_add(&x[i], 1)"])
def test_arrays_that_are_declared_const_are_not_assigned(operation: str) -> None:
    with pytest.raises(KgenError, match="'x' is declared const"):
        ElementwiseKernel("int const *x, int *y", operation)(X.copy(), X.copy())
    ElementwiseKernel("int *const x", operation)(X.copy())
