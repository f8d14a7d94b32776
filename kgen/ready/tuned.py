"""Tuned schedules of ready kernels: a tune for the arrays of a call, and its wisdom."""

from __future__ import annotations

import contextlib
import copy
import functools
import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kgen.errors import InvocationError
from kgen.ir.unit import TranslationUnit
from kgen.ready.again import Again
from kgen.ready.places import Place, live_stream
from kgen.ready.snippet import Signature
from kgen.runtime.cache import content_key
from kgen.tuning.devices import device_info
from kgen.tuning.result import TuneResult
from kgen.tuning.tune import tune
from kgen.tuning.wisdom import Wisdom, load_wisdom, sizes_of_call

__all__ = ["Tunable", "defaults_of", "device_of"]

#: Values to try are the default multiplied by these powers of two.
_POWERS = range(-3, 4)
#: The smallest and the largest work-groups.
_GROUP_SIZES = (32, 1024)
#: Options of calls; all others are those of a tune.
_OF_CALLS = frozenset(
    {"range", "slice", "axis", "queue", "size", "out", "output_ary", "stream", "key_bits"}
)


def defaults_of(schedule: Callable[..., Any], *names: str) -> dict[str, int]:
    """Return the defaults of some parameters of a schedule.

    >>> def in_chunks(knl, *, chunk=64, rows=2): ...
    >>> defaults_of(in_chunks, "chunk")
    {'chunk': 64}
    """
    known = inspect.signature(schedule).parameters
    return {name: known[name].default for name in names}


class _FoundCall(Exception):
    """A call that is inspected instead of made."""


@dataclass(eq=False)
class Schedules:
    """The schedules of a ready kernel for similar calls, as :func:`kgen.tune` takes them.

    :arg options: of the method that builds the kernel; a configuration is its schedule
    """

    kernel: Tunable
    method: str
    place: Place
    options: Mapping[str, Any]
    start: Mapping[str, int]
    restrictions: Sequence[str] = ()
    general: TranslationUnit = field(init=False)

    def __post_init__(self) -> None:
        kernel = copy.copy(self.kernel)
        described = repr((self.method, sorted(self.options.items(), key=repr)))
        kernel.name += "_" + content_key(kernel.identity, described)[:8]
        self.kernel = kernel
        self.general = self.build(**self.start)

    @property
    def name(self) -> str:
        """The name of the kernel in records, which depends on the operation and layout."""
        return self.kernel.name

    @property
    def tune_params(self) -> dict[str, list[int]]:
        """The values of each parameter."""
        return {name: _values(name, value) for name, value in self.start.items()}

    def build(self, **configuration: int) -> TranslationUnit:
        """Return the kernel with the schedule of a configuration."""
        make = getattr(self.kernel, self.method)
        found: TranslationUnit = make(
            self.place.target,
            is_gpu=self.place.is_gpu,
            **{**self.options, **configuration},
        )
        return found

    def __getstate__(self) -> dict[str, Any]:
        # Other processes have queues and contexts of their own.
        return {**self.__dict__, "place": Place(self.place.target, (), self.place.is_gpu)}


def _values(name: str, default: int) -> list[int]:
    """Return the values of a parameter to try, around the default.

    >>> _values("group_size", 256), _values("rows", 4)
    ([32, 64, 128, 256, 512, 1024], [1, 2, 4, 8, 16, 32])
    """
    low, high = _GROUP_SIZES if name == "group_size" else (1, default << max(_POWERS))
    around = {int(default * 2.0**power) for power in _POWERS}
    return sorted(value for value in around if low <= value <= high)


