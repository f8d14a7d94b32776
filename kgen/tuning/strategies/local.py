"""Searches that walk from a configuration to its neighbors: local search and annealing."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from kgen.tuning.space import SearchSpace
from kgen.tuning.strategies.base import Strategy

__all__ = ["Annealing", "LocalSearch"]


class LocalSearch(Strategy):
    """Iterated local search: the search moves to the first better neighbor.

    Neighbors differ in one parameter. If none is better, the search continues from the best
    configuration with a few changed parameters, or sometimes from a random one.

    Lourenço, Martin, Stützle: Iterated local search, 2003.

    >>> from kgen.tuning import SearchSpace
    >>> strategy = LocalSearch(SearchSpace({"x": range(30), "y": range(30)}), seed=2)
    >>> for _ in range(200):
    ...     row = strategy.ask()
    ...     strategy.tell(row, 1.0 + row % 30 + row // 30)
    >>> strategy.best_seconds
    1.0

    :arg changed: the maximum number of parameters changed if no neighbor is better
    :arg restarts: the probability of continuing from a random configuration instead
    """

    def __init__(
        self,
        space: SearchSpace,
        seed: int = 0,
        *,
        changed: int = 3,
        restarts: float = 0.2,
        **options: Any,
    ) -> None:
        super().__init__(space, seed, **options)
        self.changed = changed
        self.restarts = restarts
        self._here_s = math.inf
        self._next: list[int] = []
        self._jumps: set[int] = set()

    def propose(self) -> int:
        while self._next:
            row = self._next.pop()
            if not self.seen[row]:
                return row
        row = self._jump()
        self._jumps.add(row)
        return row

    def tell(self, row: int, seconds: float | None) -> None:
        super().tell(row, seconds)
        if seconds is not None and (seconds < self._here_s or row in self._jumps):
            self._here_s = seconds
            self._next = self.rng.permutation(self.space.neighbors(row)).tolist()

    def _jump(self) -> int:
        """Return a row a few parameters away from the best one, or any."""
        if self.best is None or self.rng.random() < self.restarts:
            return self.random_unseen()
        distances = (self.space.indices != self.space.indices[self.best]).sum(axis=1)
        near = np.flatnonzero((distances <= self.changed) & ~self.seen)
        return int(self.rng.choice(near)) if len(near) else self.random_unseen()


class Annealing(Strategy):
    """Simulated annealing: slower neighbors are accepted less and less often.

    A neighbor whose time is larger by a factor *r* is accepted with probability ``r**(-1 / T)``.
    The temperature *T* decreases with each evaluation. If all neighbors are known, the search
    continues from a random configuration.

    Kirkpatrick, Gelatt, Vecchi: Optimization by simulated annealing, 1983.

    >>> from kgen.tuning import SearchSpace
    >>> strategy = Annealing(SearchSpace({"x": range(30), "y": range(30)}), seed=2)
    >>> for _ in range(300):
    ...     row = strategy.ask()
    ...     strategy.tell(row, 1.0 + row % 30 + row // 30)
    >>> strategy.best_seconds < 4
    True

    :arg temperature: the initial temperature
    :arg cooling: the factor of the temperature for each evaluation
    """

    def __init__(
        self,
        space: SearchSpace,
        seed: int = 0,
        *,
        temperature: float = 0.5,
        cooling: float = 0.98,
        **options: Any,
    ) -> None:
        super().__init__(space, seed, **options)
        self.temperature = temperature
        self.cooling = cooling
        self._here: int | None = None

    def propose(self) -> int:
        if self._here is not None:
            near = self.space.neighbors(self._here)
            near = near[~self.seen[near]]
            if len(near):
                return int(self.rng.choice(near))
            self._here = None
        return self.random_unseen()

    def tell(self, row: int, seconds: float | None) -> None:
        super().tell(row, seconds)
        self.temperature *= self.cooling
        if seconds is not None and self._accepts(seconds):
            self._here = row

    def _accepts(self, seconds: float) -> bool:
        here_s = None if self._here is None else self.told[self._here]
        if here_s is None or seconds <= here_s:
            return True
        exponent = math.log(seconds / here_s) / max(self.temperature, 1e-9)
        return bool(self.rng.random() < math.exp(-exponent))
