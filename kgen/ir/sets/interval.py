"""Intervals of integers, and their arithmetic."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from operator import mul
from typing import Any

import numpy as np

__all__ = ["ANYTHING", "Interval", "range_of_type"]


@dataclass(slots=True, unsafe_hash=True)
class Interval:
    """All integers from *low* to *high*; ``None`` means unbounded.

    Intervals are immutable by convention: the class is not frozen, because that would double the
    time to create one, and every step of every subscript has one.

    >>> Interval(0, 3) * Interval(-2, 2) + Interval(1, 1)
    Interval(low=-5, high=7)
    >>> Interval(5) // 2
    Interval(low=2, high=None)
    """

    low: int | None = None
    high: int | None = None

    @property
    def count(self) -> int | None:
        """The number of integers in it, ``None`` if it is unbounded."""
        return None if self.low is None or self.high is None else self.high - self.low + 1

    @property
    def only(self) -> int | None:
        """The only integer in it, if there is just one."""
        return self.low if self.low == self.high else None

    def until(self, stop: Interval) -> Interval:
        """Return the values of a loop whose first one is in this interval, up to before *stop*."""
        return Interval(self.low, None if stop.high is None else stop.high - 1)

    def is_at_least(self, least: int) -> bool:
        """Tell whether all are *least* or more."""
        return self.low is not None and self.low >= least

    def is_at_most(self, largest: int) -> bool:
        """Tell whether all are *largest* or less."""
        return self.high is not None and self.high <= largest

    def is_inside(self, other: Interval) -> bool:
        """Tell whether all are in *other*."""
        return (other.low is None or self.is_at_least(other.low)) and (
            other.high is None or self.is_at_most(other.high)
        )

    def __add__(self, other: Interval) -> Interval:
        low = None if self.low is None or other.low is None else self.low + other.low
        high = None if self.high is None or other.high is None else self.high + other.high
        return Interval(low, high)

    def __mul__(self, other: Interval) -> Interval:
        if self.only is not None:
            return other.scaled(self.only)
        if other.only is not None:
            return self.scaled(other.only)
        if self.is_at_least(0) and other.is_at_least(0):
            return Interval(_both(self.low, other.low, mul), _both(self.high, other.high, mul))
        ends = (self.low, self.high, other.low, other.high)
        if None in ends:
            return ANYTHING
        corners = [a * b for a in ends[:2] for b in ends[2:] if a is not None and b is not None]
        return Interval(min(corners), max(corners))

    def __floordiv__(self, divisor: int) -> Interval:
        low = None if self.low is None else self.low // divisor
        return Interval(low, None if self.high is None else self.high // divisor)

    def truncated(self, divisor: int) -> Interval:
        """Return the quotients by a positive number, rounded towards zero."""
        down, up = self // divisor, (self.scaled(-1) // divisor).scaled(-1)
        low = down.low if self.is_at_least(0) else up.low
        return Interval(low, up.high if self.is_at_most(0) else down.high)

    def scaled(self, factor: int) -> Interval:
        """Return ``factor * self``."""
        low = None if self.low is None else factor * self.low
        high = None if self.high is None else factor * self.high
        return Interval(low, high) if factor >= 0 else Interval(high, low)

    def both(self, other: Interval) -> Interval:
        """Return the intersection."""
        return Interval(_either(self.low, other.low, max), _either(self.high, other.high, min))

    def union(self, other: Interval) -> Interval:
        """Return the smallest interval that contains both."""
        return Interval(_both(self.low, other.low, min), _both(self.high, other.high, max))

    def minimum(self, other: Interval) -> Interval:
        """Return the values of ``min(a, b)``, *a* from this one and *b* from the *other*."""
        return Interval(_both(self.low, other.low, min), _either(self.high, other.high, min))

    def maximum(self, other: Interval) -> Interval:
        """Return the values of ``max(a, b)``, *a* from this one and *b* from the *other*."""
        return Interval(_either(self.low, other.low, max), _both(self.high, other.high, max))


ANYTHING = Interval()


@lru_cache(maxsize=64)
def range_of_type(dtype: np.dtype[Any]) -> Interval:
    """Return the values of an integer or boolean type; all integers for other types.

    >>> range_of_type(np.dtype(np.uint8))
    Interval(low=0, high=255)
    """
    if dtype.kind == "b":
        return Interval(0, 1)
    if dtype.kind not in "iu":
        return ANYTHING
    info = np.iinfo(dtype)
    return Interval(int(info.min), int(info.max))


def _both(a: int | None, b: int | None, combine: Callable[[int, int], int]) -> int | None:
    return None if a is None or b is None else combine(a, b)


def _either(a: int | None, b: int | None, combine: Callable[[int, int], int]) -> int | None:
    if a is None or b is None:
        return a if b is None else b
    return combine(a, b)
