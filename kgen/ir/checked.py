"""Arguments of public functions, checked against the types that their signatures name."""

from __future__ import annotations

import collections.abc
import functools
import inspect
import reprlib
import types
import typing
from collections.abc import Callable, Collection, Mapping
from typing import Any, Literal, TypeVar, Union

import numpy as np

from kgen.errors import KernelError, KgenError, message

__all__ = ["check_arguments", "checked"]

F = TypeVar("F", bound=Callable[..., Any])

_NUMBERS: Mapping[Any, tuple[type, ...]] = {
    bool: (bool, np.bool_),
    int: (int, np.integer),
    float: (int, float, np.integer, np.floating),
}
_TEXTS: Mapping[Any, str] = {
    str: "text",
    bool: "True or False",
    int: "an integer",
    float: "a number",
    type(None): "None",
    Any: "any value",
    object: "any value",
}


def checked(function: F) -> F:
    """Make a public function refuse arguments of types that its signature does not have.

    >>> @checked
    ... def repeat(text: str, times: int = 2) -> str:
    ...     return text * times
    >>> repeat("a", "3")
    Traceback (most recent call last):
        ...
    kgen.errors.KernelError: repeat: the argument 'times' is an integer, not '3'
    """

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        check_arguments(function, args, kwargs)
        return function(*args, **kwargs)

    return typing.cast("F", call)


def check_arguments(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    *,
    skip: int = 0,
    error: type[KgenError] = KernelError,
    called: str | None = None,
    kernel: str | None = None,
) -> None:
    """Raise *error* for an argument of a call whose type is not that of its annotation.

    The first *skip* parameters are not looked at; neither is a call that does not fit the
    signature, which Python itself refuses. *called* is what users know the function as.
    """
    signature, hints = _signature(function)
    try:
        given = signature.bind(*args, **kwargs).arguments
    except TypeError:
        return
    for name in list(signature.parameters)[skip:]:
        if name in given and name in hints and not _fits(given[name], hints[name]):
            argument = f"{called or function.__name__.lstrip('_')}: the argument '{name}'"
            raise error(_refusal(argument, given[name], hints[name], kernel))


def _refusal(argument: str, value: Any, hint: Any, kernel: str | None) -> str:
    wanted = _described(hint)
    is_unit = hasattr(value, "default_entrypoint") and "LoopKernel" in wanted
    return message(
        f"{argument} is {wanted}, not {reprlib.repr(value)}",
        kernel=kernel,
        hint="unit.default_entrypoint is the kernel of a program of one" if is_unit else None,
    )


@functools.cache
def _signature(function: Callable[..., Any]) -> tuple[inspect.Signature, dict[str, Any]]:
    """Return the signature of a function, and the types of those arguments that have one."""
    signature = inspect.signature(function)
    names = dict(vars(inspect.getmodule(function) or object))
    hints: dict[str, Any] = {}
    for name, parameter in signature.parameters.items():
        several = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        if several or parameter.annotation is parameter.empty:
            continue
        try:
            hints[name] = typing.get_type_hints(
                types.SimpleNamespace(__annotations__={name: parameter.annotation}), names
            )[name]
        except NameError:  # imported for the type checker only
            continue
    return signature, hints


def _fits(value: Any, hint: Any) -> bool:
    """Tell whether a value is of a type, as far as that can be seen."""
    origin, of = typing.get_origin(hint), typing.get_args(hint)
    if isinstance(hint, TypeVar):
        choices = hint.__constraints__ or ((hint.__bound__,) if hint.__bound__ else (Any,))
        return any(_fits(value, choice) for choice in choices)
    if origin in (Union, types.UnionType):
        return any(_fits(value, part) for part in of)
    if origin is Literal:
        return any(value is one or (isinstance(value, type(one)) and value == one) for one in of)
    if origin is type:
        return isinstance(value, type) and (not of or _is_subclass(value, of[0]))
    if origin is collections.abc.Callable:
        return callable(value)
    if isinstance(origin, type):
        return isinstance(value, origin) and _items_fit(value, origin, of)
    if hint in _NUMBERS:
        is_bool = isinstance(value, bool | np.bool_)
        return isinstance(value, _NUMBERS[hint]) and is_bool == (hint is bool)
    return hint is Any or not isinstance(hint, type) or isinstance(value, hint)


def _is_subclass(value: type, bases: Any) -> bool:
    return any(
        not isinstance(base, type) or issubclass(value, base)
        for base in (typing.get_args(bases) or (bases,))
    )


def _items_fit(value: Any, origin: type, of: tuple[Any, ...]) -> bool:
    """Tell whether the items of a collection are of their types; iterators are not used up."""
    if not of or not isinstance(value, Collection):
        return True
    if isinstance(value, Mapping) and issubclass(origin, Mapping):
        return all(_fits(key, of[0]) and _fits(item, of[1]) for key, item in value.items())
    if issubclass(origin, tuple) and not (len(of) == 2 and of[1] is Ellipsis):
        return len(value) == len(of) and all(map(_fits, value, of))
    return all(_fits(item, of[0]) for item in value)


def _described(hint: Any) -> str:
    """Say what values a type has.

    >>> _described(str | collections.abc.Sequence[int] | None)
    'text, a list of (an integer) or None'
    """
    origin, of = typing.get_origin(hint), typing.get_args(hint)
    if isinstance(hint, TypeVar):
        of, origin = hint.__constraints__ or (hint.__bound__ or Any,), Union
    if origin in (Union, types.UnionType):
        parts = list(dict.fromkeys(map(_described, of)))
        return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} or {parts[-1]}"
    if origin is Literal:
        return " or ".join(map(repr, of))
    if origin is collections.abc.Callable:
        return "a function"
    if isinstance(origin, type) and of:
        inner = [_described(item) for item in of if item is not Ellipsis]
        if issubclass(origin, Mapping):
            return f"a dict from {inner[0]} to {inner[1]}"
        if origin is type:
            return f"a class, {inner[0]}"
        kind = "tuple" if issubclass(origin, tuple) else "list"
        return f"a {kind} of ({', '.join(inner)})"
    if hint in _TEXTS:
        return _TEXTS[hint]
    name = getattr(hint, "__name__", str(hint))
    return f"an instance of {name}"
