"""``kgen.tune``: the fastest configuration of a kernel, measured on its device."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from functools import partial
from typing import Any, Protocol, runtime_checkable

import numpy as np

from kgen.errors import KgenError, near_names
from kgen.ir.checked import checked
from kgen.ir.target import TargetBase
from kgen.ir.types import KgenType, read_type
from kgen.performance.device import Device
from kgen.runtime.system import require_posix
from kgen.targets.opencl import PyOpenCLTarget
from kgen.tuning.compiling import ConfigurationError
from kgen.tuning.devices import DeviceInfo
from kgen.tuning.display import Display
from kgen.tuning.engines import Engine, awaited, make_engine
from kgen.tuning.outlook import Outlooks
from kgen.tuning.records import Record, Records
from kgen.tuning.result import TuneResult
from kgen.tuning.search import Search, roofline_of
from kgen.tuning.space import SearchSpace
from kgen.tuning.stop import Stop
from kgen.tuning.strategies import Strategy, check_options, class_of, make_strategy
from kgen.tuning.strategies.heuristic import Heuristic
from kgen.tuning.strategies.orthogonal import Orthogonal
from kgen.tuning.task import (
    Builder,
    Problem,
    Task,
    Transformed,
    as_builder,
    load_task,
    named_in,
)

__all__ = ["HasSpace", "tune", "untuned_row"]

#: The maximum evaluations of a search without a limit.
_EVALUATIONS = 200
#: The number of attempts to find a first valid configuration; and the number of configurations with
#: which the next problem starts.
_FIRST, _STARTS = 16, 5
#: The number of random rows from which the strategy `heuristic` measures the best one.
_COMPARED = 32
#: The maximum seconds that a process waits, and the maximum workers.
_LARGEST = 10**9
_METRICS = ("time", "energy", "registers")


@checked
def tune(
    build: Any,
    tune_params: Mapping[str, Sequence[Any]] | SearchSpace | None = None,
    *,
    restrictions: Any = (),
    sizes: Any = None,
    types: Any = None,
    arguments: Mapping[str, Any] | Callable[..., Any] | None = None,
    reference: Callable[..., Any] | None = None,
    target: TargetBase | None = None,
    device: Any = None,
    strategy: Any = "auto",
    strategy_options: Mapping[str, Any] | None = None,
    seed: int = 0,
    evaluations: int | None = None,
    seconds: float | None = None,
    stagnation: int | None = None,
    gap: float | None = None,
    roofline: Any = None,
    records: Any = None,
    executor: Any = None,
    workers: int | None = None,
    timeout: float = 30.0,
    verify: bool = True,
    check: bool = True,
    tolerance: float | None = None,
    flush_caches: bool = False,
    metrics: Sequence[str] = ("time",),
    progress: bool = True,
) -> TuneResult:
    """Find the fastest configuration of a kernel, by measurement on its device.

    :arg build: ``build(**configuration)`` returns a transformed kernel, or a kernel and a function
        of it; or a pair ``(kernel, function)``, where ``function(kernel, **configuration)``
        returns one; or a result of :func:`kgen.auto_space`, which contains the whole space
    :arg tune_params: the list of values of each parameter; or a :class:`SearchSpace`
    :arg restrictions: expressions such as ``"block % tile == 0"``, or functions
    :arg sizes: numbers of a call, such as ``{"n": 1024}``; a list of dicts for several problems.
        Sizes that are parameters of *build* are passed to it, too
    :arg types: types of arguments that have none, such as ``{"a": "float32"}``; a list for several
    :arg arguments: arrays of a call, or a function from sizes to arrays; others are generated
    :arg reference: what results are compared with: a kernel, or a function from arguments to
        outputs; by default the kernel before its transformations, run once on the host
    :arg target: the target of all kernels, instead of their own
    :arg device: a number, a part of a name, or an OpenCL queue; a list to measure on several
    :arg strategy: a name, such as ``"random"``, or a :class:`kgen.tuning.Strategy`
    :arg strategy_options: for the strategy: ``{"groups": [["block_x", "block_y"], ["tile"]]}``
    :arg evaluations: the search ends after so many configurations
    :arg seconds: ... after so many seconds
    :arg stagnation: ... after so many configurations without improvement
    :arg gap: ... when the best time is close to the roofline: 0.1 is within 10 %
    :arg roofline: the limits of the device, a :class:`kgen.Device`; ``True`` measures them, as is
        the default for GPUs. Configurations that cannot be as fast as the best are skipped
    :arg records: a file that records are appended to, and read from, to continue a killed tune
    :arg executor: where it runs: any :class:`concurrent.futures.Executor`, for *workers* at once
    :arg timeout: seconds of one configuration, measured and verified
    :arg verify: prove what can be proved, before compilation
    :arg check: compare results with those of the reference
    :arg tolerance: of real numbers, relative to the largest one
    :arg flush_caches: write other memory before each sample
    :arg metrics: of ``"time"``, ``"energy"``, ``"registers"``: for ``result.pareto()``
    :arg progress: show a progress bar in a terminal

    The search first measures the configuration that would run without tuning: the start of
    :func:`kgen.auto_space`, the defaults of *build*, or else the first one of the space. The result
    is never slower than that.

    Every kernel is built in one process, then verified, timed and measured alone on its device
    in another process, so that one that crashes or never ends costs only one configuration. Ctrl-C
    ends the tune, which returns the results so far.

    >>> import kgen as lp
    >>> knl = lp.make_kernel(
    ...     "{ [i]: 0<=i<n }", "out[i] = 2*i", target=lp.ExecutableCTarget(), assumptions="n>=1")
    >>> def build(block):
    ...     return lp.split_iname(knl, "i", block)
    >>> result = tune(build, {"block": [4, 64]}, restrictions=["block > 8"], sizes={"n": 1000})
    >>> result.best.configuration
    {'block': 64}

    Raises :class:`KgenError` for invalid arguments, and if no kernel can be built.
    """
    require_posix("tune")
    space = _space(build, tune_params, restrictions)
    stop = Stop(evaluations=evaluations, seconds=seconds, stagnation=stagnation, gap=gap)
    if stop == Stop():
        stop = Stop(evaluations=min(len(space), _EVALUATIONS))
    problems = list(_problems(sizes, types))
    _check_metrics(metrics)
    options = dict(strategy_options or {})
    check_options(strategy, options)
    _check_running(executor, workers, timeout, tolerance)
    builder = as_builder(build.build if isinstance(build, HasSpace) else build)
    for problem in problems:
        _check_call(builder, space.names, problem)
    first = Task(
        build=builder,
        problem=problems[0],
        arguments=arguments,
        reference=reference,
        target=target,
        is_verified=verify,
        is_checked=check,
        tolerance=tolerance,
        flushes_caches=flush_caches,
        metrics=tuple(metrics),
    )
    engine = make_engine(executor, _devices(device), workers, timeout)
    chosen = partial(make_strategy, strategy, seed=seed, **options)
    run = _Tune(first, space, untuned_row(build, space), engine, Records(records), stop)
    try:
        return run.result(problems, chosen, roofline, is_shown=progress)
    finally:
        engine.close()


@runtime_checkable
class HasSpace(Protocol):
    """An object with a builder and its parameters, such as a result of :func:`kgen.auto_space`."""

    @property
    def tune_params(self) -> Mapping[str, Sequence[Any]]:
        """For each parameter the list of its values."""

    @property
    def restrictions(self) -> Sequence[Any]:
        """The restrictions, which configurations must satisfy."""

    def build(self, **configuration: Any) -> Any:
        """Return the kernel of a configuration."""


class _Tune:
    """The searches of one tune, one for each problem."""

    def __init__(
        self,
        first: Task,
        space: SearchSpace,
        untuned: int,
        engine: Engine,
        records: Records,
        stop: Stop,
    ) -> None:
        self.first, self.space, self.untuned, self.engine = first, space, untuned, engine
        self.records, self.stop = records, stop
        self.searches: list[Search] = []

    def result(
        self,
        problems: Sequence[Problem],
        strategy: partial[Strategy],
        roofline: Any,
        *,
        is_shown: bool,
    ) -> TuneResult:
        """Search for each problem; measure the best of each for the others."""
        is_interrupted = False
        try:
            for problem in problems:
                self._search(problem, strategy, roofline, is_shown=is_shown)
            self._cross()
        except KeyboardInterrupt:
            is_interrupted = True
            if not self.searches:
                raise
        return TuneResult(
            searches=tuple(search.result() for search in self.searches),
            device=str(self.searches[0].info),
            is_interrupted=is_interrupted,
        )

    def _search(
        self, problem: Problem, strategy: partial[Strategy], roofline: Any, *, is_shown: bool
    ) -> None:
        content = replace(self.first, problem=problem).dumps()
        first = dict.fromkeys([self.untuned, *range(min(_FIRST, len(self.space)))])
        begin = [self.space[row] for row in first]
        content, info = self._step("prepare", content, begin)
        limits, work = self._step("limits", content, _wanted(roofline, self.stop, info))
        task = replace(load_task(content), limits=limits)
        stop = replace(self.stop, roofline_s=None if work is None else roofline_of(work))
        total = stop.evaluations or len(self.space)
        with Display(f"tuning {problem}".strip(), total, is_wanted=is_shown) as display:
            search = Search(
                task,
                self._strategy(strategy, task, info),
                stop,
                self.engine,
                self.records,
                info,
                display,
                work,
            )
            self.searches.append(search)
            search.run()

    def _step(self, step: str, *args: Any) -> Any:
        """Run a step that belongs to no configuration; its failure ends the tune."""
        try:
            return awaited(self.engine.submit(step, *args))
        except ConfigurationError as error:
            raise KgenError(
                "no kernel can be built and run",
                because=f"{error.cause}: {error}",
                hint="check sizes=, arguments= and reference="
                if error.cause == "reference"
                else "call build(**configuration) with the first configurations of the space to "
                "see why; pass a faster function than the kernel as written as reference=",
            ) from None
        except RuntimeError as error:  # it is shut down, or broken
            raise KgenError(
                "the executor does not run the first step of the tune",
                because=f"{type(error).__name__}: {error}",
                hint="pass an executor that is not shut down, and whose workers start",
            ) from None

    def _strategy(self, make: partial[Strategy], task: Task, info: DeviceInfo) -> Strategy:
        (strategy,) = make.args
        if isinstance(strategy, Strategy):
            if self.searches:
                raise KgenError(
                    "a strategy object can search for one problem only",
                    hint="pass its class, or its name",
                )
            return strategy
        outlooks = Outlooks(task, self.space, self.untuned)
        known = _known_options(class_of(strategy), outlooks)
        return make(self.space, **{"start": self._start(task, info), **known, **make.keywords})

    def _start(self, task: Task, info: DeviceInfo) -> list[int]:
        """Return the row without a tune, and the best ones of other problems and devices."""
        assert task.written is not None
        name = task.written.default_entrypoint.name
        best: dict[str, Record] = {}
        for record in self.records.all():
            place = repr((sorted(record.device.items()), record.problem))
            is_same = record.problem == task.problem and record.device == info.identity
            if record.kernel == name and record.time is not None and not is_same:
                known = best.setdefault(place, record)
                best[place] = min(known, record, key=lambda one: one.time or 0.0)
        rows = [_row_of(self.space, record.configuration) for record in best.values()]
        winners = dict.fromkeys(row for row in rows if row is not None)
        return [self.untuned, *list(winners)[:_STARTS]]

    def _cross(self) -> None:
        """Measure the best configuration of each problem for all others."""
        winners = [search.winner for search in self.searches if search.winner is not None]
        for search in self.searches[: len(self.searches) if len(winners) > 1 else 0]:
            for winner in winners:
                search.measure(winner.configuration)


def _row_of(space: SearchSpace, configuration: Mapping[str, Any]) -> int | None:
    """Return the row of a configuration; ``None`` if it is not in the space."""
    try:
        return space.row(configuration)
    except KgenError:
        return None


def untuned_row(build: Any, space: SearchSpace) -> int:
    """Return the row of the configuration that runs without a tune, or else the first one.

    >>> untuned_row(lambda block=32: None, SearchSpace({"block": [16, 32]}))
    1
    """
    if isinstance(build, HasSpace):
        start = getattr(build, "start", {})
    else:
        builder = as_builder(build)
        function = builder.function if isinstance(builder, Transformed) else builder
        start = {
            name: parameter.default
            for name, parameter in inspect.signature(function).parameters.items()
            if name in space.names and parameter.default is not parameter.empty
        }
    return _row_of(space, start) or 0


def _known_options(strategy: type[Strategy], outlooks: Outlooks) -> dict[str, Any]:
    """Return the options of a strategy that follow from the kernels of configurations."""
    if issubclass(strategy, Heuristic):
        return {
            "bounds": outlooks.bound,
            "priority": outlooks.priority,
            "compared": _COMPARED,
        }
    return {"groups": outlooks.groups()} if issubclass(strategy, Orthogonal) else {}


def _wanted(roofline: Any, stop: Stop, info: DeviceInfo) -> Device | bool:
    """Return the limits that are given, or whether they are measured."""
    if roofline is None:
        return info.kind == "gpu" or stop.gap is not None
    if not isinstance(roofline, Device | bool):
        raise KgenError(f"roofline= is a Device, True or False, not {roofline!r}")
    return roofline


def _space(
    build: Any, tune_params: Mapping[str, Sequence[Any]] | SearchSpace | None, restrictions: Any
) -> SearchSpace:
    if isinstance(build, HasSpace) and not isinstance(tune_params, SearchSpace):
        is_one = isinstance(restrictions, str) or callable(restrictions)
        listed = [restrictions] if is_one else list(restrictions or ())
        return SearchSpace(tune_params or build.tune_params, [*build.restrictions, *listed])
    if tune_params is None:
        raise KgenError(
            "there are no parameters to tune",
            hint="tune(build, {'block': [16, 32]}), or tune(auto_space(kernel))",
        )
    if not isinstance(tune_params, SearchSpace):
        return SearchSpace(tune_params, restrictions)
    if restrictions:
        raise KgenError(
            "a SearchSpace has its restrictions already",
            hint="SearchSpace(tune_params, restrictions)",
        )
    return tune_params


def _problems(sizes: Any, types: Any) -> Iterator[Problem]:
    """Yield all pairs of sizes and types."""
    for numbers in _listed(sizes, "sizes", {"n": 1024}):
        for dtypes in _listed(types, "types", {"a": "float32"}):
            names = {name: _type_name(name, dtype) for name, dtype in dtypes.items()}
            yield Problem({n: _number(n, v) for n, v in numbers.items()}, names)


def _number(name: str, value: Any) -> Any:
    """Return a number of a call as Python's, or reject what is none."""
    found = plain_number(value)
    if not isinstance(found, int | float | complex):
        hint = "several problems are a list of dicts: sizes=[{'n': 1024}, {'n': 4096}]"
        raise KgenError(f"sizes['{name}'] is {value!r}, not a number", hint=hint)
    return found


