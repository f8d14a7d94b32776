"""No raw exception reaches a user: mutants of kernels, transformations and calls are refused well.

``KGEN_MALFORMED=20000`` tries as many programs, ``KGEN_MALFORMED_SEED`` begins elsewhere.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import kgen as lp
from kgen.ir.checked import check_arguments
from tests.malformed.arguments import run_argument
from tests.malformed.calls import run_call
from tests.malformed.corpus import calls, sources
from tests.malformed.fields import run_field
from tests.malformed.programs import Outcome, run_program

N_PROGRAMS = int(os.environ.get("KGEN_MALFORMED", "2000"))
FIRST = int(os.environ.get("KGEN_MALFORMED_SEED", "0"))
PIECES = 8


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some calls write files: to a folder called 'a', for instance."""
    monkeypatch.chdir(tmp_path)


def test_the_corpus_is_what_the_suite_writes() -> None:
    assert len(sources()) > 200
    assert len({call.name for call in calls()}) > 80


@pytest.mark.parametrize("piece", range(PIECES))
@pytest.mark.filterwarnings("ignore")
def test_programs_end_in_results_or_in_errors_that_name_a_place(piece: int) -> None:
    seeds = range(FIRST + piece, FIRST + N_PROGRAMS, PIECES)
    outcomes = [run_program(seed) for seed in seeds]
    faults = [str(outcome) for outcome in outcomes if outcome.fault is not None]
    assert not faults, "\n\n".join(faults[:3])
    kinds = Counter(outcome.error is None for outcome in outcomes)
    assert min(kinds[True], kinds[False]) > len(outcomes) // 5, kinds


@pytest.mark.filterwarnings("ignore")
def test_calls_end_in_results_or_in_errors_that_name_an_argument() -> None:
    outcomes = [run_call(seed) for seed in range(FIRST, FIRST + N_PROGRAMS // 4)]
    faults = [str(outcome) for outcome in outcomes if outcome.fault is not None]
    assert not faults, "\n\n".join(faults[:3])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("run", [run_field, run_argument])
def test_odd_fields_and_arguments_end_in_results_or_in_errors_that_name_them(
    run: Callable[[int], Outcome],
) -> None:
    outcomes = [run(seed) for seed in range(FIRST, FIRST + N_PROGRAMS)]
    faults = [str(outcome) for outcome in outcomes if outcome.fault is not None]
    assert not faults, "\n\n".join(faults[:3])


def test_an_error_without_a_place_and_a_raw_one_are_faults() -> None:
    assert Outcome(0, error=KeyError("i")).fault == "raw KeyError"
    assert Outcome(0, error=lp.KgenError("it does not work")).fault == "names no place"
    assert Outcome(0, error=lp.KgenError("in kernel 'k': no")).fault is None


def test_arguments_are_checked_against_annotations() -> None:
    def call(names: list[str], count: int = 1, flag: bool = False) -> None:
        del names, count, flag

    right: tuple[tuple[object, ...], ...] = (
        (["a"],),
        ([], np.int64(3)),
        (["a"], 2, np.bool_(1)),
        (),
    )
    for args in right:
        check_arguments(call, args, {})
    for wrong in (("a",), ([1],), (["a"], 2.0), (["a"], True), (["a"], 1, "no")):
        with pytest.raises(lp.KgenError, match=r"call: the argument '(names|count|flag)' is"):
            check_arguments(call, wrong, {})
