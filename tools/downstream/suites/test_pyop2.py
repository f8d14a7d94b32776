"""Loops over meshes that PyOP2 compiles to C, compared with numpy.

PyOP2's distribution carries no tests, so these are ours. Matrices need PETSc and are left out.
"""

import loopy as lp
import numpy as np
import pytest
from pyop2 import op2

N = 12
RNG = np.random.default_rng(3)


@pytest.fixture(params=["C", "loopy"])
def language(request):
    return request.param


def kernel(language, name, arguments, text, domain="{ [i]: 0<=i<1 }"):
    """Make a kernel of C statements, or of loopy's, from *arguments*: name, access, shape."""
    if language == "C":
        spelled = ", ".join(
            f"double {'const ' if access == 'r' else ''}*{arg}" for arg, access, _ in arguments
        )
        return op2.Kernel(f"static void {name}({spelled}) {{ {text[0]} }}", name)
    data = [
        lp.GlobalArg(arg, np.float64, shape=shape, is_input="r" in access, is_output="w" in access)
        for arg, access, shape in arguments
    ]
    made = lp.make_function(domain, text[1], data, name=name, target=lp.CWithGNULibcTarget())
    return op2.Kernel(made, name)


def line():
    edges, nodes = op2.Set(N, "edges"), op2.Set(N + 1, "nodes")
    ends = np.stack([np.arange(N), np.arange(N) + 1], axis=1).astype(np.int32)
    return edges, nodes, op2.Map(edges, nodes, 2, ends, "ends"), ends


def dat(where, dim=1, values=None):
    values = RNG.random((where.size, dim)) if values is None else values
    return op2.Dat(op2.DataSet(where, dim), values, np.float64), values.copy()


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_direct(language, dim):
    nodes = op2.Set(N, "nodes")
    (x, a), (y, _) = dat(nodes, dim), dat(nodes, dim)
    text = (
        f"for (int i = 0; i < {dim}; ++i) y[i] = 2*x[i] + 1;",
        "y[i] = 2*x[i] + 1",
    )
    twice = kernel(
        language, "twice", [("y", "w", dim), ("x", "r", dim)], text, f"{{[i]: 0<=i<{dim}}}"
    )
    op2.par_loop(twice, nodes, y(op2.WRITE), x(op2.READ))
    np.testing.assert_allclose(y.data_ro.reshape(a.shape), 2 * a + 1)


def test_gathered(language):
    edges, nodes, ends, at = line()
    (x, a), (d, _) = dat(nodes), dat(edges)
    difference = kernel(
        language,
        "difference",
        [("d", "w", 1), ("x", "r", 2)],
        ("d[0] = x[1] - x[0];", "d[i] = x[1] - x[0]"),
    )
    op2.par_loop(difference, edges, d(op2.WRITE), x(op2.READ, ends))
    np.testing.assert_allclose(d.data_ro, (a[at[:, 1]] - a[at[:, 0]])[:, 0])


@pytest.mark.parametrize("dim", [1, 2])
def test_scattered(language, dim):
    edges, nodes, ends, at = line()
    x, a = dat(nodes, dim, np.zeros((N + 1, dim)))
    w, b = dat(edges, dim)
    spread = kernel(
        language,
        "spread",
        [("x", "rw", (2, dim)), ("w", "r", dim)],
        (
            f"for (int i = 0; i < {dim}; ++i) {{ x[i] += w[i]; x[{dim} + i] += 3*w[i]; }}",
            "x[0, i] = x[0, i] + w[i]\nx[1, i] = x[1, i] + 3*w[i]",
        ),
        f"{{[i]: 0<=i<{dim}}}",
    )
    op2.par_loop(spread, edges, x(op2.INC, ends), w(op2.READ))
    np.add.at(a, at[:, 0], b)
    np.add.at(a, at[:, 1], 3 * b)
    np.testing.assert_allclose(x.data_ro.reshape(a.shape), a)


@pytest.mark.parametrize("access", ["INC", "MIN", "MAX"])
def test_reduced(language, access):
    nodes = op2.Set(N, "nodes")
    x, a = dat(nodes)
    start = {"INC": 0.0, "MIN": 9.0, "MAX": -9.0}[access]
    found = op2.Global(1, start, np.float64, comm=nodes.comm)
    text = {
        "INC": ("g[0] += x[0];", "g[i] = g[i] + x[i]"),
        "MIN": ("g[0] = fmin(g[0], x[0]);", "g[i] = fmin(g[i], x[i])"),
        "MAX": ("g[0] = fmax(g[0], x[0]);", "g[i] = fmax(g[i], x[i])"),
    }[access]
    reduced = kernel(language, "reduced", [("g", "rw", 1), ("x", "r", 1)], text)
    op2.par_loop(reduced, nodes, found(getattr(op2, access)), x(op2.READ))
    expected = {"INC": a.sum(), "MIN": a.min(), "MAX": a.max()}[access]
    np.testing.assert_allclose(found.data_ro, [expected])


@pytest.mark.parametrize("layers", [2, 5])
def test_columns(language, layers):
    base, points = op2.Set(N, "base"), op2.Set(N * layers, "points")
    cells = op2.ExtrudedSet(base, layers=layers)
    at = np.stack([np.arange(N) * layers, np.arange(N) * layers + 1], axis=1).astype(np.int32)
    ends = op2.Map(cells, points, 2, at, "ends", offset=np.array([1, 1], dtype=np.int32))
    x, _ = dat(points, 1, np.zeros((N * layers, 1)))
    count = kernel(
        language,
        "count_cells",
        [("x", "rw", 2)],
        ("x[0] += 1; x[1] += 1;", "x[i] = x[i] + 1"),
        "{ [i]: 0<=i<2 }",
    )
    op2.par_loop(count, cells, x(op2.INC, ends))
    expected = np.full((N, layers), 2.0)
    expected[:, [0, -1]] = 1
    np.testing.assert_allclose(x.data_ro.reshape(N, layers), expected)
