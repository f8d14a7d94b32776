"""When a search ends."""

from __future__ import annotations

import pytest

from kgen.errors import KgenError
from kgen.tuning import Stop
from kgen.tuning.stop import Progress


@pytest.mark.parametrize(
    ("stop", "reason"),
    [
        (Stop(evaluations=5), "5 evaluations"),
        (Stop(evaluations=6), None),
        (Stop(seconds=2.5), "2.5 seconds"),
        (Stop(evaluations=9, stagnation=3), "no better configuration in 3 evaluations"),
        (Stop(stagnation=4), None),
        (Stop(gap=0.25, roofline_s=0.8), "within 25% of the roofline"),
        (Stop(gap=0.24, roofline_s=0.8), None),
        (Stop(gap=0.3), None),
        (Stop(), None),
    ],
)
def test_first_limit_that_is_reached(stop: Stop, reason: str | None) -> None:
    progress = Progress(elapsed_s=2.5)
    for seconds in (4.0, 1.0, 1.0, None, 1.5):
        progress.add(seconds)
    assert stop.reason(progress) == reason


def test_limits_are_positive() -> None:
    with pytest.raises(KgenError, match="stop at stagnation=0"):
        Stop(stagnation=0)


@pytest.mark.parametrize("name", ["evaluations", "stagnation"])
def test_counts_are_integers(name: str) -> None:
    with pytest.raises(KgenError, match=f"{name}=2.5.*\n.*pass an integer"):
        Stop(**{name: 2.5})  # type: ignore[arg-type]
