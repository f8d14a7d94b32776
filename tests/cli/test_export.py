"""The commands ``export`` and ``check``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.typed import typed

KERNELS = """
import kgen as lp

def make(name, factor):
    args = [lp.GlobalArg("a, out", "float32", shape="n"), ...]
    return lp.make_kernel("{ [i]: 0 <= i < n }", f"out[i] = {factor}*a[i]", args, name=name)

twice = make("twice", 2)

def triple():
    return make("triple", 3)

by_size = [lp.Variant(triple(), when="n > 9"), twice]
several = {"one": twice, "other": by_size}
mistaken = [twice, 5]
"""
OPTIONS = ("--target", "c", "--namespace", "demo")


@pytest.fixture
def library(programs: Path) -> Path:
    """Write a library of two kernels, which are in another folder than it is."""
    (programs / "kernels").mkdir()
    (programs / "kernels" / "k.py").write_text(KERNELS)
    names = ("kernels/k.py:twice", "kernels/k.py:triple")
    typed("export", *names, "-o", "build/lib", *OPTIONS)
    return programs / "build" / "lib"


def test_a_library_is_what_its_sources_generate(library: Path) -> None:
    assert (library / "src" / "demo_triple.c").is_file()
    assert "is what its sources generate now" in typed("check", "build/lib").stdout


def test_sources_are_found_from_another_folder(
    library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert json.loads((library / "demo.json").read_text())["sources"] == [
        "../../kernels/k.py:twice",
        "../../kernels/k.py:triple",
    ]
    monkeypatch.chdir(library)
    typed("check", ".")


def test_files_that_differ_are_listed(library: Path) -> None:
    source = library.parent.parent / "kernels" / "k.py"
    source.write_text(KERNELS.replace("3)", "5)"))
    (library / "include" / "demo.h").unlink()
    listed = typed("check", "build/lib", status=1).stderr.splitlines()[1:]
    assert listed == [
        "  demo.json differs",
        "  include/demo.h is missing",
        "  src/demo_triple.c differs",
    ]


def test_a_changed_comment_makes_no_difference(library: Path) -> None:
    source = library.parent.parent / "kernels" / "k.py"
    source.write_text(f"# by me\n{KERNELS}")
    typed("check", "build/lib")


def test_files_by_hand_are_replaced_on_demand(library: Path) -> None:
    (library / "include" / "demo.h").write_text("by hand")
    words = ("export", "kernels/k.py:twice", "-o", "build/lib", *OPTIONS)
    assert "'include/demo.h'" in typed(*words, status=1).stderr
    typed(*words, "--overwrite")
    assert not (library / "src" / "demo_triple.c").exists()


def test_a_folder_without_a_library_is_an_error(programs: Path) -> None:
    assert "no exported library" in typed("check", ".", status=1).stderr


def test_types_are_needed() -> None:
    text = typed("export", "heat.py:step", "-o", "lib", "--target", "c", status=1).stderr
    assert "it cannot be exported for the target 'c'" in text
    assert "the type of 'u' is not known" in text
    assert not Path("lib").exists()


def test_modules_for_fortran_are_compared(programs: Path) -> None:
    (programs / "k.py").write_text(KERNELS)
    typed("export", "k.py:twice", "-o", "lib", *OPTIONS, "--fortran")
    typed("check", "lib")
    (programs / "lib" / "include" / "demo.f90").unlink()
    assert "demo.f90 is missing" in typed("check", "lib", status=1).stderr


def test_lists_are_variants_and_dicts_name_functions(library: Path) -> None:
    words = ("export", "kernels/k.py:by_size", "kernels/k.py:several", "-o", "build/sizes")
    typed(*words, *OPTIONS)
    made = {path.name for path in Path("build/sizes/src").glob("demo_*.c")}
    assert {"demo_by_size.c", "demo_one.c", "demo_other.c", "demo_other_variant0.c"} < made
    typed("check", "build/sizes")


def test_what_is_no_variant_is_rejected(library: Path) -> None:
    words = ("export", "kernels/k.py:mistaken", "-o", "build/none", *OPTIONS)
    assert "5 cannot be exported: it is not a program" in typed(*words, status=1).stderr


def test_functions_have_names_of_their_own(library: Path) -> None:
    words = ("export", "kernels/k.py:twice", "kernels/k.py:twice", "-o", "x", *OPTIONS)
    assert "would become the function 'twice'" in typed(*words, status=1).stderr
