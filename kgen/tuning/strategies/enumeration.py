"""Strategies that do not learn: all configurations in order, or at random."""

from __future__ import annotations

from kgen.tuning.strategies.base import Strategy

__all__ = ["Exhaustive", "Random"]


class Exhaustive(Strategy):
    """Proposes all rows in order.

    >>> from kgen.tuning import SearchSpace
    >>> strategy = Exhaustive(SearchSpace({"block": [16, 32]}))
    >>> strategy.ask(), strategy.ask(), strategy.ask(), strategy.is_done
    (0, 1, None, True)
    """

    _next = 0

    def propose(self) -> int:
        self._next += 1
        return self._next - 1


class Random(Strategy):
    """Proposes rows at random.

    >>> from kgen.tuning import SearchSpace
    >>> strategy = Random(SearchSpace({"block": [16, 32]}), seed=3)
    >>> sorted([strategy.ask(), strategy.ask()]), strategy.ask()
    ([0, 1], None)
    """

    def propose(self) -> int:
        return self.random_unseen()
