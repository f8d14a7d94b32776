"""The command ``show``."""

from __future__ import annotations

from pathlib import Path

import pytest

import kgen as lp
from kgen.cli.programs import load_program
from tests.cli.typed import typed

TYPES = ("--type", "u=float32")


def test_a_kernel_is_what_it_prints() -> None:
    step = load_program("heat.py:step")
    assert isinstance(step, lp.TranslationUnit)
    assert typed("show", "heat.py:step").stdout.strip() == str(step).strip()


def test_code_is_that_of_the_target() -> None:
    tiled = load_program("heat.py:tiled")
    assert isinstance(tiled, lp.TranslationUnit)
    for name, target in (("c", lp.ExecutableCTarget()), ("cuda", lp.CudaTarget())):
        shown = typed("show", "heat.py:tiled", "code", "--target", name, *TYPES).stdout
        expected = lp.add_dtypes(tiled.copy(target=target), {"u": "float32"})
        assert shown.strip() == str(lp.generate_code_v2(expected)).strip()


def test_parts_have_titles() -> None:
    shown = typed("show", "heat.py:tiled", "graph", "schedule", "--target=opencl", *TYPES).stdout
    assert shown.startswith("== graph\nd    [i_outer, i_inner]\nput  [i_outer, i_inner]  <- d\n")
    assert "\n== schedule\nlaunch heat\n  bind i_outer = gid(0)\n" in shown


def test_header_and_dot() -> None:
    assert "void heat(" in typed("show", "heat.py:step", "header", *TYPES).stdout
    assert "  d -> put;" in typed("show", "heat.py:step", "dot").stdout


@pytest.mark.parametrize(("device_type", "iname"), [("gpu", "i_gang"), ("host", "i_outer")])
def test_device_type_chooses_a_schedule(device_type: str, iname: str) -> None:
    shown = typed("show", "heat.py:table", "graph", "--device-type", device_type).stdout
    assert iname in shown


def test_a_table_has_the_schedule_of_the_device_that_is_there() -> None:
    assert "i_outer" in typed("show", "heat.py:table", "graph").stdout


def test_device_type_needs_a_table() -> None:
    error = typed("show", "heat.py:step", "--device-type", "gpu", status=2).stderr
    assert "chooses from a table of schedules" in error
    assert "'host'" in typed("show", "heat.py:table", "--device-type=g", status=1).stderr


def test_a_missing_type_is_an_error_of_the_library() -> None:
    error = typed("show", "heat.py:step", "code", status=1).stderr
    assert error.startswith("in kernel 'heat': the type of 'u' is not known")


def test_entry_must_be_a_kernel() -> None:
    assert (
        "there is no kernel 'stp'" in typed("show", "heat.py:step", "--entry=stp", status=1).stderr
    )


def test_code_has_colours_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("show", "heat.py:step", "code", *TYPES)
    assert "\033[" not in typed(*words).stdout
    monkeypatch.setenv("FORCE_COLOR", "1")  # what rich takes for a terminal
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\033[" in typed(*words).stdout


def test_warnings_are_texts_on_stderr() -> None:
    shown = typed("show", "heat.py:races", "code")
    assert shown.stderr.startswith("warning: in kernel 'kgen_kernel': instruction 'insn' writes")
    assert "warning" not in shown.stdout


def test_the_option_for_types_is_named_only_where_a_type_is_missing(tmp_path: Path) -> None:
    (tmp_path / "k.py").write_text(
        "import kgen as lp\nknl = lp.make_kernel('{ [i]: 0 <= i < 4 }', 'out[i] = blur(1.0)')\n"
    )
    assert "--type" not in typed("show", f"{tmp_path / 'k.py'}:knl", "code", status=1).stderr
    assert "--type NAME" in typed("show", "heat.py:step", "code", status=1).stderr
