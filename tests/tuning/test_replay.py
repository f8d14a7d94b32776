"""Replays of recorded spaces."""

from __future__ import annotations

from pathlib import Path

import pytest

from kgen.errors import KgenError
from kgen.tuning import (
    STRATEGIES,
    Evaluation,
    Recording,
    SearchSpace,
    Stop,
    make_strategy,
    replay,
    write_recording,
)

SPACE = SearchSpace({"x": [1, 2, 4, 8, 16], "y": list(range(8)), "z": [0, 1]}, "x > y or y > 3")
RECORDING = Recording(
    evaluations=[
        Evaluation(
            configuration=config,
            value=None
            if config["x"] * config["y"] > 100
            else 1.0 + abs(config["y"] - 3) + config["z"],
        )
        for config in SPACE
    ]
)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_seed_gives_the_same_result(strategy: str) -> None:
    one, two = (replay(RECORDING, strategy, evaluations=30, seed=3) for _ in range(2))
    assert one == two
    assert one.evaluations == len(one.trace) == len(set(one.rows)) == 30


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_it_ends_with_the_space(strategy: str) -> None:
    found = replay(RECORDING, strategy, evaluations=10**6)
    assert sorted(found.rows) == list(range(len(SPACE)))
    assert (found.fraction, found.best_value, found.stopped_by) == (
        1.0,
        1.0,
        "no configuration is left",
    )


def test_failures_count_as_evaluations() -> None:
    costs = RECORDING.costs
    found = replay(RECORDING, "exhaustive", evaluations=len(SPACE))
    failed = [place for place, row in enumerate(found.rows) if costs[row] is None]
    assert failed
    assert all(found.trace[place] == found.trace[place - 1] for place in failed)
    assert sorted(found.trace) == list(found.trace)


def test_files_are_replayed(tmp_path: Path) -> None:
    write_recording(RECORDING, tmp_path / "r.json.gz")
    write_recording(RECORDING, tmp_path / "t4.json", "t4")
    found = [replay(tmp_path / name, "random", 20, 1) for name in ("r.json.gz", "t4.json")]
    assert [one.trace for one in found] == [replay(RECORDING, "random", 20, 1).trace] * 2


def test_further_limits() -> None:
    found = replay(RECORDING, "random", evaluations=None, stop=Stop(stagnation=9))
    assert found.stopped_by == "no better configuration in 9 evaluations"
    assert len(set(found.trace[-10:])) == 1


def test_the_text_of_a_replay() -> None:
    found = replay(RECORDING, "exhaustive", 1)
    assert str(found) == "exhaustive: best time 4 after 1 evaluations, 0.2500 of the optimum (1)"
    assert found.best == {"x": 1, "y": 0, "z": 0}


def test_bad_replays() -> None:
    failed = Recording(evaluations=[Evaluation(configuration={"x": 1}, value=None)])
    with pytest.raises(KgenError, match="all 1 recorded configurations failed"):
        replay(failed, "random")
    with pytest.raises(KgenError, match="evaluations=0"):
        replay(RECORDING, "random", 0)
    with pytest.raises(KgenError, match="creates its strategy itself"):
        replay(RECORDING, make_strategy("random", SPACE))  # type: ignore[arg-type]
