"""Heuristic search: the most promising configurations first, by bounds or by their work-groups."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from typing import Any

from kgen.tuning.space import SearchSpace
from kgen.tuning.strategies.base import Strategy

__all__ = ["Heuristic"]

#: Names of parameters that are sizes of work-groups begin so.
_GROUPS = ("block_size", "block_", "local_size", "work_group", "wg")
_WARP = 32


class Heuristic(Strategy):
    """Proposes the rows with the smallest lower bounds first, omitting those that cannot be best.

    :func:`kgen.tune` provides what it knows of each kernel: the lower bound of the roofline,
    and a priority that includes occupancy. Without a kernel, as in
    replays, rows come first whose work-groups (parameters ``block_size_x``, ...) have 128 to 512
    work-items and fill warps. In a large space, the best of some random rows is next.

    >>> from kgen.tuning import SearchSpace
    >>> space = SearchSpace({"block_size_x": [1, 8, 100, 256]})
    >>> strategy = Heuristic(space)
    >>> [space[row]["block_size_x"] for row in iter(strategy.ask, None)]
    [256, 100, 8, 1]
    >>> strategy = Heuristic(space, bounds=lambda row: [4.0, 2.0, 3.0, 5.0][row])
    >>> strategy.ask(), strategy.tell(1, 2.5), strategy.ask()
    (1, None, None)

    :arg priority: a number for each row, smaller for better rows; by default its bound
    :arg compared: the number of random rows that are compared before one is chosen
    """

    def __init__(
        self,
        space: SearchSpace,
        seed: int = 0,
        *,
        priority: Callable[[int], float] | None = None,
        compared: int = 1024,
        **options: Any,
    ) -> None:
        super().__init__(space, seed, **options)
        self.priority = priority or self.bounds or self._work_group_priority
        self._left_rows = self.rng.permutation(len(space)).tolist()
        self.compared = compared
        self._compared: list[tuple[float, int, int]] = []

    def propose(self) -> int:
        while self._left_rows and len(self._compared) < self.compared:
            row = self._left_rows.pop()
            heapq.heappush(self._compared, (self.priority(row), len(self._left_rows), row))
        return heapq.heappop(self._compared)[-1]

    def _work_group_priority(self, row: int) -> float:
        sizes = [
            value
            for name, value in self.space[row].items()
            if name.lower().startswith(_GROUPS) and isinstance(value, int) and value > 0
        ]
        if not sizes:
            return 0.0
        items = math.prod(sizes)
        warps = math.ceil(items / _WARP)
        too_small, too_large = math.log2(128 / items), math.log2(items / 512)
        return max(0.0, too_small, too_large) + math.log2(warps * _WARP / items)
