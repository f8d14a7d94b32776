"""Cells of notebooks as kernels: with IPython, and the parts that need none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kgen as lp
from kgen.notebook.cells import divide, kernel_of_cell

CELL = """
# two loops
{ [i]: 0 <= i < n }
{ [j]: 0 <= j < m }

out[i, j] = 2*a[i] + j
"""


def test_domains_and_instructions() -> None:
    domains, instructions = divide(CELL)
    assert domains == ["{ [i]: 0 <= i < n }", "{ [j]: 0 <= j < m }"]
    assert instructions == "out[i, j] = 2*a[i] + j"


def test_calls_for_parts_of_arrays_are_no_domains() -> None:
    cell = "[n] -> { [i]: 0 <= i < n }\n[i]: y[i] = f([i]: x[i])  {id=call}"
    assert divide(cell) == (["[n] -> { [i]: 0 <= i < n }"], cell.split("\n")[1])


def test_target_types_and_options() -> None:
    knl = kernel_of_cell(
        CELL, "table", target="opencl", types=["a=float32"], assumptions=["n >= 1"],
        options=["return_dict=true"], is_sequential=True,
    )  # fmt: skip
    kernel = knl["table"]
    assert isinstance(kernel.target, lp.OpenCLTarget)
    assert kernel.options.return_dict
    assert kernel.arg_dict["a"].dtype.numpy_dtype == np.float32
    assert "n >= 1" in str(kernel.assumptions) or "n > 0" in str(kernel.assumptions)


@pytest.mark.parametrize(
    ("cell", "given", "message"),
    [
        ("{ [i]: 0 <= i < n\na[i] = 1", {}, "is never closed"),
        ("f(x) := x\n{ [i]: 0 <= i < n }\na[i] = f(i)", {}, "a cell begins with its domains"),
        (CELL, {"target": "opencel"}, "did you mean 'opencl'"),
        (CELL, {"types": ["a"]}, "'a' has no '='"),
    ],
)
def test_cells_that_are_no_kernels(cell: str, given: dict[str, Any], message: str) -> None:
    with pytest.raises(lp.KgenError, match=message):
        kernel_of_cell(cell, "k", **given)


def test_magic_in_ipython() -> None:
    shells = pytest.importorskip("IPython.core.interactiveshell")
    shell = shells.InteractiveShell.instance()
    shell.run_line_magic("load_ext", "kgen")
    assert hasattr(lp, "load_ipython_extension")
    ran = shell.run_cell("%%kgen table --type a=float32 --assume 'n >= 1'\n" + CELL)
    assert ran.success
    assert "out[i, j]" in ran.result._repr_html_()
    _, (out,) = shell.user_ns["table"](a=np.ones(3, np.float32), m=2)
    np.testing.assert_array_equal(out, [[2, 3]] * 3)
    assert shell.run_cell("%%kgen quiet --quiet\n" + CELL).result is None
    assert isinstance(shell.user_ns["quiet"], lp.TranslationUnit)
    failed = shell.run_cell("%%kgen table --tpye a=float32\n" + CELL)
    assert "%%kgen? lists the options" in str(failed.error_in_exec)
