"""
Kernels for C++, C and Fortran
==============================

Kernels for programs in C++, C and Fortran: heat equation, conjugate gradients.

CMake exports them for C, OpenCL and CUDA: ``CMakeLists.txt``.
"""

import numpy as np

import kgen as lp

GROUPS, ITEMS = 256, 128


def heat_step() -> lp.TranslationUnit:
    """Return one explicit step of the heat equation, inside of a boundary."""
    knl = lp.make_kernel(
        "{ [i, j]: 1 <= i < n - 1 and 1 <= j < m - 1 }",
        "next[i, j] = u[i, j] + c*(u[i-1, j] + u[i+1, j] + u[i, j-1] + u[i, j+1] - 4*u[i, j])",
        [lp.GlobalArg("u, next", np.float64, shape="n, m"), lp.ValueArg("c", np.float64), ...],
        assumptions="n >= 2 and m >= 2",
        name="heat_step",
    )
    knl = lp.split_iname(knl, "j", 32, outer_tag="g.0", inner_tag="l.0")
    return lp.split_iname(knl, "i", 4, outer_tag="g.1", inner_tag="l.1")


def multiply() -> lp.TranslationUnit:
    """Return the product of a sparse matrix in compressed rows (CSR) and a vector."""
    knl = lp.make_kernel(
        ["{ [row]: 0 <= row < n }", "{ [k]: first <= k < last }"],
        """
        for row
            <> first = starts[row]
            <> last = starts[row + 1]
            y[row] = sum(k, values[k]*x[columns[k]])
        end
        """,
        [
            lp.GlobalArg("starts", np.int32, shape="n + 1"),
            lp.GlobalArg("columns", np.int32, shape="entries"),
            lp.GlobalArg("values", np.float64, shape="entries"),
            lp.GlobalArg("x", np.float64, shape="n"),
            lp.GlobalArg("y", np.float64, shape="n"),
            lp.ValueArg("entries", np.int32),
            ...,
        ],
        name="multiply",
    )
    return lp.split_iname(knl, "row", ITEMS, outer_tag="g.0", inner_tag="l.0")


def dot() -> lp.TranslationUnit:
    """Return the inner product of two vectors: a tree in each group, and then over groups."""
    knl = lp.make_kernel(
        "{ [i]: 0 <= i < n }",
        "result = sum(i, x[i]*y[i])",
        [
            lp.GlobalArg("x, y", np.float64, shape="n"),
            lp.GlobalArg("result", np.float64, shape=()),
            ...,
        ],
        assumptions="n >= 1",
        name="dot",
    )
    knl = lp.split_iname(knl, "i", ITEMS, inner_tag="l.0")
    return lp.split_iname(knl, "i_outer", GROUPS, inner_tag="g.0")


def axpby() -> lp.TranslationUnit:
    """Return ``y = a*x + b*y``."""
    knl = lp.make_kernel(
        "{ [i]: 0 <= i < n }",
        "y[i] = a*x[i] + b*y[i]",
        [
            lp.ValueArg("a, b", np.float64),
            lp.GlobalArg("x, y", np.float64, shape="n"),
            ...,
        ],
        name="axpby",
    )
    return lp.split_iname(knl, "i", ITEMS, outer_tag="g.0", inner_tag="l.0")
