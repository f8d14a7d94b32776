"""Samplers of Optuna as a strategy, if the package is installed."""

from __future__ import annotations

import math
from typing import Any

import optuna

from kgen.tuning.space import SearchSpace
from kgen.tuning.strategies.base import Strategy

__all__ = ["Optuna"]

#: The number of invalid or repeated suggestions after which a random configuration is chosen.
_TRIES = 30


class Optuna(Strategy):
    """Proposes the samples of an Optuna sampler: ``kgen.tune(..., strategy=Optuna)``.

    The sampler chooses positions in the lists of values, and receives logarithms of times.
    Configurations that restrictions exclude, or that fail, are pruned.

    >>> from kgen.tuning import SearchSpace
    >>> strategy = Optuna(SearchSpace({"x": range(9), "y": range(9)}), seed=2)
    >>> for _ in range(40):
    ...     row = strategy.ask()
    ...     strategy.tell(row, 1.0 + row % 9 + row // 9)
    >>> strategy.best_seconds < 4
    True

    :arg sampler: by default ``optuna.samplers.TPESampler(seed=seed)``
    """

    def __init__(
        self,
        space: SearchSpace,
        seed: int = 0,
        *,
        sampler: optuna.samplers.BaseSampler | None = None,
        **options: Any,
    ) -> None:
        super().__init__(space, seed, **options)
        self.study = _quiet_study(sampler or optuna.samplers.TPESampler(seed=seed))
        self._distributions = {
            name: _distribution(values) for name, values in space.tune_params.items()
        }
        self._trials: dict[int, optuna.Trial] = {}

    def propose(self) -> int:
        for _ in range(_TRIES):
            trial = self.study.ask(self._distributions)
            row = self.space.row_at(trial.params[name] for name in self.space.names)
            if row is not None and not self.seen[row]:
                self._trials[row] = trial
                return row
            seconds = None if row is None else self.told.get(row)
            self._finish(trial, seconds)
        return self.random_unseen()

    def tell(self, row: int, seconds: float | None) -> None:
        super().tell(row, seconds)
        trial = self._trials.pop(row, None)
        if trial is None:
            places = self.space.indices[row].tolist()
            self.study.enqueue_trial(dict(zip(self.space.names, places, strict=True)))
            trial = self.study.ask(self._distributions)
        self._finish(trial, seconds)

    def _finish(self, trial: optuna.Trial, seconds: float | None) -> None:
        if seconds is None:
            self.study.tell(trial, state=optuna.trial.TrialState.PRUNED)
        else:
            self.study.tell(trial, math.log(seconds))


def _distribution(values: tuple[Any, ...]) -> optuna.distributions.BaseDistribution:
    if all(isinstance(value, int | float) for value in values):
        return optuna.distributions.IntDistribution(0, len(values) - 1)
    return optuna.distributions.CategoricalDistribution(tuple(range(len(values))))


def _quiet_study(sampler: optuna.samplers.BaseSampler) -> optuna.Study:
    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        return optuna.create_study(sampler=sampler)
    finally:
        optuna.logging.set_verbosity(verbosity)
