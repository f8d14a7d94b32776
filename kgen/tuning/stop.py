"""When a search ends: after evaluations, seconds, stagnation, or near the roofline."""

from __future__ import annotations

from dataclasses import dataclass

from kgen.errors import KgenError

__all__ = ["Progress", "Stop"]


@dataclass(kw_only=True)
class Progress:
    """The progress of a search.

    >>> progress = Progress()
    >>> for time in (3.0, None, 2.0, 2.5):
    ...     progress.add(time)
    >>> progress.evaluations, progress.best_s, progress.since_best
    (4, 2.0, 1)
    """

    #: Configurations that were measured or failed.
    evaluations: int = 0
    #: Seconds since the search began.
    elapsed_s: float = 0.0
    #: The least time of a configuration, in seconds.
    best_s: float = float("inf")
    #: Evaluations after that of the best configuration.
    since_best: int = 0

    def add(self, seconds: float | None) -> None:
        """Count an evaluation: the time of a configuration, ``None`` if it failed."""
        self.evaluations += 1
        self.since_best += 1
        if seconds is not None and seconds < self.best_s:
            self.best_s, self.since_best = seconds, 0


@dataclass(frozen=True, kw_only=True)
class Stop:
    """When a search ends: as soon as one of the given limits is reached.

    >>> stop = Stop(evaluations=100, stagnation=20)
    >>> stop.reason(Progress(evaluations=60, since_best=3)) is None
    True
    >>> stop.reason(Progress(evaluations=60, since_best=20))
    'no better configuration in 20 evaluations'

    :arg evaluations: configurations that are measured, or fail
    :arg seconds: the time of the whole search
    :arg stagnation: evaluations in a row without a better configuration
    :arg gap: how much slower than *roofline_s* the best may be: 0.1 is 10 %
    :arg roofline_s: a lower bound of the kernel's seconds, by the roofline
    :raises KgenError: a limit is not positive, or a count is no integer
    """

    evaluations: int | None = None
    seconds: float | None = None
    stagnation: int | None = None
    gap: float | None = None
    roofline_s: float | None = None

    def __post_init__(self) -> None:
        for name in ("evaluations", "seconds", "stagnation", "gap", "roofline_s"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise KgenError(
                    f"a search cannot stop at {name}={value!r}", hint="pass a number above 0"
                )
            if name in ("evaluations", "stagnation") and value is not None and value % 1:
                raise KgenError(f"a search cannot stop at {name}={value!r}", hint="pass an integer")

    def reason(self, progress: Progress) -> str | None:
        """Return the reason to end the search, or ``None`` to continue."""
        if self.evaluations is not None and progress.evaluations >= self.evaluations:
            return f"{self.evaluations} evaluations"
        if self.seconds is not None and progress.elapsed_s >= self.seconds:
            return f"{self.seconds:g} seconds"
        if self.stagnation is not None and progress.since_best >= self.stagnation:
            return f"no better configuration in {self.stagnation} evaluations"
        if self.gap is None or self.roofline_s is None:
            return None
        is_near = progress.best_s <= (1 + self.gap) * self.roofline_s
        return f"within {self.gap:.0%} of the roofline" if is_near else None
