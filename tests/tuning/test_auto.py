"""The default strategy."""

from __future__ import annotations

import numpy as np

from kgen.tuning import Evaluation, Recording, SearchSpace, make_strategy, replay
from kgen.tuning.strategies.auto import Auto


def test_it_is_ahead_of_the_others() -> None:
    space = SearchSpace({"x": range(20), "y": range(10), "z": range(5), "how": ["a", "b", "c"]})
    x, y, z, how = space.indices.T
    times = 2 + (x - 7) ** 2 / 20 + np.abs(y - z) / 2 + (how == 1) + z / 9
    recording = Recording(
        evaluations=[
            Evaluation(configuration=config, value=None if failed else float(time))
            for config, time, failed in zip(space, times, x * y > 120, strict=True)
        ]
    )
    fractions = {
        name: np.mean([replay(recording, name, 40, seed).fraction for seed in range(2)])
        for name in ("auto", "random", "genetic", "annealing")
    }
    assert fractions.pop("auto") > max(fractions.values())


def test_a_space_larger_than_the_pool() -> None:
    space = SearchSpace({name: range(10) for name in "abcde"})
    strategy = Auto(space, seed=1)
    for _ in range(50):
        row = strategy.ask()
        assert row is not None
        strategy.tell(row, 1.0 + float(((space.indices[row] - 4) ** 2).sum()))
    assert strategy.best_seconds <= 3.0


def test_rows_under_way_are_apart() -> None:
    space = SearchSpace({"x": range(40), "y": range(40)})
    strategy = make_strategy("auto", space, seed=2)
    for _ in range(25):
        row = strategy.ask()
        assert row is not None
        strategy.tell(row, 2.0 + float(np.sin(space.indices[row] / 6).sum()))
    rows = [row for row in (strategy.ask() for _ in range(8)) if row is not None]
    assert len(set(rows)) == 8


def test_many_times_are_learned_in_part() -> None:
    space = SearchSpace({"x": range(40), "y": range(40)})
    strategy = Auto(space, seed=2)
    for row in range(400):
        strategy.tell(row, 1.0 + row % 40)
    found = strategy.ask()
    assert found is not None
    assert found % 40 < 5


def test_it_learns_what_fails() -> None:
    space = SearchSpace({"x": range(40), "y": range(40), "z": range(5)})
    strategy = make_strategy("auto", space, seed=1)
    for _ in range(60):
        row = strategy.ask()
        assert row is not None
        x, y, z = space[row].values()
        strategy.tell(row, None if x > 20 else 50.0 - x + y + z)  # it is best beside failures
    assert strategy.best_seconds == 30
