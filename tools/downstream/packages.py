"""The packages that use loopy, and their tests."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["NOT_RUN", "PACKAGES", "REQUIREMENTS", "Package"]

#: what the packages need in addition to loopy
REQUIREMENTS = (
    *("cachetools", "decorator", "gmsh_interop", "immutabledict", "mako", "modepy", "mpi4py"),
    *("mpich", "numpy", "pycparser", "pyopencl", "pyrsistent", "pytest", "pytest-timeout"),
    *("recursivenodes", "requests", "scipy", "sympy"),
)


@dataclass(frozen=True)
class Package:
    """A distribution on PyPI, and the tests of it that are run.

    :arg name: how the table calls it
    :arg distribution: its name on PyPI
    :arg modules: the packages in it that are installed
    :arg tests: files below its folder ``test``, or below ``suites`` here
    :arg choice: which of these tests, for pytest's ``-k``
    :arg beside: distributions that are installed with it, without what these require
    :arg changes: texts of its release that today's loopy, numpy and isl refuse, with what stands
        for them: the same for kgen and for loopy
    :arg is_ours: the distribution carries no tests; those below ``suites`` are run
    """

    name: str
    distribution: str
    modules: tuple[str, ...]
    tests: tuple[str, ...]
    choice: str = ""
    beside: tuple[str, ...] = ()
    changes: tuple[tuple[str, str], ...] = ()
    is_ours: bool = False


PACKAGES = (
    Package(
        "pytato",
        "pytato",
        ("pytato",),
        ("test_codegen.py", "test_pytato.py"),
        "not binary_arith and not unary_arith and not math_functions and not broadcasting "
        "and not reductions and not maximum_minimum and not roll",
        changes=(
            ('order="C",\n                is_output_only=False)', 'order="C", is_output=False)'),
            ("is_output_only=True", "is_input=False, is_output=True"),
            ('order="C", is_output=False)', 'order="C", is_input=True, is_output=False)'),
            (
                "aff_from_expr(dom.space, left)",
                "isl.PwAff.from_aff(aff_from_expr(dom.space, left))",
            ),
            (
                "aff_from_expr(dom.space, right)",
                "isl.PwAff.from_aff(aff_from_expr(dom.space, right))",
            ),
            ("aff_from_expr(dom.space, dim)", "isl.PwAff.from_aff(aff_from_expr(dom.space, dim))"),
            ("np.bool8", "np.bool_"),
            (
                (
                    "np.find_common_type(array_types=[arg.dtype for arg in self.args],\n"
                    "                                    scalar_types=[])"
                ),
                "np.result_type(*[arg.dtype for arg in self.args])",
            ),
            ("np.find_common_type([x_dtype, y_dtype], [])", "np.result_type(x_dtype, y_dtype)"),
        ),
    ),
    Package("arraycontext", "arraycontext", ("arraycontext",), ("test_arraycontext.py",)),
    Package(
        "meshmode",
        "meshmode",
        ("meshmode",),
        ("test_array.py", "test_chained.py"),
        changes=(
            (
                (
                    "np.find_common_type(\n"
                    "            [mesh.vertices.dtype for mesh in meshes],\n"
                    "            [])"
                ),
                "np.result_type(*[mesh.vertices.dtype for mesh in meshes])",
            ),
        ),
    ),
    Package(
        "PyOP2",
        "firedrake",
        ("pyop2",),
        ("test_pyop2.py",),
        is_ours=True,
    ),
    Package(
        "TSFC",
        "firedrake",
        ("pyop2", "tsfc"),
        ("test_tsfc.py",),
        beside=("fenics-ufl", "firedrake-fiat"),
        is_ours=True,
    ),
)

#: packages that cannot be run, and why
NOT_RUN = (
    ("sumpy", "its tests import from arraycontext what the newest on PyPI, of 2021, lacks"),
    ("pystella", "its release of 2020 passes queues as loopy 2025.2 does not take them"),
    ("grudge", "its release of 2021 derives from mappers of pymbolic that were changed since"),
)
