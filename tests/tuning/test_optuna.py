"""Samplers of Optuna as a strategy."""

from __future__ import annotations

from typing import Any

import pytest

from kgen.tuning import SearchSpace, make_strategy

optuna = pytest.importorskip("optuna")
Optuna = pytest.importorskip("kgen.tuning.strategies.with_optuna").Optuna

SPACE = SearchSpace({"x": range(8), "y": [1, 2, 4], "how": ["a", "b"]}, ["x * y <= 20"])


def seconds_of(row: int) -> float | None:
    config = SPACE[row]
    return None if config["x"] == 5 else 1.0 + abs(config["x"] - 3) + config["y"]


def rows_of(strategy: Any, count: int) -> list[int]:
    rows = []
    for row in iter(strategy.ask, None):
        rows.append(row)
        strategy.tell(row, seconds_of(row))
        if len(rows) == count:
            break
    return rows


def test_each_row_is_asked_for_once() -> None:
    assert sorted(rows_of(Optuna(SPACE), 10**6)) == list(range(len(SPACE)))


def test_a_seed_makes_it_repeatable() -> None:
    assert rows_of(Optuna(SPACE, seed=4), 20) == rows_of(Optuna(SPACE, seed=4), 20)


def test_it_has_a_name() -> None:
    assert type(make_strategy("optuna", SPACE, seed=4)) is Optuna


def test_a_sampler_is_told_all_times() -> None:
    strategy = make_strategy(Optuna, SPACE, 1, sampler=optuna.samplers.RandomSampler(seed=1))
    assert isinstance(strategy, Optuna)
    strategy.tell(0, 2.0)
    rows_of(strategy, 10)
    complete = [t for t in strategy.study.trials if t.state == optuna.trial.TrialState.COMPLETE]
    assert len(complete) >= sum(seconds is not None for seconds in strategy.told.values())
