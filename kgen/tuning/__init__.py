"""Search for the fastest configuration of a kernel."""

from kgen.tuning.files import read_recording, write_recording
from kgen.tuning.recording import Evaluation, Recording
from kgen.tuning.replay import Replay, replay
from kgen.tuning.space import SearchSpace
from kgen.tuning.stop import Progress, Stop
from kgen.tuning.strategies import STRATEGIES, Strategy, make_strategy

__all__ = [
    "STRATEGIES",
    "Evaluation",
    "Progress",
    "Recording",
    "Replay",
    "SearchSpace",
    "Stop",
    "Strategy",
    "make_strategy",
    "read_recording",
    "replay",
    "write_recording",
]
