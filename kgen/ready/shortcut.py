"""Repeated calls: arrays with one axis, like those of the previous call, on the same device."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from kgen.errors import InvocationError
from kgen.ready.again import MOST_ELEMENTS, Again, Repeated
from kgen.ready.places import Place, maker_like
from kgen.ready.snippet import Signature

__all__ = ["Shortcut", "shortcut_for"]

#: Makes a call with given arguments, or returns ``None`` if these need other code; on CUDA, in a
#: stream that :func:`kgen.ready.places.live_stream` found.
Shortcut: TypeAlias = Callable[..., Any]


def shortcut_for(
    place: Place,
    executor: Any,
    signature: Signature,
    given: Mapping[str, Any],
    sizes: tuple[int, int],
    *,
    allocates: bool = False,
    again: Again,
    outputs: Callable[[Any], dict[str, Any]] = lambda _: {},
) -> Shortcut | None:
    """Return a function for calls similar to one with the arguments *given*, if possible.

    Similar calls have a first array of the same type, in the same queue, and with one axis, and
    pass the same arrays twice; the code checks the other arrays. Finding the code again would take
    longer than such a call.

    :arg sizes: the minimum and maximum number of elements that the code supports
    :arg allocates: a call allocates arrays, in the same way as the first one
    :arg again: keeps calls on CUDA
    :arg outputs: makes the arrays for results of a call, from its first array

    There is no such function if the call runs in a queue that is not the first array's.
    """
    names = tuple(one.name for one in signature.arguments if one.name in given)
    positions = [names.index(one.name) for one in signature.arrays if one.name in given]
    first, pairs = positions[0], _pairs(positions, [given[name] for name in names])
    array_type: Any = type(given[names[first]])
    queue = getattr(given[names[first]], "queue", None)
    if queue is not (place.leading[0] if place.leading else None):
        return None
    has_allocator = allocates and hasattr(given[names[first]], "allocator")
    leading, count, has_queue = place.leading, len(names), queue is not None
    options = place.options
    most_packed = MOST_ELEMENTS if options else -1
    size = signature.size if signature.size in given else None
    named_of = _naming(names, first, size, has_allocator=has_allocator)
    fewest, most = sizes
    again.is_used |= bool(options)

    def call(args: tuple[Any, ...], stream: tuple[int, int] | None = None) -> Any:
        if len(args) != count:
            return None
        array = args[first]
        if type(array) is not array_type or (has_queue and array.queue is not queue):
            return None
        if _is_otherwise_shared(args, pairs):
            return None
        shape = array.shape
        if len(shape) != 1 or not fewest <= shape[0] <= most:
            return None
        try:
            if shape[0] > most_packed or not again.takes(args):
                return None if stream else executor(*leading, **named_of(args), **options)
            more = {} if stream is None else {"stream": stream[0]}
            pack = _packing(executor, named_of, {**options, **more}, new := outputs(array))
            makers = [(first, maker_like(place, one)) for one in new.values()]
            return None, again.make(args, Repeated(pack, makers), stream)
        except InvocationError:  # the other arrays are not like those of the call before
            return None

    return call


def _pairs(positions: list[int], given: Sequence[Any]) -> list[tuple[int, int, bool]]:
    """Return pairs of positions of arrays, and whether each is one array that is passed twice.

    If none is, those of the first array suffice: the code for different arrays rejects others.
    """
    pairs = list(itertools.combinations(positions, 2))
    found = [(one, other, given[one] is given[other]) for one, other in pairs]
    return found if any(is_one for *_, is_one in found) else found[: len(positions) - 1]


def _is_otherwise_shared(args: tuple[Any, ...], pairs: list[tuple[int, int, bool]]) -> bool:
    """Tell whether an array is passed twice that was not, or the other way round."""
    for one, other, is_one in pairs:  # noqa: SIM110 (a generator takes time)
        if (args[one] is args[other]) is not is_one:
            return True
    return False


def _naming(
    names: tuple[str, ...], first: int, size: str | None, *, has_allocator: bool
) -> Callable[[tuple[Any, ...]], dict[str, Any]]:
    """Return a function that returns the arguments of a call by name."""

    def named_of(args: tuple[Any, ...]) -> dict[str, Any]:
        named = dict(zip(names, args))  # noqa: B905 (a keyword takes time)
        if size is not None:
            named[size] = args[first].shape[0]
        if has_allocator and args[first].allocator is not None:
            named["allocator"] = args[first].allocator
        return named

    return named_of


def _packing(
    executor: Any,
    named_of: Callable[[tuple[Any, ...]], dict[str, Any]],
    options: Mapping[str, Any],
    new: Iterable[str],
) -> Callable[[tuple[Any, ...], list[Any]], Any]:
    """Return a function that packs the launches of a call, whose *new* arrays it is given."""
    names = tuple(new)

    def pack(args: tuple[Any, ...], made: list[Any]) -> Any:
        results = dict(zip(names, made, strict=True))
        replay, _ = executor.packed(**named_of(args), **options, **results)
        return replay

    return pack
