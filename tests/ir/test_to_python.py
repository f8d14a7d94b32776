"""Programs written as Python, and made again by it."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kgen as lp
from tests.programs.test_dense import a_matrix_per_item, product
from tests.programs.test_elements import assembly, volume_in_tiles
from tests.programs.test_grids import lattice_boltzmann
from tests.programs.test_particles import n_body_in_tiles, translation
from tests.programs.test_sparse import conjugate_gradients


def again(unit: lp.TranslationUnit, folder: Path) -> Any:
    path = folder / "program.py"
    text = lp.t_unit_to_python(unit, var_name="made")
    assert isinstance(text, str)
    path.write_text(text)
    return runpy.run_path(str(path))["made"]


def snippet() -> lp.TranslationUnit:
    code = "b[i] = a[i];\nif (b[i] > 'x')\n    b[i] = 5;"
    insn = lp.CInstruction(["i"], code, "a", "b[i]", predicates=["i > 2"])
    knl = lp.make_kernel("{ [i]: 0<=i<n }", [insn], assumptions="n >= 4")
    return lp.assume(knl, "n mod 2 = 0")


PROGRAMS = [
    product,
    lambda: a_matrix_per_item(unrolled=True),
    assembly,
    volume_in_tiles,
    lambda: lattice_boltzmann("soa"),
    n_body_in_tiles,
    translation,
    conjugate_gradients,
    snippet,
]


@pytest.mark.parametrize("make", PROGRAMS)
def test_the_same_program_is_made_again(make: Any, tmp_path: Path) -> None:
    unit = make()
    made = again(unit, tmp_path)
    assert made == unit
    assert made.digest() == unit.digest()
    assert str(made) == str(unit)


@pytest.mark.parametrize("target", [lp.CTarget(), lp.CudaTarget(), lp.PyOpenCLTarget()])
def test_targets_are_kept(target: Any, tmp_path: Path) -> None:
    unit = lp.make_kernel("{ [i]: 0<=i<n }", "a[i] = 1.0 + i", target=target)
    assert type(again(unit, tmp_path).target) is type(target)


def test_numbers_keep_their_types(tmp_path: Path) -> None:
    i = lp.symbolic.parse("i")
    expr = np.float32(0.1) * i + np.int64(3) + 2.0 + 1j + float("inf")
    unit = lp.make_kernel("{ [i]: 0<=i<4 }", [lp.Assignment("a[i]", expr)])
    found, wanted = (
        each.default_entrypoint.instructions[0].read_exprs()
        for each in (again(unit, tmp_path), unit)
    )
    assert repr(found) == repr(wanted)


def test_imports_come_apart() -> None:
    unit = lp.make_kernel("{ [i]: 0<=i<n }", "a[i] = 1")
    texts = lp.t_unit_to_python(unit, return_preamble_and_body_separately=True)
    assert isinstance(texts, tuple)
    preamble, body = texts
    assert all(line.startswith(("import ", "from ")) for line in preamble.splitlines())
    assert body.startswith("t_unit = TranslationUnit(")


def test_what_has_no_name_is_refused() -> None:
    unit = lp.make_kernel("{ [i]: 0<=i<n }", "a[i] = 1")
    unit = lp.register_preamble_generators(unit, [lambda info: iter(())])
    with pytest.raises(lp.KgenError, match="cannot be imported by name"):
        lp.t_unit_to_python(unit)
