"""Counts that are only known to be in an interval."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

KeyT = TypeVar("KeyT", bound=Hashable)

__all__ = ["Interval", "sum_of", "sums_of", "value_of"]


@dataclass(frozen=True)
class Interval:
    """A count between *low* and *high*, both included: numbers, or functions of parameters.

    *reasons* explain why it is not known exactly. Sums and products with non-negative values
    are intervals again.

    >>> print(Interval(2, 5, ("a[i] > 0 is data",)) + 1)
    between 3 and 6: a[i] > 0 is data
    """

    low: Any
    high: Any
    reasons: tuple[str, ...]

    def _combined(self, other: Any, low: Any, high: Any) -> Interval:
        reasons = other.reasons if isinstance(other, Interval) else ()
        return Interval(low, high, tuple(dict.fromkeys((*self.reasons, *reasons))))

    def __add__(self, other: Any) -> Interval:
        low, high = bounds_of(other)
        return self._combined(other, self.low + low, self.high + high)

    __radd__ = __add__

    def __mul__(self, other: Any) -> Interval:
        low, high = bounds_of(other)
        return self._combined(other, self.low * low, self.high * high)

    __rmul__ = __mul__

    def eval_with_dict(self, values: Mapping[str, int]) -> Any:
        """Return the bounds for these parameters, or a single number if they are equal."""
        low, high = value_of(self.low, values), value_of(self.high, values)
        return low if low == high else Interval(low, high, self.reasons)

    def __str__(self) -> str:
        return f"between {self.low} and {self.high}: {'; '.join(self.reasons)}"


def value_of(count: Any, values: Mapping[str, int]) -> Any:
    """Return the value of *count* for these parameters; unused ones need no value.

    Raises :class:`KeyError` for a parameter that has none.

    >>> import islpy as isl
    >>> value_of(isl.PwQPolynomial("[n, m] -> { 3*m }"), {"m": 2})
    6
    """
    if isinstance(count, Interval):
        return count.eval_with_dict(values)
    return count.drop_unused_params().eval_with_dict(values)


def bounds_of(value: Any) -> tuple[Any, Any]:
    """Return the least and the largest that *value* can be."""
    return (value.low, value.high) if isinstance(value, Interval) else (value, value)


def sum_of(one: Any, other: Any) -> Any:
    """Return the sum of two counts, either of which may be an interval."""
    return other + one if isinstance(other, Interval) else one + other


def sums_of(counts: Iterable[tuple[KeyT, Any]]) -> dict[KeyT, Any]:
    """Add up the counts of equal keys.

    >>> sums_of([("add", 2), ("mul", 1), ("add", 3)])
    {'add': 5, 'mul': 1}
    """
    result: dict[KeyT, Any] = {}
    for key, count in counts:
        result[key] = sum_of(result[key], count) if key in result else count
    return result
