"""One search: proposing, building and measuring configurations, several at once."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from kgen.errors import KgenError
from kgen.performance.model import Work
from kgen.performance.timing import in_units
from kgen.runtime.cache import content_key
from kgen.tuning.compiling import Compiled, ConfigurationError
from kgen.tuning.devices import DeviceInfo
from kgen.tuning.display import Display
from kgen.tuning.engines import Engine, awaited
from kgen.tuning.records import Record, Records
from kgen.tuning.result import Best, SearchResult
from kgen.tuning.sampling import SLOWER, median_interval, ratio_interval
from kgen.tuning.stop import Progress, Stop
from kgen.tuning.strategies import Strategy
from kgen.tuning.task import Task

__all__ = ["Search", "roofline_of"]

#: The final comparison in turn: the maximum number of kernels, the rounds, the largest ratio.
_FINALISTS, _ROUNDS, _NEAR = 5, 11, 1.1
_COMPARISONS = 3
#: If devices differ, the maximum number of repetitions until the first device measures it.
_ELSEWHERE = 4
#: The seconds that another tune may take to write a result, and between looks at the file.
_WRITING_S, _POLL_S = 1.0, 0.01


class _KnownError(Exception):
    """Another tune has measured a configuration that was about to run."""


@dataclass(eq=False)
class _Trial:
    """A configuration in progress."""

    row: int
    configuration: Mapping[str, Any]
    attempt: str
    compiled: Compiled | None = None
    #: whether a worker died while it ran this or something else
    is_suspect: bool = False
    #: how often it was measured on another device than the first one
    elsewhere: int = 0


def roofline_of(work: Work) -> float:
    """Return the minimum seconds of any kernel that does the given work.

    That is the time to read and write each array once, or the time of its arithmetic.
    """
    return max(work.times_s["memory"], work.times_s["arithmetic"])


class Search:
    """The search for the fastest configuration of one problem."""

    def __init__(
        self,
        task: Task,
        strategy: Strategy,
        stop: Stop,
        engine: Engine,
        records: Records,
        info: DeviceInfo,
        display: Display,
        work: Work | None = None,
    ) -> None:
        self.task, self.content = task, task.dumps()
        self.strategy, self.space, self.stop = strategy, strategy.space, stop
        self.engine, self.records, self.info, self.display = engine, records, info, display
        self.work = work
        self.progress = Progress()
        self.begin = time.perf_counter()
        self.stopped: str | None = None
        #: the row that is made first
        self.first: int | None = None
        self.found: dict[int, Record] = {}
        self.compiled: dict[int, Compiled] = {}
        self.winner: Best | None = None
        self.notes: list[str] = []
        self.elsewhere: list[Record] = []
        self._making: dict[Future[Any], _Trial] = {}
        self._ready: list[_Trial] = []
        self._measuring: dict[Future[Any], _Trial] = {}
        self._suspects: list[_Trial] = []

    def run(self) -> None:
        """Search until a limit is reached or the space is exhausted; then compare the best ones.

        A Ctrl-C keeps the results so far.
        """
        try:
            self._search()
            self._compare()
        except KeyboardInterrupt:
            self.stopped = "interrupted"
            for trial in self._measuring.values():
                self.records.abandon(trial.attempt)
            raise
        finally:
            self.records.flush()

    def measure(self, configuration: Mapping[str, Any]) -> None:
        """Measure one more configuration, regardless of limits."""
        row = self.space.row(configuration)
        if row is None or row in self.found:
            return
        self._make(row)
        self._finish_all()

    def result(self) -> SearchResult:
        """Return the result so far."""
        return SearchResult(
            space=self.space,
            problem=self.task.problem,
            records=tuple(self.found.values()),
            stopped=self.stopped or "all configurations were tried",
            winner=self.winner or self._fastest(),
            kernels={repr(self.space[row]): c.kernel for row, c in self.compiled.items()},
            roofline_s=self.stop.roofline_s,
            limits=self.task.limits,
            work=self.work,
            elsewhere=tuple(self.elsewhere),
            notes=tuple(self.notes),
        )

    # -- the loop ---------------------------------------------------------------------------

    def _search(self) -> None:
        while True:
            self._fill()
            self._measure_ready()
            if not self._in_progress:
                return
            self._finish_some()
            self.progress.elapsed_s = time.perf_counter() - self.begin
            self.stopped = self.stopped or self.stop.reason(self.progress)
            if self.stopped is not None and self._best_s is not None:
                self._drop()

    def _drop(self) -> None:
        """Drop the configurations that are not measured yet, except the first one.

        That one runs without a tune, and the result must not be slower.
        """
        for future, trial in [*self._making.items()]:
            if trial.row != self.first:
                future.cancel()
                del self._making[future]
        self._ready = [trial for trial in self._ready if trial.row == self.first]
        self._suspects = [trial for trial in self._suspects if trial.row == self.first]

    def _finish_all(self) -> None:
        while self._in_progress:
            self._run_suspect()
            self._measure_ready()
            self._finish_some()

    def _finish_some(self) -> None:
        under_way = [*self._making, *self._measuring]
        done, _ = wait(under_way, timeout=0.2, return_when=FIRST_COMPLETED)
        for future in done:
            if future in self._making:
                self._take_compiled(self._making.pop(future), future)
            else:
                self._measured(self._measuring.pop(future), future)
        self.display.show(self.progress, self.stop)

    def _fill(self) -> None:
        """Ask for configurations, as many as there are processes that can make them."""
        self._run_suspect()
        if any(trial.is_suspect for trial in self._in_progress):
            return
        most = self.engine.most
        if self.stop.evaluations is not None:
            most = min(most, self.stop.evaluations - self.progress.evaluations)
        while self.stopped is None:
            if len(self._in_progress) >= most:
                return
            row = self.strategy.ask()
            if row is None:
                return
            self._make(row)

    @property
    def _in_progress(self) -> list[_Trial]:
        begun = (*self._making.values(), *self._ready, *self._measuring.values())
        return [*begun, *self._suspects]

    def _run_suspect(self) -> None:
        """Run one of the configurations that may have killed a worker, alone."""
        if self._suspects and len(self._suspects) == len(self._in_progress):
            self._begin(self._suspects.pop(0))

    def _make(self, row: int) -> None:
        self.first = row if self.first is None else self.first
        configuration = self.space[row]
        attempt = content_key(
            self.task.digest, repr(configuration), repr(sorted(self.info.identity.items()))
        )
        self._begin(_Trial(row, configuration, attempt))

    def _begin(self, trial: _Trial) -> None:
        future = self._submit("compile", self.content, trial.configuration)
        if future is not None:
            self._making[future] = trial

    def _submit(self, step: str, *args: Any) -> Future[Any] | None:
        """Start a step; end the search if the executor accepts no more work."""
        try:
            return self.engine.submit(step, *args)
        except RuntimeError as error:  # BrokenExecutor, or shut down
            self.stopped = f"the executor is broken: {error}"
            return None

    def _take_compiled(self, trial: _Trial, future: Future[Any]) -> None:
        try:
            trial.compiled = future.result()
        except Exception as error:
            self._fail(trial, error)
            return
        assert trial.compiled is not None
        self.compiled[trial.row] = trial.compiled
        self._ready.append(trial)

    def _measure_ready(self) -> None:
        while self._ready and len(self._measuring) < self.engine.measurers:
            trial = self._ready.pop(0)
            if self._is_known(trial):
                continue
            if not self.engine.is_local:
                self.records.start(trial.attempt, trial.configuration)
            at_once = [partial(self._start, trial)] if self.engine.is_local else []
            future = self._submit("measure", self.content, trial.compiled, self._best_s, *at_once)
            if future is not None:
                self._measuring[future] = trial

    def _start(self, trial: _Trial) -> None:
        """Record that a configuration runs now, unless another tune has just measured it.

        The device is locked here, so what another process started on it is finished, and the
        result is being written.
        """
        assert trial.compiled is not None
        deadline = time.perf_counter() + _WRITING_S
        self.records.refresh()
        while self.records.is_running(trial.attempt) and time.perf_counter() < deadline:
            time.sleep(_POLL_S)
            self.records.refresh()
        found = self.records.find(trial.compiled.code, self.info.identity, self.task.problem)
        if found is not None or self.records.has_crashed(trial.attempt):
            raise _KnownError
        self.records.start(trial.attempt, trial.configuration)

    @property
    def _best_s(self) -> float | None:
        best = self.progress.best_s
        return None if best == float("inf") else best

    def _is_known(self, trial: _Trial) -> bool:
        """Handle a configuration that needs no measurement: a record, a crash, a lower bound."""
        compiled = trial.compiled
        assert compiled is not None
        self.records.refresh()
        found = self.records.find(compiled.code, self.info.identity, self.task.problem)
        best, bound = self._best_s, compiled.bound
        if found is not None:
            known = replace(found, configuration=trial.configuration, is_best=False)
            self._take(trial, known, is_new=False)
        elif self.records.has_crashed(trial.attempt):
            text = "the program ended while this configuration ran, and it is not tried again"
            self._take(trial, self._record(trial, status="failed", cause="crash", message=text))
        elif best is not None and bound is not None and bound > SLOWER * best:
            self._take(trial, self._record(trial, status="skipped", cause="bound"))
        return trial.row in self.found

    def _measured(self, trial: _Trial, future: Future[Any]) -> None:
        try:
            measurement, info = future.result()
        except _KnownError:
            self._is_known(trial)
            return
        except Exception as error:
            self._fail(trial, error)
            return
        record = self._record(
            trial,
            device=info.identity,
            status="slow" if measurement.is_probe else "measured",
            samples=measurement.samples,
            time=statistics.median(measurement.samples),
            interval=median_interval(measurement.samples),
            sensors=measurement.sensors,
        )
        record = replace(record, metrics={**record.metrics, **measurement.metrics})
        if info.identity == self.info.identity:
            self._take(trial, record)
            return
        if trial.elsewhere == _ELSEWHERE:
            text = f"no worker with {self.info} was free for it"
            self._fail(trial, ConfigurationError("device", text))
            return
        self.records.add(record, trial.attempt)
        self.elsewhere.append(record)
        trial.elsewhere += 1
        self._ready.append(trial)

    def _take(self, trial: _Trial, record: Record, *, is_new: bool = True) -> None:
        """Store the result of a configuration, also on disk; tell the strategy."""
        self.found[trial.row] = record
        if is_new:
            self.records.add(record, trial.attempt)
        seconds = record.bound if record.status == "skipped" else record.time
        if trial.row not in self.strategy.told:
            self.strategy.tell(trial.row, seconds)
        if record.cause != "restriction":
            self.progress.add(record.time)

    def _fail(self, trial: _Trial, error: Exception) -> None:
        """Handle a failure; if a shared worker died, run the configuration again."""
        if not isinstance(error, ConfigurationError) and not trial.is_suspect:
            trial.is_suspect = True
            self._suspects.append(trial)
            return
        cause = error.cause if isinstance(error, ConfigurationError) else "crash"
        text = str(error) if isinstance(error, KgenError) else f"{type(error).__name__}: {error}"
        self._take(trial, self._record(trial, status="failed", cause=cause, message=text))

    def _record(self, trial: _Trial, **known: Any) -> Record:
        compiled = trial.compiled
        if compiled is not None:
            known = {
                "code": compiled.code,
                "proof": compiled.proof,
                "bound": compiled.bound,
                "compile_s": compiled.seconds,
                "metrics": compiled.metrics,
                **known,
            }
        written = self.task.written
        assert written is not None
        return Record(
            **{
                "kernel": written.default_entrypoint.name,
                "configuration": trial.configuration,
                "problem": self.task.problem,
                "device": self.info.identity,
                **known,
            }
        )

    # -- the best ones ----------------------------------------------------------------------

    def _order(self) -> list[int]:
        """Return the rows that were measured, the fastest first."""
        times = {row: r.time for row, r in self.found.items() if r.status == "measured" and r.time}
        return sorted((row for row in times if row in self.compiled), key=lambda row: times[row])

    def _fastest(self) -> Best | None:
        """Return the best configuration by its first measurement."""
        order = self._order()
        return self._best(order[0]) if order else None

    def _best(self, row: int, ties: tuple[Mapping[str, Any], ...] = ()) -> Best:
        record = self.found[row]
        assert record.time is not None
        assert record.interval is not None
        return Best(
            configuration=record.configuration,
            kernel=self.compiled[row].kernel,
            time=record.time,
            interval=record.interval,
            ties=ties,
        )

    def _compare(self) -> None:
        """Measure the best ones again, in turn, until all of the fastest were compared."""
        compared: set[int] = set()
        for _ in range(_COMPARISONS):
            rows = self._nearest()
            if compared.issuperset(rows) or not self._compare_in_turn(rows):
                return
            compared.update(rows)

    def _nearest(self) -> list[int]:
        """Return the rows that are as fast as the fastest one, or nearly as fast."""
        order = self._order()
        limit = _NEAR * (self.found[order[0]].time or 0.0) if order else 0.0
        return [row for row in order if (self.found[row].time or 0.0) <= limit][:_FINALISTS]

    def _compare_in_turn(self, rows: list[int]) -> bool:
        """Measure some rows again; tell whether that was possible."""
        kernels = [self.compiled[row] for row in rows]
        future = self._submit("compare", self.content, kernels, _ROUNDS)
        try:
            samples, info = ([], self.info) if future is None else awaited(future)
        except Exception as error:
            self.notes.append(f"the best configurations could not be measured again: {error}")
            return False
        taken = {row: times for row, times in zip(rows, samples, strict=False) if times}
        if not taken or info.identity != self.info.identity:
            return False
        self._decide(taken)
        return True

    def _decide(self, samples: Mapping[int, tuple[float, ...]]) -> None:
        for row, times in samples.items():
            self._note_discrepancy(row, times)
            self.found[row] = replace(
                self.found[row],
                samples=times,
                time=statistics.median(times),
                interval=median_interval(times),
            )
        best = min(samples, key=lambda row: statistics.median(samples[row]))
        ties = tuple(
            self.space[row]
            for row, times in samples.items()
            if row != best and ratio_interval(times, samples[best])[0] <= 1.0
        )
        self.found = {row: replace(one, is_best=row == best) for row, one in self.found.items()}
        self.records.add(self.found[best])
        self.winner = self._best(best, ties)

    def _note_discrepancy(self, row: int, times: tuple[float, ...]) -> None:
        """Record that the second measurement differs from the first, or exceeds the roofline."""
        before, after = self.found[row].time or 0.0, statistics.median(times)
        if not 1 / SLOWER < after / before < SLOWER:
            self.notes.append(
                f"{self.space[row]} took {in_units(before)} at first, and {in_units(after)} when "
                "it was measured again: other programs may have been running"
            )
        if self.stop.roofline_s is not None and after < 0.9 * self.stop.roofline_s:
            self.notes.append(
                f"{self.space[row]} takes {in_units(after)}, less than the roofline's "
                f"{in_units(self.stop.roofline_s)}: its limits are too low, or caches hold the "
                "arrays"
            )
