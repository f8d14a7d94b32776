"""Arguments of public functions, checked against the annotations of their signatures."""

from __future__ import annotations

import collections.abc
import functools
import inspect
import reprlib
import types
import typing
from collections.abc import Callable, Collection, Iterable, Mapping
from inspect import Parameter
from typing import Any, Literal, TypeAlias, TypeVar, Union

import numpy as np
import pymbolic.primitives as p

from kgen.errors import KernelError, KgenError, message

__all__ = ["check_arguments", "check_fields", "checked", "unfit"]

F = TypeVar("F", bound=Callable[..., Any])
#: Tells whether a value is of a type.
_Test: TypeAlias = Callable[[Any], bool]

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
    """Make a public function reject arguments whose types do not match its signature.

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


def unfit(what: str, wanted: str, value: Any, *, hint: str | None = None) -> KernelError:
    """Return the error for a value of a field that has another type than *wanted*.

    >>> print(unfit("shape of array 'a'", "a number", "x" * 99))
    the shape of array 'a' is a number, not 'xxxxxxxxxxxx...xxxxxxxxxxxxx'
    """
    return KernelError(f"the {what} is {wanted}, not {reprlib.repr(value)}", hint=hint)


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

    The first *skip* parameters are not checked; neither is a call that does not match the
    signature, which Python itself rejects. *called* is the public name of the function.
    """
    names, tests, defaults = _tests_of(function)
    for name, value in (*zip(names[skip:], args[skip:], strict=False), *kwargs.items()):
        if value is defaults.get(name, Parameter.empty):
            continue
        fits = tests.get(name)
        if fits is not None and not fits(value) and _is_call(function, args, kwargs):
            argument = f"{called or function.__name__.lstrip('_')}: the argument '{name}'"
            raise error(_error_text(argument, value, _signature(function)[1][name], kernel))


def check_fields(kind: type, values: Mapping[str, Any], names: Iterable[str]) -> None:
    """Raise :class:`KernelError` for a field of a dataclass that its annotation does not allow.

    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Tile:
    ...     lengths: tuple[int, ...]
    >>> check_fields(Tile, {"lengths": (4, "n")}, ["lengths"])
    Traceback (most recent call last):
        ...
    kgen.errors.KernelError: Tile: the field 'lengths' is a tuple of (an integer), not (4, 'n')
    """
    tests = _tests_of(kind)[1]
    for name in names:
        fits = tests.get(name)
        if fits is not None and not fits(values[name]):
            field = f"{kind.__name__}: the field '{name}'"
            raise KernelError(_error_text(field, values[name], _signature(kind)[1][name], None))


def _is_call(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> bool:
    """Tell whether the arguments match the signature: Python rejects those that do not."""
    try:
        _signature(function)[0].bind(*args, **kwargs)
    except TypeError:
        return False
    return True


@functools.cache
def _tests_of(
    function: Callable[..., Any],
) -> tuple[list[str], dict[str, _Test], dict[str, Any]]:
    """Return the positional parameters, the type tests of parameters, and default values."""
    signature, hints = _signature(function)
    by_position = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
    parameters = signature.parameters.items()
    names = [name for name, one in parameters if one.kind in by_position]
    tests = {name: _test_of(hint) for name, hint in hints.items() if hint is not Any}
    return names, tests, {name: one.default for name, one in parameters}


def _error_text(argument: str, value: Any, hint: Any, kernel: str | None) -> str:
    wanted = _described(hint)
    is_unit = hasattr(value, "default_entrypoint") and "LoopKernel" in wanted
    return message(
        f"{argument} is {wanted}, not {reprlib.repr(value)}",
        kernel=kernel,
        hint="unit.default_entrypoint is the kernel of a program with a single one"
        if is_unit
        else None,
    )


@functools.cache
def _signature(function: Callable[..., Any]) -> tuple[inspect.Signature, dict[str, Any]]:
    """Return the signature of a function, and the types of annotated arguments."""
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
        except NameError:  # imported only for the type checker
            continue
    return signature, hints


def _parts(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    """Return the generic type and its arguments; a type variable is a union."""
    if isinstance(hint, TypeVar):
        return Union, hint.__constraints__ or (hint.__bound__ or Any,)
    return typing.get_origin(hint), typing.get_args(hint)


def _test_of(hint: Any) -> _Test:
    """Return a test whether a value is of a type, as far as this can be tested."""
    origin, of = _parts(hint)
    if origin in (Union, types.UnionType):
        classes = tuple(part for part in of if _is_class(part))
        tests = [_test_of(part) for part in of if not _is_class(part)]
        return lambda value: isinstance(value, classes) or any(fits(value) for fits in tests)
    if origin is Literal:
        return lambda value: any(
            value is one or (isinstance(value, type(one)) and value == one) for one in of
        )
    if origin is type:
        return lambda value: isinstance(value, type) and (not of or _is_subclass(value, of[0]))
    if origin is collections.abc.Callable:
        return callable
    if isinstance(origin, type):
        items_fit = _test_of_items(origin, of)
        return lambda value: (
            isinstance(value, origin)
            and not isinstance(value, p.ExpressionNode)  # whose __iter__ only raises an error
            and items_fit(value)
        )
    if hint in _NUMBERS:
        numbers, is_bool = _NUMBERS[hint], hint is bool
        return lambda value: (
            isinstance(value, numbers) and isinstance(value, bool | np.bool_) == is_bool
        )
    if hint is Any or not isinstance(hint, type):
        return lambda value: True
    return lambda value: isinstance(value, hint)


def _is_class(hint: Any) -> bool:
    """Tell whether the values of a type are exactly the instances of a class."""
    is_plain = isinstance(hint, type) and typing.get_origin(hint) is None
    return is_plain and hint is not Any and hint not in _NUMBERS


def _is_subclass(value: type, bases: Any) -> bool:
    return any(
        not isinstance(base, type) or issubclass(value, base)
        for base in (typing.get_args(bases) or (bases,))
    )


def _test_of_items(origin: type, of: tuple[Any, ...]) -> _Test:
    """Return a test whether items are of their types; iterators are not consumed."""
    tests = [_test_of(hint) for hint in of if hint is not Ellipsis]
    if not tests:
        return lambda value: True
    if issubclass(origin, Mapping):
        return lambda value: all(tests[0](key) and tests[1](item) for key, item in value.items())
    if issubclass(origin, tuple) and Ellipsis not in of:
        return lambda value: (
            len(value) == len(tests)
            and all(fits(item) for fits, item in zip(tests, value, strict=True))
        )
    return lambda value: not isinstance(value, Collection) or all(map(tests[0], value))


def _described(hint: Any) -> str:
    """Describe the values of a type.

    >>> _described(str | collections.abc.Sequence[int] | None)
    'text, a list of (an integer) or None'
    """
    origin, of = _parts(hint)
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
