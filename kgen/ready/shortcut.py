"""Repeated calls: arrays with one axis, like those of the previous call, on the same device."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from kgen.ready.again import MOST_ELEMENTS, Again, same_as
from kgen.ready.places import Place
from kgen.ready.snippet import Signature

__all__ = ["Shortcut", "shortcut_for"]

#: Makes a call with given arguments, or returns ``None`` if these need other code.
Shortcut: TypeAlias = Callable[[tuple[Any, ...]], Any]


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

    Similar calls have a first array of the same type, in the same queue, and with one axis; the
    code checks the other arrays. Finding the code again would take longer than such a call.

    :arg sizes: the minimum and maximum number of elements that the code supports
    :arg allocates: a call allocates arrays, in the same way as the first one
    :arg again: has the launches of calls on CUDA
    :arg outputs: makes the arrays for results of a call, from its first array

    There is no such function if the call runs in a queue that is not the first array's.
    """
    names = tuple(one.name for one in signature.arguments if one.name in given)
    first, *others = (names.index(one.name) for one in signature.arrays if one.name in given)
    array_type: Any = type(given[names[first]])
    queue = getattr(given[names[first]], "queue", None)
    if queue is not (place.leading[0] if place.leading else None):
        return None
    has_allocator = allocates and hasattr(given[names[first]], "allocator")
    leading, count, has_queue = place.leading, len(names), queue is not None
    options = place.options
    most_packed = MOST_ELEMENTS if options else -1
    size = signature.size if signature.size in given else None
    fewest, most = sizes

    def call(args: tuple[Any, ...]) -> Any:
        if len(args) != count:
            return None
        array = args[first]
        if type(array) is not array_type or (has_queue and array.queue is not queue):
            return None
        if _is_passed_twice(array, args, others):
            return None
        shape = array.shape
        if len(shape) != 1 or not fewest <= shape[0] <= most:
            return None
        named = dict(zip(names, args))  # noqa: B905 (a keyword takes time)
        if size is not None:
            named[size] = shape[0]
        if has_allocator and array.allocator is not None:
            named["allocator"] = array.allocator
        if shape[0] > most_packed:
            return executor(*leading, **named, **options)
        return _launch_packed(again, executor, args, outputs(array), {**named, **options})

    return call


def _is_passed_twice(array: Any, args: tuple[Any, ...], others: list[int]) -> bool:
    """Tell whether an argument at one of the positions is this array."""
    for position in others:  # noqa: SIM110 (a generator takes time)
        if args[position] is array:
            return True
    return False


def _launch_packed(
    again: Again,
    executor: Any,
    args: tuple[Any, ...],
    new: Mapping[str, Any],
    named: dict[str, Any],
) -> Any:
    """Make a call on CUDA with packed launches, which stores its results in *new* arrays."""
    key = (id(executor), *map(same_as, args), *map(same_as, new.values()))
    again(key, lambda: executor.packed(**named, **new)[0])
    return None, tuple(new.values())
