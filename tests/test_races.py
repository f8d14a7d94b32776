"""ThreadSanitizer finds a race that is planted, and none in random programs on threads."""

from __future__ import annotations

import pytest

from tools.races.sanitizer import missing, watch


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
