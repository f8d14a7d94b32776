"""Times of calls: the number of samples, and their statistics."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

__all__ = [
    "PROBES",
    "SLOWER",
    "calls_in_batch",
    "full_samples",
    "median_interval",
    "ratio_interval",
]

#: The number of samples in the first measurement of a kernel.
PROBES = 3
#: A kernel whose fastest probe is slower than the best by this factor is not measured further.
SLOWER = 1.5
#: Calls shorter than this are timed in batches of this length, in seconds.
_SHORT_S, _BATCH_S = 2e-4, 4e-4
_LEAST, _MOST, _ENOUGH_S, _TOO_LONG_S = 7, 100, 0.05, 2.0
_RESAMPLES = 1000


def calls_in_batch(seconds: float) -> int:
    """Return the number of calls in a batch, given the seconds of one.

    >>> calls_in_batch(1e-3), calls_in_batch(2e-6)
    (1, 200)
    """
    return 1 if seconds >= _SHORT_S else round(_BATCH_S / max(seconds, 1e-8))


def full_samples(sample: Callable[[], float], first: Sequence[float]) -> list[float]:
    """Return samples until there are enough: some for a slow kernel, and many for a fast one."""
    samples = list(first)
    while len(samples) < _MOST:
        total = sum(samples)
        if (len(samples) >= _LEAST and total >= _ENOUGH_S) or total >= _TOO_LONG_S:
            break
        samples.append(sample())
    return samples


def median_interval(samples: Sequence[float]) -> tuple[float, float]:
    """Return the 95 % confidence interval of a median, by the bootstrap (Efron, 1979).

    >>> median_interval([1.0, 1.0, 1.0])
    (1.0, 1.0)
    """
    values = np.asarray(samples)
    chosen = np.random.default_rng(0).integers(0, len(values), (_RESAMPLES, len(values)))
    low, high = np.quantile(np.median(values[chosen], axis=1), (0.025, 0.975))
    return float(low), float(high)


def ratio_interval(one: Sequence[float], other: Sequence[float]) -> tuple[float, float]:
    """Return the interval of the ratio of two times that were sampled in turn.

    >>> ratio_interval([2.0, 4.0, 2.0], [1.0, 2.0, 1.0])
    (2.0, 2.0)
    """
    return median_interval([a / b for a, b in zip(one, other, strict=True)])
