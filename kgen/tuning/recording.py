"""A recorded search space: the result of each configuration, from a file of results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from kgen.errors import KgenError
from kgen.tuning.space import Configuration, SearchSpace

__all__ = ["Evaluation", "Recording", "measured", "plain"]

#: Objectives that are rates, for which larger is better.
_RATES = ("/s", "/w", "/j")
#: The value that some files have as the time of a failure.
_FAILED = 1e20


def measured(value: Any) -> float | None:
    """Return a value that can be a measurement as a number, ``None`` for anything else.

    >>> [measured(value) for value in (2, 0.5, "InvalidConfig", None, 1e20, float("nan"), 0)]
    [2.0, 0.5, None, None, None, None, None]
    """
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and 0 < value < _FAILED else None


def plain(value: Any) -> Any:
    """Return a value of a configuration as JSON has it: numpy's numbers as Python's, else text."""
    item = getattr(value, "item", None)
    return item() if callable(item) else str(value)


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """The result of one configuration.

    :arg value: the objective, ``None`` if the configuration failed
    :arg invalidity: why it failed, in T4's words: ``"compile"``, ``"runtime"``, ``"timeout"``,
        ``"correctness"`` or ``"constraints"``; otherwise ``"correct"``
    :arg runtimes: individual times in milliseconds
    :arg measurements: other numbers and texts by name
    """

    configuration: Configuration
    value: float | None
    invalidity: str = "correct"
    runtimes: Sequence[float] = ()
    measurements: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Recording:
    """The contents of a file of results.

    >>> one, two = ({"block": block} for block in (16, 32))
    >>> recording = Recording(evaluations=(
    ...     Evaluation(configuration=one, value=2.5),
    ...     Evaluation(configuration=two, value=None, invalidity="compile")))
    >>> recording.space, recording.costs, recording.optimum
    (SearchSpace(2 configurations of block), [2.5, None], 2.5)

    :arg tune_params: the values of parameters; by default those that occur
    :arg objective: the measurement to compare; for a rate, such as GFLOP/s, more is better
    :arg unit: the unit of the objective
    :arg about: the device, the kernel, and other common contents of the file
    """

    evaluations: Sequence[Evaluation]
    tune_params: Mapping[str, Sequence[Any]] | None = None
    objective: str = "time"
    unit: str = ""
    about: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def space(self) -> SearchSpace:
        """The space of the configurations."""
        configurations = [evaluation.configuration for evaluation in self.evaluations]
        return SearchSpace.from_configurations(configurations, self.tune_params)

    @property
    def is_rate(self) -> bool:
        """Whether a larger objective is better."""
        return any(rate in self.objective.lower() for rate in _RATES)

    @cached_property
    def costs(self) -> list[float | None]:
        """The cost of each row of the space, which a search minimizes; ``None`` if it failed."""
        costs: list[float | None] = [None] * len(self.space)
        row_of = {tuple(places): row for row, places in enumerate(self.space.indices.tolist())}
        for evaluation in self.evaluations:
            if evaluation.value is not None:
                row = row_of[self.space.positions(evaluation.configuration)]
                costs[row] = self.cost(evaluation.value)
        return costs

    def cost(self, value: float) -> float:
        """Return the cost, to be minimized, of an objective: 1/rate for a rate; or the inverse."""
        return 1 / value if self.is_rate else value

    @cached_property
    def optimum(self) -> float:
        """The best value of the objective.

        :raises KgenError: all configurations failed
        """
        found = [cost for cost in self.costs if cost is not None]
        if not found:
            raise KgenError(f"all {len(self.costs)} recorded configurations failed")
        return self.cost(min(found))