def _type_name(name: str, given: Any) -> str:
    """Return the name of the type of an argument, or reject other values."""
    dtype = read_type(given, f"types['{name}']")
    if not isinstance(dtype, KgenType):
        raise KgenError(f"types['{name}'] is {given!r}, not a type", hint="'float32', numpy.int64")
    return str(dtype.numpy_dtype.name)


def plain_number(value: Any) -> Any:
    """Return a numpy number as a Python number."""
    return value.item() if isinstance(value, np.generic) else value


def _listed(given: Any, name: str, example: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    is_list = isinstance(given, Iterable) and not isinstance(given, Mapping)
    found = list(given) if is_list else [{} if given is None else given]
    for one in found:
        if not isinstance(one, Mapping):
            raise KgenError(
                f"{name}= is a dict, or a list of them, and has {one!r}", hint=f"{name}=[{example}]"
            )
    if not found:
        raise KgenError(f"{name}= is an empty list", hint=f"{name}=[{example}]")
    return found


def _check_metrics(metrics: Sequence[str]) -> None:
    if isinstance(metrics, str):
        raise KgenError(f"metrics= is a list of names, not {metrics!r}", hint=f"[{metrics!r}]")
    for name in metrics:
        if name not in _METRICS:
            raise KgenError(f"there is no metric '{name}'", hint=near_names(name, _METRICS))


def _check_call(builder: Builder, names: Sequence[str], problem: Problem) -> None:
    """Reject parameters that *builder* does not take, and those that it lacks."""
    for name in names:
        if name in problem.sizes or name in problem.types:
            raise KgenError(
                f"'{name}' is in tune_params, and in sizes= or types=",
                hint="a parameter to tune has other names than what a call is given",
            )
    function: Callable[..., Any] = builder
    leading: list[Any] = []
    if isinstance(builder, Transformed):
        function, leading = builder.function, [builder.kernel]
    given = {**named_in(function, {**problem.types, **problem.sizes}), **dict.fromkeys(names)}
    try:
        inspect.signature(function).bind(*leading, **given)
    except TypeError as error:
        raise KgenError(
            f"build cannot be called with the parameters {', '.join(map(repr, names))}",
            because=str(error),
            hint="tune_params has a list of values for each parameter of build, by its name",
        ) from None


def _check_running(
    executor: Any, workers: int | None, timeout: float, tolerance: float | None
) -> None:
    """Reject invalid executors, and numbers that are out of range."""
    if tolerance is not None and not tolerance >= 0:
        raise KgenError(f"tolerance= is a number of at least 0, not {tolerance!r}")
    if not isinstance(executor, Executor | None):
        raise KgenError(
            f"executor= is a concurrent.futures.Executor, not {executor!r}",
            hint="ProcessPoolExecutor(2), client.get_executor() of dask, MPIPoolExecutor()",
        )
    for name, number in (("workers", workers), ("timeout", timeout)):
        if number is not None and not 0 < number <= _LARGEST:
            raise KgenError(f"{name}= is a positive number of at most {_LARGEST}, not {number!r}")


def _devices(device: Any) -> list[str | None]:
    """Return the devices to measure on, by number or name; those of queues by number."""
    given = device if isinstance(device, list | tuple) else [device]
    if not given:
        raise KgenError("device= is an empty list", hint="leave it out for the first device")
    return [None if one is None else _device_name(one) for one in given]


def _device_name(device: Any) -> str:
    if isinstance(device, str | int):
        return str(device)
    try:
        return str(PyOpenCLTarget().load_runtime().number_of(device))
    except (KgenError, AttributeError, ValueError):
        raise KgenError(
            f"device= is {device!r}, which is not a device",
            hint="pass its number, a part of its name or its driver's, or a queue of OpenCL",
        ) from None