class Tunable:
    """The common base of ready kernels that choose their schedule by measurement.

    ``wisdom`` has the records of tunes; ``identity`` identifies the operation.
    """

    name: str
    schedule: dict[str, Any]
    wisdom: Wisdom
    identity: str
    _shortcut: Any
    signature: Signature
    _again: Again
    _executors: dict[Any, Any]
    _schedules: dict[Any, Schedules]
    _found_call: Callable[..., None] | None

    def _begin(self, wisdom: Wisdom | str | os.PathLike[str] | None, *operation: object) -> None:
        """Start without code; *operation* identifies what a kernel computes."""
        if isinstance(wisdom, str | os.PathLike):
            wisdom = load_wisdom(wisdom)
        self.wisdom = Wisdom(()) if wisdom is None else wisdom
        self.identity = repr((type(self).__name__, self.name, *operation))
        self._forget()

    def _forget(self) -> None:
        self._shortcut, self._found_call = None, None
        self._executors, self._schedules = {}, {}
        self._again = Again(self.signature.arguments)

    def __getstate__(self) -> dict[str, Any]:
        state = {**self.__dict__, "context": None, "_shortcut": None, "_found_call": None}
        again = Again(self.signature.arguments)
        return {**state, "_executors": {}, "_schedules": {}, "_again": again}

    def __call__(self, *args: Any, **options: Any) -> Any:
        """Run the kernel on arrays."""
        raise NotImplementedError

    def _like_before(self, args: tuple[Any, ...], options: Mapping[str, Any]) -> Any:
        """Make a call like an earlier one; return its event and results.

        ``None`` if there is no such call, or if there are *options* besides a ``stream`` of CUDA.
        """
        again, shortcut, stream = self._again, self._shortcut, None
        if options:
            if not again.is_used or options.keys() != {"stream"}:
                return None
            stream = live_stream(options["stream"])
            if stream is None:
                return None
        found = again(args, stream) if again.calls else None
        if found is not None:
            return None, found
        return None if shortcut is None else shortcut(args, stream)

    def _defaults(self, place: Place, options: Mapping[str, Any]) -> dict[str, int]:
        """Return the parameters of the schedule for some options, with their usual values."""
        raise NotImplementedError

    def _tuned_with(self, _place: Place, _options: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return options of tunes other than the usual ones, for options of the kernel."""
        return {}

    def tune(self, *args: Any, **options: Any) -> TuneResult:
        """Find the fastest schedule for the arrays of a call, and use it from then on.

        :arg args: the arguments of a call; arrays are copied, and stay as they are
        :arg options: of a call (``range``, ``slice``, ``axis``, ``queue``...), and of
            :func:`kgen.tune`: ``records="file.jsonl"``, ``evaluations=20``, ``seconds=10``...

        Later calls use the schedule that was best for the nearest size on their device. Records
        in a file are for other programs: ``wisdom="file.jsonl"``, when a kernel is made.

        Raises :class:`kgen.errors.KgenError` where the schedule has no parameters.
        """
        of_call = {name: options.pop(name) for name in _OF_CALLS & options.keys()}
        schedules, arguments = self._found(args, of_call)
        if not schedules.start:
            raise InvocationError(
                "so few elements have only one schedule: there is nothing to tune",
                kernel=self.name,
                hint="pass larger arrays",
            )
        numbers = sizes_of_call(schedules.general, arguments)
        numbers |= {name: value for name, value in arguments.items() if np.ndim(value) == 0}
        leading, to_host = schedules.place.leading, schedules.place.target.load_runtime().to_host
        result = tune(
            schedules,
            sizes={n: numbers[n] for n in _numbers_of(schedules.general) if n in numbers},
            arguments={
                name: to_host(value, *leading)
                for name, value in arguments.items()
                if np.ndim(value) > 0 or name not in numbers
            },
            **{
                "device": leading[0] if leading else None,
                **self._tuned_with(schedules.place, schedules.options),
                **options,
            },
        )
        self.wisdom = Wisdom((*self.wisdom.records, *result.records))
        self._forget()
        return result

    def _found(
        self, args: tuple[Any, ...], options: dict[str, Any]
    ) -> tuple[Schedules, dict[str, Any]]:
        """Return the program that a call would run, and the arguments of the kernel."""
        found: list[Any] = []
        other = copy.copy(self)
        other._found_call = lambda *call: found.extend(call)
        with contextlib.suppress(_FoundCall):
            other(*args, **options)
        place, method, layout, arguments = found
        return self._schedules_of(place, method, layout), arguments

    def _schedules_of(self, place: Place, method: str, options: Mapping[str, Any]) -> Schedules:
        key = (place, method, *options.items())
        if key not in self._schedules:
            start = {**self._defaults(place, options), **self.schedule}
            others = {name: value for name, value in options.items() if name not in start}
            self._schedules[key] = Schedules(self, method, place, others, start)
        return self._schedules[key]

    def _launch(
        self,
        place: Place,
        options: Mapping[str, Any],
        arguments: dict[str, Any],
        more: Mapping[str, Any],
        method: str = "build",
    ) -> Any:
        """Run the kernel that *method* builds with some options; return its event and outputs."""
        executor = self._tuned(place, method, options, arguments)
        return executor(*place.leading, **{**place.options, **arguments, **more})

    def _tuned(
        self,
        place: Place,
        method: str,
        options: Mapping[str, Any],
        arguments: dict[str, Any],
    ) -> Any:
        """Return the executor of a kernel with the schedule in wisdom for some arguments."""
        if self._found_call is not None:
            self._found_call(place, method, options, arguments)
            raise _FoundCall
        chosen = self._chosen(place, method, options, arguments)
        return self._executor(place, method, {**options, **chosen} if chosen else options)

    def _executor(self, place: Place, method: str, options: Mapping[str, Any]) -> Any:
        key = (place, method, *options.items())
        executor = self._executors.get(key)
        if executor is None:
            make = getattr(self, method)
            unit = make(place.target, is_gpu=place.is_gpu, **options)
            executor = self._executors[key] = unit.executor(*place.leading)
        return executor

    def _chosen(
        self, place: Place, method: str, options: Mapping[str, Any], arguments: dict[str, Any]
    ) -> Mapping[str, Any]:
        """Return the schedule for a call from wisdom, if there is one."""
        if not self.wisdom.records or self.schedule:
            return {}
        schedules = self._schedules_of(place, method, options)
        sizes = sizes_of_call(schedules.general, arguments)
        found = self.wisdom.candidates(schedules.name, device_of(place), sizes)
        records = (record.configuration for record, _ in found)
        return next((one for one in records if one.keys() == schedules.start.keys()), {})


def _numbers_of(unit: TranslationUnit) -> list[str]:
    return [arg.name for arg in unit.default_entrypoint.args if not hasattr(arg, "shape")]


@functools.lru_cache(maxsize=64)
def device_of(place: Place) -> dict[str, str]:
    """Return the description, in records, of the device where a call runs."""
    return device_info(place.target, place.leading).identity
