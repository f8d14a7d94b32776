"""Repeated calls on CUDA with the same memory, whose launches are packed once."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, TypeAlias

import numpy as np

from kgen.ready.c_text import CArgument
from kgen.runtime.pyast import attribute, builtin, call, compare, either, lambda_of, name

__all__ = ["MOST_ELEMENTS", "Again", "Maker", "Repeated", "weakly"]

#: The number of calls that are kept.
_MOST: Final = 32
#: Their maximum number of elements: with more, the device takes longer than the host.
MOST_ELEMENTS: Final = 2**24
#: The facts on which the launches of a call depend, besides the address of an array.
_FACTS: Final = ("shape", "strides", "dtype")
#: Python's real numbers. Values of subclasses may change.
_REAL: Final = frozenset({bool, int, float})

#: Makes a new array in the memory of an allocator.
Maker: TypeAlias = Callable[[Any], Any]
#: Makes the launches of a call.
Replay: TypeAlias = Callable[[], None]


def key_function(arguments: Sequence[CArgument]) -> Callable[..., tuple[Hashable, ...]]:
    """Return a function of the arguments of a call, equal for calls that make the same launches.

    Arrays are those of pycuda; an array that is passed twice is not two arrays of one address. The
    function is a single expression, since it takes a large part of the time of a repeated call.
    Python's ``0.0 == -0.0`` and ``2 == 2.0`` are different numbers.

    >>> key = key_function([CArgument("a", np.dtype("float32"), is_array=False)])
    >>> key(2.0), key(-0.0)
    ((<class 'float'>, 2.0), (<class 'float'>, '-0.0'))
    """
    parameters = [f"a{k}" for k in range(len(arguments))]
    parts = []
    for one, parameter in zip(arguments, parameters, strict=True):
        value = name(parameter)
        if one.is_array:
            parts.append(call(builtin("int"), attribute(value, "gpudata")))
            parts += [attribute(value, fact) for fact in _FACTS]
        elif one.dtype.kind == "c":  # one of the two parts may be -0.0
            parts += [call(builtin("type"), value), call(builtin("repr"), value)]
        else:
            shown = call(builtin("repr"), value)
            parts += [call(builtin("type"), value), either(value, shown)]
    arrays = [name(f"a{k}") for k, one in enumerate(arguments) if one.is_array]
    parts += [compare(one, "is", other) for one, other in itertools.combinations(arrays, 2)]
    return lambda_of(parameters, parts)


def weakly(method: Callable[..., Replay], *first: Any) -> Callable[..., Replay]:
    """Return a function that calls a method with some *first* arguments.

    Unlike the bound method, it does not keep its object alive, which exists while it is called.
    """
    reference = weakref.WeakMethod(method)

    def call_method(*args: Any) -> Replay:
        found = reference()
        assert found is not None
        return found(*first, *args)

    return call_method


def _is_exact(value: Any, dtype: np.dtype[Any]) -> bool:
    """Tell whether a number for a type is in a key as it is; NaN differs from itself."""
    kind = type(value)
    if kind is complex or isinstance(value, np.complexfloating):
        return dtype.kind == "c"
    return (kind in _REAL or isinstance(value, np.generic)) and bool(value == value)


@dataclass(slots=True)
class Repeated:
    """A call with certain arguments: how its launches are packed, and replays of them.

    :arg pack: returns the replay of a call with these arguments, whose new arrays are given
    :arg makers: of new arrays, each with the position of the argument whose allocator it takes
    :arg results: the new arrays that a call returns
    """

    pack: Callable[[tuple[Any, ...], list[Any]], Replay]
    makers: Sequence[tuple[int, Maker]] = ()
    results: slice = field(default_factory=lambda: slice(None))
    #: by the addresses of new arrays
    replays: dict[tuple[int, ...], Replay] = field(default_factory=dict)
    #: of a call without new arrays
    only: Replay | None = None

    def new(self, args: tuple[Any, ...]) -> list[Any]:
        """Return new arrays."""
        return [make(args[at].allocator) for at, make in self.makers]

    def add(self, new: list[Any], replay: Replay) -> None:
        """Add a replay."""
        self.replays[_addresses(new)] = replay
        self.only = None if new else replay


def _addresses(arrays: list[Any]) -> tuple[int, ...]:
    return tuple([int(one.gpudata) for one in arrays])


class Again:
    """Repeats calls of a kernel on CUDA.

    Arrays with the same addresses, shapes and types are passed to the device as the same numbers,
    whatever their contents. Neither keys nor replays keep an array of the caller alive.
    ``calls`` is empty on other devices, where there is nothing to look for. Calls in one stream run
    one after the other, and share temporaries; those in other streams have others.
    """

    #: Whether calls were made on CUDA.
    is_used = False

    def __init__(self, arguments: Sequence[CArgument]) -> None:
        self._arguments = arguments
        self.calls: dict[Hashable, Repeated] = {}
        self._n_replays = 0

    def __reduce__(self) -> tuple[Any, ...]:
        return Again, (self._arguments,)

    @cached_property
    def _key(self) -> Callable[..., tuple[Hashable, ...]]:
        return key_function(self._arguments)

    def __call__(self, args: tuple[Any, ...], more: Hashable = None) -> list[Any] | None:
        """Repeat a call; return its results in new arrays, or ``None`` if it is not known.

        :arg more: on what else the launches depend; their stream if it is not the default one
        """
        try:
            key = self._key(*args)
            found = self.calls.get(key if more is None else (more, key))
        except (AttributeError, TypeError, ValueError):  # of arguments that no known call has
            return None
        if found is None:
            return None
        if found.only is not None:
            found.only()
            return []
        new = found.new(args)
        replay = found.replays.get(_addresses(new))
        if replay is None:
            replay = found.pack(args, new)
            self._add(key if more is None else (more, key), found, new, replay)
        replay()
        return new[found.results]

    def takes(self, args: tuple[Any, ...]) -> bool:
        """Tell whether the key of a call distinguishes it from all others."""
        if len(args) != len(self._arguments):
            return False
        return all(
            bool(getattr(value, "gpudata", None)) if one.is_array else _is_exact(value, one.dtype)
            for one, value in zip(self._arguments, args, strict=True)
        )

    def make(self, args: tuple[Any, ...], repeated: Repeated, more: Hashable = None) -> list[Any]:
        """Make a call that :meth:`takes` accepts, and know it from then on; return its results."""
        new = repeated.new(args)
        replay = repeated.pack(args, new)
        replay()
        key: Hashable = self._key(*args)
        self._add(key if more is None else (more, key), repeated, new, replay)
        return new[repeated.results]

    def _add(self, key: Hashable, repeated: Repeated, new: list[Any], replay: Replay) -> None:
        if self._n_replays >= _MOST:
            self.calls.clear()
            self._n_replays = 0
            repeated.replays.clear()
        repeated.add(new, replay)
        self.calls[key] = repeated
        self._n_replays += 1
