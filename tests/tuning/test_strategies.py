"""What holds for all strategies."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from kgen.errors import KgenError
from kgen.tuning import STRATEGIES, SearchSpace, Strategy, make_strategy

SPACE = SearchSpace(
    {"x": [1, 2, 4, 8, 16], "y": range(6), "how": ["a", "b", "c"]}, ["x > y or y > 3"]
)


def seconds_of(row: int) -> float | None:
    """Return a time, with its minimum at x = 4, y = 3; a part of the configurations fails."""
    config = SPACE[row]
    if config["x"] * (config["y"] + 1) > 70:
        return None
    return float(abs(config["x"] - 4) + abs(config["y"] - 3) / 2 + (config["how"] == "b") + 1.0)


def search(strategy: Strategy, evaluations: int = 10**6) -> list[int]:
    rows = []
    for _ in range(evaluations):
        row = strategy.ask()
        if row is None:
            break
        rows.append(row)
        strategy.tell(row, seconds_of(row))
    return rows


@pytest.mark.parametrize("name", STRATEGIES)
def test_each_row_is_asked_for_once(name: str) -> None:
    strategy = make_strategy(name, SPACE, seed=1)
    assert sorted(search(strategy)) == list(range(len(SPACE)))
    assert strategy.is_done
    assert strategy.ask() is None
    assert strategy.best is not None
    assert SPACE[strategy.best]["x"] == 4


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_seed_makes_a_search_repeatable(name: str) -> None:
    runs = [search(make_strategy(name, SPACE, seed=seed), 40) for seed in (5, 5, 6)]
    assert runs[0] == runs[1]
    assert name == "exhaustive" or runs[0] != runs[2]


@pytest.mark.parametrize("name", STRATEGIES)
def test_several_rows_are_under_way(name: str) -> None:
    strategy = make_strategy(name, SPACE)
    under_way: list[int] = []
    found = set()
    while not strategy.is_done or under_way:
        row = strategy.ask() if len(under_way) < 7 else None
        if row is not None:
            assert row not in found
            found.add(row)
            under_way.append(row)
        else:
            oldest = under_way.pop(0)
            strategy.tell(oldest, seconds_of(oldest))
    assert len(found) == len(SPACE)


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_space_where_all_fails(name: str) -> None:
    strategy = make_strategy(name, SPACE)
    for row in iter(strategy.ask, None):
        strategy.tell(row, None)
    assert strategy.is_done
    assert strategy.best is None


@pytest.mark.parametrize("name", STRATEGIES)
def test_the_only_configuration(name: str) -> None:
    strategy = make_strategy(name, SearchSpace({"x": [1]}))
    assert strategy.ask() == 0
    assert strategy.ask() is None


@pytest.mark.parametrize("name", STRATEGIES)
def test_rows_that_cannot_be_faster_are_skipped(name: str) -> None:
    strategy = make_strategy(name, SPACE, bounds=lambda row: 0.9 * (seconds_of(row) or 1.0))
    rows = search(strategy)
    assert 0 < len(rows) < len(SPACE)
    assert strategy.best_seconds == 1.0


@pytest.mark.parametrize("name", STRATEGIES)
def test_given_rows_come_first_and_told_ones_never(name: str) -> None:
    strategy = make_strategy(name, SPACE, start=[7, 3])
    strategy.tell(11, 2.0)
    rows = search(strategy)
    assert rows[:2] == [7, 3]
    assert 11 not in rows


def test_bad_use() -> None:
    with pytest.raises(KgenError, match=r"no strategy 'randon'\n  hint: did you mean 'random'"):
        make_strategy("randon", SPACE)
    strategy = make_strategy("random", SPACE)
    strategy.tell(3, 1.0)
    with pytest.raises(KgenError, match="reported twice"):
        strategy.tell(3, 1.0)


def test_rows_are_those_of_the_seed() -> None:
    strategy = make_strategy("exhaustive", SPACE)
    assert list(itertools.islice(iter(strategy.ask, None), 3)) == [0, 1, 2]
    assert make_strategy(strategy, SPACE) is strategy


@pytest.mark.parametrize("seed", ["x", -1, 1.5])
def test_seed_is_a_natural_number(seed: Any) -> None:
    with pytest.raises(KgenError, match="seed= is"):
        make_strategy("local", SPACE, seed=seed)
