"""Timing calls of kernels on their devices."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

__all__ = ["in_units", "rounds_of", "seconds_of", "settle"]


def settle(event: Any) -> None:
    """Wait for what a call returned: an event of OpenCL or CUDA, or nothing on the host."""
    wait = getattr(event, "wait", None) or getattr(event, "synchronize", None)
    if wait is not None:
        wait()


def in_units(seconds: float) -> str:
    """Return a time as text.

    >>> in_units(0.00125), in_units(3e-8)
    ('1.25 ms', '30 ns')
    """
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.4g} {unit}"
    return f"{seconds / 1e-9:.4g} ns"


def seconds_of(
    call: Callable[[], Any],
    *,
    at_least: float = 0.02,
    rounds: int = 5,
    choose: Callable[[list[float]], float] = statistics.median,
) -> float:
    """Return the time of one call: the median of some rounds (:func:`rounds_of`)."""
    return choose(rounds_of(call, at_least=at_least, rounds=rounds))


def rounds_of(call: Callable[[], Any], *, at_least: float = 0.02, rounds: int = 5) -> list[float]:
    """Return the time of one call, which returns its event first, in each of some rounds.

    A round has enough consecutive calls to take *at_least* that many seconds, so that the host
    prepares a call while the device runs another.
    """

    def run(number: int) -> float:
        start = time.perf_counter()
        for _ in range(number):
            event, _ = call()
        settle(event)
        return time.perf_counter() - start

    run(1)
    number = 1
    while (taken := run(number)) < at_least and number < 1 << 16:
        number = max(2 * number, min(1 << 16, int(number * at_least / max(taken, 1e-9))))
    return [run(number) / number for _ in range(rounds)]
