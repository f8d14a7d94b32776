"""Search strategies, by their names."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from kgen.errors import KgenError, near_names
from kgen.ir.optional import load
from kgen.tuning.space import SearchSpace
from kgen.tuning.strategies.auto import Auto
from kgen.tuning.strategies.base import Bound, Strategy
from kgen.tuning.strategies.enumeration import Exhaustive, Random
from kgen.tuning.strategies.genetic import Genetic
from kgen.tuning.strategies.heuristic import Heuristic
from kgen.tuning.strategies.local import Annealing, LocalSearch
from kgen.tuning.strategies.orthogonal import Orthogonal

__all__ = [
    "OPTUNA",
    "STRATEGIES",
    "Bound",
    "Strategy",
    "check_options",
    "class_of",
    "make_strategy",
]

#: The name of the strategy that needs a package.
OPTUNA = "optuna"
STRATEGIES: Mapping[str, type[Strategy]] = {
    "exhaustive": Exhaustive,
    "random": Random,
    "heuristic": Heuristic,
    "orthogonal": Orthogonal,
    "genetic": Genetic,
    "local": LocalSearch,
    "annealing": Annealing,
    "auto": Auto,
}


def class_of(strategy: object) -> type[Strategy]:
    """Return the class of a strategy, given its name, the class, or an instance.

    >>> class_of("random").__name__
    'Random'

    :raises KgenError: there is no such strategy
    """
    if strategy == OPTUNA:
        strategy = load("kgen.tuning.strategies.with_optuna", "tune").Optuna
    if isinstance(strategy, str):
        if strategy not in STRATEGIES:
            known = (*STRATEGIES, OPTUNA)
            raise KgenError(f"there is no strategy '{strategy}'", hint=near_names(strategy, known))
        return STRATEGIES[strategy]
    found = strategy if isinstance(strategy, type) else type(strategy)
    if not issubclass(found, Strategy):
        raise KgenError(
            f"strategy= is {strategy!r}, which is not a strategy",
            hint=f"one of {', '.join(STRATEGIES)}, or a subclass of kgen.tuning.Strategy",
        )
    return found


def check_options(strategy: object, options: Mapping[str, Any]) -> None:
    """Reject options that a strategy does not have.

    >>> check_options("orthogonal", {"groups": [["block"]]})

    :raises KgenError: the option does not exist, or the strategy is an instance already
    """
    found = class_of(strategy)
    known = {
        name
        for base in found.__mro__[:-1]
        for name, parameter in inspect.signature(base).parameters.items()
        if parameter.kind is parameter.KEYWORD_ONLY
    }
    for name in options:
        if isinstance(strategy, Strategy) or name not in known:
            raise KgenError(
                f"strategy {found.__name__} takes no option '{name}' here",
                hint=near_names(name, known),
            )


def make_strategy(
    strategy: str | type[Strategy] | Strategy, space: SearchSpace, seed: int = 0, **options: Any
) -> Strategy:
    """Return a strategy for a space, by its name or its class; an instance is returned unchanged.

    >>> make_strategy("random", SearchSpace({"block": [16, 32]}), seed=1)
    Random(2 configurations of block)

    :raises KgenError: there is no such strategy, or it has no such option
    """
    if isinstance(strategy, Strategy):
        return strategy
    check_options(strategy, options)
    return class_of(strategy)(space, seed, **options)
