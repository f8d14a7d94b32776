"""Replays: a strategy searches a recorded space, without a device."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kgen.errors import KgenError
from kgen.tuning.files import read_recording
from kgen.tuning.recording import Recording
from kgen.tuning.space import Configuration
from kgen.tuning.stop import Progress, Stop
from kgen.tuning.strategies import Strategy, make_strategy

__all__ = ["Replay", "replay"]


@dataclass(frozen=True, kw_only=True)
class Replay:
    """The result of a strategy in a recorded space.

    :arg best_value: the objective of the best configuration found, ``None`` if all failed
    :arg best: that configuration
    :arg trace: the fraction of the optimum after each evaluation
    :arg rows: the rows of the space in the order of their evaluation
    """

    strategy: str
    seed: int
    best_value: float | None
    best: Configuration | None
    optimum: float
    objective: str
    unit: str
    trace: Sequence[float]
    rows: Sequence[int]
    stopped_by: str

    @property
    def fraction(self) -> float:
        """The optimal time divided by the best time found, at most 1; 0 if all failed."""
        return self.trace[-1] if self.trace else 0.0

    @property
    def evaluations(self) -> int:
        """The number of configurations evaluated, including failures."""
        return len(self.rows)

    def __str__(self) -> str:
        if self.best_value is None:
            return f"{self.strategy}: all {self.evaluations} evaluated configurations failed"
        unit = f" {self.unit}" if self.unit else ""
        return (
            f"{self.strategy}: best {self.objective} {self.best_value:.6g}{unit} "
            f"after {self.evaluations} evaluations, "
            f"{self.fraction:.4f} of the optimum ({self.optimum:.6g}{unit})"
        )


def replay(
    file: str | Path | Recording,
    strategy: str | type[Strategy] = "auto",
    evaluations: int | None = 100,
    seed: int = 0,
    *,
    stop: Stop | None = None,
    **options: Any,
) -> Replay:
    """Run a strategy over a recorded space.

    A failed configuration counts as an evaluation. The same seed gives the same result.

    >>> from kgen.tuning import Evaluation, Recording
    >>> recording = Recording(evaluations=[
    ...     Evaluation(configuration={"x": x}, value=100.0 / x) for x in (16, 32, 64)])
    >>> print(replay(recording, "exhaustive", evaluations=2))
    exhaustive: best time 3.125 after 2 evaluations, 0.5000 of the optimum (1.5625)

    :arg file: a cache file of Kernel Tuner or a T4 file, gzipped or not, or its parsed contents
    :arg strategy: a name of :data:`STRATEGIES`, or a class of strategies
    :arg evaluations: the number of configurations; ``None``: all that the strategy proposes
    :arg stop: further limits
    :arg options: options of the strategy
    :raises KgenError: the file cannot be read, all its configurations failed, the
        strategy is unknown, or *evaluations* is not positive
    """
    recording = file if isinstance(file, Recording) else read_recording(file)
    if isinstance(strategy, Strategy):
        raise KgenError("a replay creates its strategy itself", hint="give its name or its class")
    best_cost = recording.cost(recording.optimum)
    chosen = make_strategy(strategy, recording.space, seed, **options)
    rows, reason = _search(chosen, recording, replace(stop or Stop(), evaluations=evaluations))
    found = None if chosen.best is None else recording.space[chosen.best]
    costs = [recording.costs[row] for row in rows]
    least = itertools.accumulate((math.inf if cost is None else cost for cost in costs), min)
    return Replay(
        strategy=strategy if isinstance(strategy, str) else strategy.__name__,
        seed=seed,
        best=found,
        best_value=None if found is None else recording.cost(chosen.best_seconds),
        optimum=recording.optimum,
        objective=recording.objective,
        unit=recording.unit,
        trace=[best_cost / cost for cost in least],
        rows=rows,
        stopped_by=reason,
    )


def _search(strategy: Strategy, recording: Recording, stop: Stop) -> tuple[list[int], str]:
    """Return the rows that a strategy asks for until it stops, and why it does."""
    progress, rows, start = Progress(), list[int](), time.perf_counter()
    while (row := strategy.ask()) is not None:
        strategy.tell(row, recording.costs[row])
        rows.append(row)
        progress.add(recording.costs[row])
        progress.elapsed_s = time.perf_counter() - start
        if reason := stop.reason(progress):
            return rows, reason
    return rows, "no configuration is left"
