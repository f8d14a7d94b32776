"""Forms that TSFC compiles to C: element tensors with properties known without computing them.

TSFC's distribution carries no tests, so these are ours. A kernel is compiled by the C compiler and
called for the reference cell.
"""

import ctypes
import subprocess
from math import comb
from pathlib import Path

import finat.ufl
import loopy as lp
import numpy as np
import pytest
import tsfc
import ufl
from ufl import TestFunction, TrialFunction, div, dot, dx, exp, grad, inner, sym

REFERENCE = {
    "interval": [[0], [1]],
    "triangle": [[0, 0], [1, 0], [0, 1]],
    "tetrahedron": [[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]],
}
VOLUME = {"interval": 1.0, "triangle": 1 / 2, "tetrahedron": 1 / 6}
CELLS = pytest.mark.parametrize("cell", REFERENCE)
DEGREES = pytest.mark.parametrize("degree", [1, 2, 3])


def space(cell, family, degree, vector=False):
    shape = finat.ufl.VectorElement if vector else finat.ufl.FiniteElement
    mesh = ufl.Mesh(finat.ufl.VectorElement("Lagrange", getattr(ufl, cell), 1))
    return ufl.FunctionSpace(mesh, shape(family, getattr(ufl, cell), degree))


def element_tensor(form, cell, where: Path, *coefficients):
    """Compile the only kernel of *form*, and return what it computes."""
    (kernel,) = tsfc.compile_form(form)
    code = lp.generate_code_v2(kernel.ast).device_code()
    (where / "k.c").write_text(code)
    command = ["cc", "-O1", "-shared", "-fPIC", "-o", "k.so", "k.c", "-lm"]
    subprocess.run(command, cwd=where, check=True)
    out, *_ = arguments = [argument.loopy_arg for argument in kernel.arguments]
    values = [np.zeros(out.shape), np.array(REFERENCE[cell], float).ravel(), *coefficients]
    assert len(values) == len(arguments)
    entry = ctypes.CDLL(str(where / "k.so"))[kernel.name]
    entry(*(ctypes.c_void_p(value.ctypes.data) for value in values))
    return values[0]


@CELLS
@DEGREES
@pytest.mark.parametrize("family", ["Lagrange", "DG"])
def test_masses_add_up_to_the_volume(cell, family, degree, tmp_path):
    V = space(cell, family, degree)
    form = inner(TrialFunction(V), TestFunction(V)) * dx
    mass = element_tensor(form, cell, tmp_path)
    np.testing.assert_allclose(mass.sum(), VOLUME[cell])
    np.testing.assert_allclose(mass, mass.T, atol=1e-14)


@CELLS
@DEGREES
def test_constants_have_no_energy(cell, degree, tmp_path):
    V = space(cell, "Lagrange", degree)
    form = dot(grad(TrialFunction(V)), grad(TestFunction(V))) * dx
    stiffness = element_tensor(form, cell, tmp_path)
    np.testing.assert_allclose(stiffness.sum(axis=1), 0, atol=1e-11)
    assert np.linalg.eigvalsh(stiffness)[1] > 1e-6


@CELLS
@DEGREES
def test_loads_with_a_coefficient(cell, degree, tmp_path):
    V = space(cell, "Lagrange", degree)
    dim = len(REFERENCE[cell]) - 1
    form = exp(ufl.Coefficient(V)) * TestFunction(V) * dx
    load = element_tensor(form, cell, tmp_path, np.zeros(comb(dim + degree, dim)))
    np.testing.assert_allclose(load.sum(), VOLUME[cell])


@pytest.mark.parametrize("cell", ["triangle", "tetrahedron"])
@pytest.mark.parametrize("degree", [1, 2])
def test_rotations_have_no_elastic_energy(cell, degree, tmp_path):
    V = space(cell, "Lagrange", degree, vector=True)
    u, v = TrialFunction(V), TestFunction(V)
    form = (2 * inner(sym(grad(u)), sym(grad(v))) + div(u) * div(v)) * dx
    elastic = element_tensor(form, cell, tmp_path)
    elastic = elastic.reshape(2 * (int(np.sqrt(elastic.size)),))
    dim = len(REFERENCE[cell]) - 1
    rigid = dim * (dim + 1) // 2
    energies = np.linalg.eigvalsh(elastic)
    assert np.abs(energies[:rigid]).max() < 1e-10 < energies[rigid]


@pytest.mark.parametrize("family", ["RT", "BDM", "N1curl"])
@DEGREES
def test_vector_elements(family, degree, tmp_path):
    V = space("triangle", family, degree)
    mass = element_tensor(inner(TrialFunction(V), TestFunction(V)) * dx, "triangle", tmp_path)
    np.testing.assert_allclose(mass, mass.T, atol=1e-13)
    assert np.linalg.eigvalsh(mass)[0] > 0
