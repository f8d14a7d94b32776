"""The order of a search, with an engine that answers as the test says."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from threading import Timer
from typing import Any

import kgen as lp
from kgen.tuning.compiling import Compiled
from kgen.tuning.devices import DeviceInfo
from kgen.tuning.display import Display
from kgen.tuning.measure import Measurement
from kgen.tuning.records import Records
from kgen.tuning.search import Search
from kgen.tuning.space import SearchSpace
from kgen.tuning.stop import Stop
from kgen.tuning.strategies import make_strategy
from kgen.tuning.task import Problem, Task
from tests.tuning.kernels import by_block, twice

HOST = DeviceInfo(api="c", kind="cpu", vendor="", name="host", driver="")


class SlowCompiler:
    """An engine that compiles one block only after another one was measured."""

    makers, measurers, most, is_local = 2, 1, 2, False

    def __init__(self, slow: int) -> None:
        self.slow = slow
        self.waiting: Future[Any] = Future()

    def submit(self, step: str, *args: Any) -> Future[Any]:
        if step == "compile":
            return self._compile(args[1])
        found: Future[Any] = Future()
        if step == "measure":
            found.set_result((Measurement(samples=(1.0,) * 5, is_probe=False), HOST))
            if not self.waiting.done():
                made = compiled({"block": self.slow})
                Timer(0.2, lambda: self.waiting.set_result(made)).start()
        else:
            found.set_result(([(1.0,) * 5 for _ in args[1]], HOST))
        return found

    def _compile(self, configuration: Mapping[str, Any]) -> Future[Any]:
        if configuration["block"] == self.slow:
            return self.waiting
        found: Future[Any] = Future()
        found.set_result(compiled(configuration))
        return found

    def close(self) -> None: ...


def compiled(configuration: Mapping[str, Any]) -> Compiled:
    unit = by_block(**configuration)
    return Compiled(kernel=unit, code=repr(configuration), proof="unknown", seconds=0.0)


def test_what_runs_without_a_tune_is_measured_even_after_the_time_limit() -> None:
    space = SearchSpace({"block": [8, 16, 32, 64]})
    task = Task(build=by_block, problem=Problem(), written=twice(), opening=lp.ExecutableCTarget())
    strategy = make_strategy("random", space, start=[3])
    with Display("", 4, is_wanted=False) as display:
        search = Search(
            task, strategy, Stop(seconds=1e-9), SlowCompiler(64), Records(None), HOST, display
        )
        search.run()
    measured = [one.configuration["block"] for one in search.result().measured]
    assert len(measured) == 2
    assert measured[1] == 64
