"""Orthogonal search: groups of parameters in turn, all others as in the best configuration."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from kgen.errors import KgenError, near_names
from kgen.tuning.restrictions import names_together
from kgen.tuning.space import SearchSpace
from kgen.tuning.strategies.base import Strategy

__all__ = ["Orthogonal"]

#: Combinations of a group that is made from a restriction.
_GROUP = 64


class Orthogonal(Strategy):
    """Tries all values of one group of parameters, then of the next, from the best one so far.

    After a round without improvement, it restarts from a random configuration.

    >>> from kgen.tuning import SearchSpace
    >>> space = SearchSpace({"x": range(9), "y": range(9), "z": range(9)})
    >>> strategy = Orthogonal(space, seed=1, groups=[["x"], ["y", "z"]])
    >>> for _ in range(90):
    ...     row = strategy.ask()
    ...     strategy.tell(row, 1.0 + sum(space[row].values()))
    >>> strategy.best_seconds
    1.0

    :arg groups: lists of names of parameters; by default, the parameters that a
        restriction uses together, if they have few combinations, and all others one by one
    :raises KgenError: a group names an unknown parameter
    """

    def __init__(
        self,
        space: SearchSpace,
        seed: int = 0,
        *,
        groups: Iterable[Sequence[str]] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(space, seed, **options)
        self.groups = _checked(space, groups) if groups is not None else _groups_of(space)
        self._here: int | None = None
        self._here_s = math.inf
        self._next: list[int] = []
        self._turn = 0
        self._without_gain = 0

    def propose(self) -> int:
        while self._here is not None:
            while self._next:
                row = self._next.pop()
                if not self.seen[row]:
                    return row
            self._turn_to_next_group()
        return self.random_unseen()

    def tell(self, row: int, seconds: float | None) -> None:
        super().tell(row, seconds)
        if seconds is not None and seconds < self._here_s:
            self._here, self._here_s, self._without_gain = row, seconds, 0

    def _turn_to_next_group(self) -> None:
        if self._here is None or self._without_gain == len(self.groups):
            self._here, self._here_s, self._without_gain = None, math.inf, 0
            return
        group = self.groups[self._turn % len(self.groups)]
        self._turn += 1
        self._without_gain += 1
        others = [place for place in range(len(self.space.names)) if place not in group]
        indices = self.space.indices
        same = (indices[:, others] == indices[self._here, others]).all(axis=1)
        self._next = self.rng.permutation(np.flatnonzero(same & ~self.seen)).tolist()


def _checked(space: SearchSpace, groups: Iterable[Sequence[str]]) -> list[list[int]]:
    listed = [list(group) for group in groups]
    for name in (name for group in listed for name in group):
        if name not in space.names:
            raise KgenError(
                f"a group names '{name}', which is not a parameter",
                hint=near_names(name, space.names),
            )
    return [[space.names.index(name) for name in group] for group in listed]


def _groups_of(space: SearchSpace) -> list[list[int]]:
    """Return groups by the restrictions of a space, and single parameters; none of one value."""
    sizes = {name: len(values) for name, values in space.tune_params.items()}
    together = [
        names
        for names in names_together(space.restrictions, space.names)
        if len(names) > 1 and math.prod(sizes[name] for name in names) <= _GROUP
    ]
    single = [[name] for name in space.names if sizes[name] > 1]
    return [[space.names.index(name) for name in group] for group in [*single, *together]]
