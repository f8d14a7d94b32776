"""The common base of search strategies: they propose rows of a space, and receive their times."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from kgen.errors import KgenError
from kgen.tuning.space import Rows, SearchSpace

__all__ = ["Bound", "Strategy"]

#: Returns a lower bound of the time of a row, in seconds.
Bound: TypeAlias = Callable[[int], float]


class Strategy(ABC):
    """Chooses the next configuration to measure, by its row in a search space.

    A row is proposed at most once. Several may be in progress: proposed, but without a time yet.
    The same space, seed, options and sequence of calls give the same rows.

    :arg start: rows to propose first, such as the best ones of another device
    :arg bounds: a lower bound of the time of a row; rows that cannot be faster than the
        best one are skipped
    """

    def __init__(
        self,
        space: SearchSpace,
        seed: int = 0,
        *,
        start: Sequence[int] = (),
        bounds: Bound | None = None,
    ) -> None:
        self.space = space
        self.rng = np.random.default_rng(_checked_seed(seed))
        self.bounds = bounds
        #: For each row, whether it has been proposed, reported, or skipped.
        self.seen: NDArray[np.bool_] = np.zeros(len(space), bool)
        #: The times of the rows that were reported, in this order; ``None`` for those that failed.
        self.told: dict[int, float | None] = {}
        #: The rows that were asked for and not reported yet, in this order.
        self.under_way: dict[int, None] = {}
        self.best: int | None = None
        self._start = list(dict.fromkeys(start))[::-1]
        self._left = len(space)

    def __repr__(self) -> str:
        names = ", ".join(self.space.names)
        return f"{type(self).__name__}({len(self.space)} configurations of {names})"

    @property
    def is_done(self) -> bool:
        """Whether no row is left to propose, whatever the results of those in progress."""
        return self._left == 0

    @property
    def unseen(self) -> Rows:
        """The rows not proposed yet."""
        return np.flatnonzero(~self.seen)

    @property
    def best_seconds(self) -> float:
        """The smallest time so far, or infinity."""
        seconds = None if self.best is None else self.told[self.best]
        return float("inf") if seconds is None else seconds

    def ask(self) -> int | None:
        """Return a row to measure; ``None`` if none is left, or if results are needed first."""
        while not self.is_done:
            row = self._start.pop() if self._start else self.propose()
            if row is None:
                return None
            if not self.seen[row]:
                self._mark(row)
                if self.bounds is None or self.bounds(row) < self.best_seconds:
                    self.under_way[row] = None
                    return row
        return None

    def tell(self, row: int, seconds: float | None) -> None:
        """Record the time of a row, whether it was proposed or not; ``None``: it failed.

        :raises KgenError: the row has a result already
        """
        if row in self.told:
            raise KgenError(f"configuration {self.space[row]} is reported twice, as row {row}")
        self._mark(row)
        self.under_way.pop(row, None)
        self.told[row] = seconds
        if seconds is not None and seconds < self.best_seconds:
            self.best = row

    def _mark(self, row: int) -> None:
        self._left -= not self.seen[row]
        self.seen[row] = True

    @abstractmethod
    def propose(self) -> int | None:
        """Return the next row; rows proposed before are skipped."""

    def random_unseen(self) -> int:
        """Return a random row not proposed yet."""
        while self._left * 8 > len(self.space):
            row = int(self.rng.integers(len(self.space)))
            if not self.seen[row]:
                return row
        return int(self.rng.choice(self.unseen))


def _checked_seed(seed: object) -> int:
    if isinstance(seed, int | np.integer) and seed >= 0:
        return int(seed)
    raise KgenError(f"seed= is {seed!r}", hint="pass an integer that is not negative")
