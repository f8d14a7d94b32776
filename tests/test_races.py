"""ThreadSanitizer finds a race that is planted, and none in random programs on threads."""

from __future__ import annotations

import pytest

from tools.races import sanitizer
from tools.races.sanitizer import Watched, missing, watch


@pytest.fixture(autouse=True)
def _sanitizer() -> None:
    if missing():
        pytest.skip(f"there is no {missing()}")


def test_a_planted_race_is_found() -> None:
    found = watch(["tests.racing"])
    assert (found.status, found.output) == (66, "")
    assert any("data race" in race and "kgen_kernel_group" in race for race in found.races)


def test_random_programs_do_not_race() -> None:
    found = watch(["tools.races.programs", "--count", "4"])
    assert found.races == ()
    assert found.status == 0
    assert "4 right" in found.output


@pytest.mark.parametrize(("failures", "runs"), [(0, 1), (1, 2), (9, 3)])
def test_a_run_without_memory_is_repeated(
    failures: int, runs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = Watched(66, "", ("==8648==ERROR: ThreadSanitizer failed to allocate 0x1000 bytes",))
    done: list[Watched] = []

    def run(arguments: list[str]) -> Watched:
        done.append(failed if len(done) < failures else Watched(0, "4 right", ()))
        return done[-1]

    monkeypatch.setattr(sanitizer, "_watched", run)
    assert watch(["tests.racing"]) == done[-1]
    assert len(done) == runs
