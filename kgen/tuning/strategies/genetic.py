"""Genetic search: configurations are recombined and mutated, and the fastest are kept."""

from __future__ import annotations

from typing import Any

import numpy as np

from kgen.tuning.space import Rows, SearchSpace
from kgen.tuning.strategies.base import Strategy

__all__ = ["Genetic"]

#: The maximum number of attempts to make a new valid child before a random row is taken.
_TRIES = 30


class Genetic(Strategy):
    """A steady-state genetic algorithm: each child enters the population on its own.

    Two parents win tournaments among the fastest configurations. A child takes each value from
    either parent, and some values at random.

    Whitley: The GENITOR algorithm and selection pressure, 1989.

    >>> from kgen.tuning import SearchSpace
    >>> strategy = Genetic(SearchSpace({"x": range(30), "y": range(30)}), seed=2)
    >>> for _ in range(300):
    ...     row = strategy.ask()
    ...     strategy.tell(row, 1.0 + row % 30 + row // 30)
    >>> strategy.best_seconds < 4
    True

    :arg population: the number of configurations that are kept
    :arg mutations: the mean number of values of a child that are chosen at random
    """

    def __init__(
        self,
        space: SearchSpace,
        seed: int = 0,
        *,
        population: int = 20,
        mutations: float = 1.0,
        **options: Any,
    ) -> None:
        super().__init__(space, seed, **options)
        self.population = population
        self.mutations = mutations
        self._fastest: list[tuple[float, int]] = []
        self._asked = 0

    def propose(self) -> int:
        self._asked += 1
        if self._asked > self.population and len(self._fastest) > 1:
            for _ in range(_TRIES):
                row = self.space.row_at(self._child())
                if row is not None and not self.seen[row]:
                    return row
        return self.random_unseen()

    def tell(self, row: int, seconds: float | None) -> None:
        super().tell(row, seconds)
        if seconds is not None:
            self._fastest = sorted([*self._fastest, (seconds, row)])[: self.population]

    def _child(self) -> Rows:
        """Return the positions of a child's values."""
        first, second = (self.space.indices[self._parent()] for _ in range(2))
        count = len(first)
        child = np.where(self.rng.random(count) < 0.5, first, second)
        sizes = [len(values) for values in self.space.tune_params.values()]
        is_changed = self.rng.random(count) < self.mutations / count
        return np.where(is_changed, self.rng.integers(sizes), child)

    def _parent(self) -> int:
        """Return the faster of two surviving configurations."""
        places = self.rng.integers(len(self._fastest), size=2)
        return self._fastest[int(places.min())][1]
