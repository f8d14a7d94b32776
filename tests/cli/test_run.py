"""The command ``run``."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.cli.typed import typed

U = np.arange(10, dtype=np.float32) ** 2
OUT = np.array([0, *(U[1:-1] + 0.5), 0], np.float32)


@pytest.fixture(autouse=True)
def arrays(programs: Any) -> None:
    np.savez("in.npz", u=U)


def test_results_are_printed_and_written() -> None:
    shown = typed("run", "heat.py:step", "in.npz", "--output", "out.npz").stdout
    assert shown.split("\n")[1].split()[:4] == ["out", "float32", "(10,)", "["]
    with np.load("out.npz") as found:
        assert list(found) == ["out"]
        assert (found["out"] == OUT).all()


def test_on_opencl(opencl_queue: Any) -> None:
    device = opencl_queue.device.platform.name
    words = ("--target=opencl", "--device", device, "-o", "out.npz")
    typed("run", "heat.py:tiled", "in.npz", *words)
    with np.load("out.npz") as found:
        assert (found["out"] == OUT).all()


def test_numbers_are_set_or_in_the_file() -> None:
    np.savez("in.npz", u=U, s=np.float32(2))
    typed("run", "heat.py:scaled", "in.npz", "-o", "kept.npz")
    typed("run", "heat.py:scaled", "in.npz", "--set", "s=3j", "-o", "given.npz")
    with np.load("kept.npz") as kept, np.load("given.npz") as given:
        assert (kept["v"] == 2 * U).all()
        assert (given["v"] == 3j * U).all()


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ((), "array argument 'u' is missing"),
        (("in.npz", "--set", "m=3"), "there is no argument 'm'"),
        (("in.npz", "--device", "abacus"), "there is no device of the host 'abacus' here"),
        (("in.npz", "-o", "no/such/folder.npz"), "no/such/folder.npz: No such file or directory"),
        (("heat.py",), "'heat.py' is not a file of arrays"),
    ],
)
def test_failures_are_texts(words: tuple[str, ...], text: str) -> None:
    error = typed("run", "heat.py:step", *words, status=1).stderr
    assert text in error
    assert "Traceback" not in error


@pytest.mark.parametrize(
    ("word", "text"),
    [
        ("n", "'n' is not of the form NAME=VALUE"),
        ("n=ten", "'ten' of 'n=ten' is not a number"),
        ("n='10'", "is not a number"),
    ],
)
def test_wrong_numbers_are_wrong_usage(word: str, text: str) -> None:
    assert text in typed("run", "heat.py:step", "in.npz", "--set", word, status=2).stderr


def test_a_number_is_set_once() -> None:
    words = ("--set", "n=5", "--set", "n=6")
    assert "'n' is given twice" in typed("run", "heat.py:step", "in.npz", *words, status=2).stderr


def test_one_of_several_entry_points_is_chosen() -> None:
    for command in ("run", "explain"):
        error = typed(command, "heat.py:pair", status=2).stderr
        assert "choose one of several entry points by --entry: heat, kgen_kernel" in error
    typed("run", "heat.py:pair", "in.npz", "--entry", "heat", "-o", "out.npz")
    with np.load("out.npz") as found:
        assert (found["out"] == OUT).all()
