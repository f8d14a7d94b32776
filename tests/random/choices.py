"""What random programs are drawn from: choices, each made by a generator of random numbers."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

__all__ = ["Choice", "Draw", "booleans", "integers", "permutations", "sampled_from", "some_of"]

Choice: TypeAlias = Callable[[random.Random], Any]


class Draw:
    """Makes choices, the same ones for the same seed."""

    def __init__(self, seed: str) -> None:
        self.random = random.Random(seed)

    def __call__(self, choice: Choice) -> Any:
        return choice(self.random)


def sampled_from(values: Sequence[Any]) -> Choice:
    """Choose one."""
    return lambda random: random.choice(values)


def integers(least: int, largest: int) -> Choice:
    """Choose a number between two, both of which it may be."""
    return lambda random: random.randint(least, largest)


def booleans() -> Choice:
    """Choose between two ways."""
    return lambda random: random.random() < 0.5


def permutations(values: Sequence[Any]) -> Choice:
    """Choose an order."""
    return lambda random: random.sample(values, len(values))


def some_of(values: Sequence[Any]) -> Choice:
    """Choose one or more, in any order."""
    return lambda random: random.sample(values, random.randint(1, len(values)))
