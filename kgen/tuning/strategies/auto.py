"""The default strategy: a model of the times chooses the configuration to measure."""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kgen.tuning.space import Rows, SearchSpace
from kgen.tuning.strategies.base import Strategy
from kgen.tuning.strategies.gaussian import Array, GaussianProcess
from kgen.tuning.strategies.threads import one_thread

__all__ = ["Auto", "distances_of", "expected_improvement"]

#: The number of configurations that are measured before the model is used.
_DESIGN = 8
#: The number of rows from which the first ones are chosen, far from each other.
_SPREAD = 1500
#: The number of rows that the model evaluates: unseen ones, near the best, and at random.
_POOL = 3000
#: The number of best rows whose neighbors are in the pool, and the number of neighbors.
_BEST, _NEIGHBORS = 3, 500
#: The maximum number of times that the model is fitted to.
_LEARNED = 200
#: Gradient steps of the model: at first, and then after each time; of _SELDOM * n times, each n-th.
_FIRST_STEPS, _STEPS, _SELDOM = 30, 4, 25

#: The minimum probability to work: the model may be wrong.
_LEAST_PROBABLE = 0.02

_ERFC = np.frompyfunc(math.erfc, 1, 1)


class Auto(Strategy):
    """Bayesian optimization with a Gaussian process, over all configurations of a space.

    The first configurations are far apart. The model then learns the logarithms of the
    times, and the next configuration has the largest expected improvement, multiplied by the
    probability that it works, which a second model learns. A configuration in progress counts as
    the model's expectation of it.

    Jones, Schonlau, Welch: Efficient global optimization of expensive black-box functions, 1998;
    for tuning: Willemsen, van Nieuwpoort, van Werkhoven: Bayesian optimization for auto-tuning GPU
    kernels, 2021.

    >>> from kgen.tuning import SearchSpace
    >>> strategy = Auto(SearchSpace({"x": range(30), "y": range(30)}), seed=2)
    >>> for _ in range(40):
    ...     row = strategy.ask()
    ...     strategy.tell(row, 1.0 + row % 30 + row // 30)
    >>> strategy.best_seconds
    1.0
    """

    def __init__(self, space: SearchSpace, seed: int = 0, **options: Any) -> None:
        super().__init__(space, seed, **options)
        tables, columns = [], []
        for values, column in zip(space.tune_params.values(), space.indices.T, strict=True):
            if (column != column[0]).any():
                tables += (found := distances_of(values))
                columns += [column] * len(found)
        self._model = GaussianProcess(tables)
        self._places = np.array(columns, np.intp).reshape(-1, len(space)).T.copy()
        self._working = GaussianProcess(tables)
        self._fits = 0
        self._design = self._far_apart(_DESIGN)
        self._promising: Rows = np.zeros(0, np.intp)
        self._near: dict[int, Rows] = {}

    def propose(self) -> int:
        while self._design and len(self.told) + len(self.under_way) < _DESIGN:
            row = self._design.pop()
            if not self.seen[row]:
                return row
        if self.best is None:
            return self.random_unseen()
        with one_thread():
            return self._most_promising()

    def _most_promising(self) -> int:
        rows, values = self._learned()
        works = np.array([self.told[row] is not None for row in rows.tolist()])
        self._fit(rows[works], values[works])
        pool = self._pool()
        mean, deviation = self._model.predict(self._places[pool])
        gain = expected_improvement(mean, deviation, float(values.min()))
        if not works.all():
            gain *= self._probability_of_working(rows, works, pool)
        order = np.argsort(-gain, kind="stable")
        self._promising = pool[order[: _POOL // 3]]
        return int(pool[order[0]])

    def _far_apart(self, count: int) -> list[int]:
        """Return rows at random, then repeatedly the row farthest from all previous ones."""
        rows = self.space.sample(_SPREAD, self.rng)
        places = self._places[rows]
        distances = np.full(len(rows), np.inf)
        chosen = [0]
        while len(chosen) < min(count, len(rows)):
            tables = zip(self._model.distances, places[chosen[-1]], places.T, strict=True)
            steps = sum(table[place, column] for table, place, column in tables)
            distances = np.minimum(distances, steps)
            distances[chosen] = -1
            chosen.append(int(distances.argmax()))
        return [int(row) for row in rows[chosen[::-1]]]

    def _learned(self) -> tuple[Rows, Array]:
        """Return the rows that the model learns, and their times on its scale."""
        rows = np.fromiter(self.told, np.intp, len(self.told))
        values = scaled_times(list(self.told.values()))
        if len(rows) > _LEARNED:
            order = np.argsort(values, kind="stable")
            best, others = np.split(order, [_LEARNED // 2])
            kept = np.append(best, self.rng.choice(others, _LEARNED // 2, replace=False))
            rows, values = rows[kept], values[kept]
        return rows, values

    def _fit(self, rows: Rows, values: Array) -> None:
        """Update the model; its lengths and noise only now and then, once many times are known."""
        self._fits += 1
        is_due = self._fits % max(1, len(values) // _SELDOM) == 0
        steps = _FIRST_STEPS if self._fits == 1 else _STEPS * is_due
        self._model.fit(self._places[rows], values, steps)
        if self.under_way:
            more = np.fromiter(self.under_way, np.intp, len(self.under_way))
            rows = np.append(rows, more)
            values = np.append(values, self._model.predict(self._places[more])[0])
            self._model.fit(self._places[rows], values, 0)

    def _probability_of_working(self, rows: Rows, works: NDArray[np.bool_], pool: Rows) -> Array:
        """Return for each row of a pool the probability that it works, by regression."""
        is_due = self._fits % max(1, len(rows) // _SELDOM) == 0
        self._working.fit(self._places[rows], works.astype(float), _STEPS * is_due)
        return np.clip(self._working.predict(self._places[pool])[0], _LEAST_PROBABLE, 1.0)

    def _pool(self) -> Rows:
        """Return the candidate rows for the next proposal."""
        unseen = self.unseen
        if len(unseen) <= _POOL:
            return unseen
        parts = [self._promising, self.rng.choice(unseen, _POOL // 2, replace=False)]
        times = ((seconds, row) for row, seconds in self.told.items() if seconds is not None)
        for _, row in heapq.nsmallest(_BEST, times):
            if row not in self._near:
                self._near[row] = self.rng.permutation(self.space.neighbors(row))[:_NEIGHBORS]
            parts.append(self._near[row])
        pool: Rows = np.unique(np.concatenate(parts))
        return pool[~self.seen[pool]]


def distances_of(values: Sequence[Any]) -> list[Array]:
    """Return tables of the distances of a parameter's values, between 0 and 1.

    In the first table all values are equally far apart. Numbers have a second one, in which they
    are evenly spaced, in their order in the list: times may depend on a size smoothly, but also on
    a special value such as 128.

    >>> [table.tolist() for table in distances_of([1, 2, 8])]  # doctest: +NORMALIZE_WHITESPACE
    [[[0.0, 1.0, 1.0], [1.0, 0.0, 1.0], [1.0, 1.0, 0.0]],
     [[0.0, 0.5, 1.0], [0.5, 0.0, 0.5], [1.0, 0.5, 0.0]]]
    >>> len(distances_of(["rows", "columns", "blocks"]))
    1
    """
    tables: list[Array] = [1.0 - np.eye(len(values))]
    if len(values) > 2 and all(isinstance(value, int | float) for value in values):
        places = np.arange(len(values))
        tables.append(np.abs(np.subtract.outer(places, places)) / (len(values) - 1))
    return tables


def scaled_times(times: Sequence[float | None]) -> Array:
    """Return logarithms of times; above the median, larger ones count less.

    The fastest is -1 and the median 0. Failures count as the slowest.

    >>> scaled_times([1.0, 10.0, 100.0, None]).round(2).tolist()
    [-1.0, 0.0, 0.69, 0.69]
    """
    failed = np.array([time is None for time in times])
    logarithms = np.log([1.0 if time is None else time for time in times])
    known = logarithms[~failed]
    middle = np.median(known)
    spread = max(middle - known.min(), 1e-9)
    scaled: Array = (logarithms - middle) / spread
    scaled = np.where(scaled > 0, np.log1p(np.maximum(scaled, 0)), scaled)
    scaled[failed] = scaled[~failed].max()
    return scaled


def expected_improvement(mean: Array, deviation: Array, best: float) -> Array:
    """Return the expected improvement of a normal variable below *best*.

    >>> values = expected_improvement(np.array([0.0, 3.0]), np.array([1.0, 1.0]), 0.0)
    >>> values.round(5).tolist()
    [0.39894, 0.00038]
    """
    steps = (best - mean) / deviation
    density = np.exp(-0.5 * steps**2) / math.sqrt(2 * math.pi)
    below = 0.5 * np.asarray(_ERFC(-math.sqrt(0.5) * steps), float)
    return deviation * (steps * below + density)
