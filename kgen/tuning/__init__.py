"""Search for the fastest configuration of a kernel."""

from kgen.tuning.space import SearchSpace
from kgen.tuning.stop import Stop
from kgen.tuning.strategies import STRATEGIES, Strategy, make_strategy

__all__ = ["STRATEGIES", "SearchSpace", "Stop", "Strategy", "make_strategy"]
