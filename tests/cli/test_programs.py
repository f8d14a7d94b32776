"""Kernels by name: what a name can stand for, and what is said of one that stands for none."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

import kgen as lp
from kgen.cli.programs import load_program
from tests.cli.typed import PROGRAMS, typed


def test_a_program_a_function_and_a_table() -> None:
    step, tiled, table = (load_program(f"heat.py:{name}") for name in ("step", "tiled", "table"))
    assert isinstance(step, lp.TranslationUnit)
    assert isinstance(tiled, lp.TranslationUnit)
    assert sorted(tiled["heat"].inames) == ["i_inner", "i_outer"]
    assert isinstance(table, lp.DeviceSchedules)


def test_a_module_may_import_its_neighbours(programs: Path) -> None:
    (programs / "uses_heat.py").write_text("from heat import tiled as mine\n")
    for name in ("uses_heat:mine", "uses_heat.py:mine", "./uses_heat.py:mine"):
        assert isinstance(load_program(name), lp.TranslationUnit)


def test_a_file_is_read_as_it_is_now(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    file = programs / "counts.py"
    text = 'import kgen as lp\nknl = lp.make_kernel("{ [i]: 0<=i<4 }", "out[i] = 3*i")\n'
    found = []
    for factor in "357":
        file.write_text(text.replace("3*", f"{factor}*"))
        os.utime(file, (10**9, 10**9))  # the same length and time
        unit = load_program("counts.py:knl")
        assert isinstance(unit, lp.TranslationUnit)
        found.append(str(unit.default_entrypoint.instructions[0]))
    assert [text[9:12] for text in found] == ["3*i", "5*i", "7*i"]


def test_a_wrong_name_lists_what_is_there_near_names_first() -> None:
    error = typed("show", "heat.py:tield", status=1).stderr
    what, hint = error.splitlines()
    assert what == "there is no 'tield' in heat.py"
    assert hint.startswith("  hint: there is 'tiled' (a function), 'step', ")
    assert "'table'" in hint
    assert "'divides'" not in hint  # it needs an argument


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("heat.py:SIZE", "it is of type int"),
        ("heat.py:divides", "it is of type function"),
        ("heat.py:other", "'other' in heat.py returns a value of type dict, not a program"),
        ("cold.py:step", "there is no file 'cold.py'"),
        ("cold:step", "there is no module 'cold'"),
    ],
)
def test_what_is_no_program_is_rejected(name: str, text: str) -> None:
    assert text in typed("show", name, status=1).stderr


@pytest.mark.parametrize("name", ["heat.py", "heat.py:", ":step"])
def test_a_name_without_two_parts_is_wrong_usage(name: str) -> None:
    assert "FILE.py:NAME or module:NAME" in typed("show", name, status=2).stderr


def test_an_error_of_the_file_names_its_line() -> None:
    error = typed("show", "heat.py:broken", status=1).stderr
    assert error.startswith("heat.py:broken fails: in kernel 'heat': there is no iname 'j'")
    line = PROGRAMS[: PROGRAMS.index('"j"')].count("\n") + 1
    assert f"where: heat.py, line {line}" in error


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("x = 1 / 0", "ZeroDivisionError: division by zero"),
        ("x = (", "SyntaxError: '(' was never closed"),
        ("import nothing_of_that_name", "ModuleNotFoundError"),
        ("raise SystemExit(3)", "SystemExit: 3"),
    ],
)
def test_a_file_that_fails_is_no_traceback(programs: Path, line: str, text: str) -> None:
    (programs / "fails.py").write_text(f"import kgen\n{line}\n")
    error = typed("show", "fails.py:step", status=1).stderr
    assert error.startswith(f"fails.py fails: {text}")
    assert "fails.py, line 2" in error


def test_traceback_shows_where_an_error_comes_from() -> None:
    with pytest.raises(lp.TransformError, match="there is no iname 'j'"):
        typed("--traceback", "show", "heat.py:broken")
