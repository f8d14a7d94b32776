"""The arguments of ready kernels: their declarations, and their values in a call."""

from __future__ import annotations

import functools
import reprlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from kgen.errors import InvocationError, KernelError, counted
from kgen.ir.data import GlobalArg, ValueArg
from kgen.ready.c_text import CArgument, parse_arguments

__all__ = [
    "Declared",
    "bind",
    "check_devices",
    "context_first",
    "declare",
    "read_arguments",
    "reject_given",
]

Declared = Sequence[CArgument]


def context_first(init: Callable[..., None]) -> Callable[..., None]:
    """Allow calls of an ``__init__`` to omit its first argument, a context.

    pyopencl's classes begin with a context, pycuda's do not; here the arrays of each call determine
    it.

    >>> class Kernel:
    ...     @context_first
    ...     def __init__(self, context, arguments):
    ...         self.arguments = arguments
    >>> Kernel("float *x").arguments, Kernel(None, "float *x").arguments
    ('float *x', 'float *x')
    """

    @functools.wraps(init)
    def call(self: Any, *args: Any, **kwargs: Any) -> None:
        given = kwargs.pop("ctx", None)
        has_context = bool(args) and (args[0] is None or hasattr(args[0], "devices"))
        if not has_context and "context" not in kwargs:
            args = (given, *args)
        init(self, *args, **kwargs)

    return call


def reject_given(kernel: str, hint: str, **given: Any) -> None:
    """Reject values of parameters that pyopencl or pycuda has, and that have no effect here."""
    for name, value in given.items():
        if value is not None and value is not False:
            raise KernelError(
                f"{name}={reprlib.repr(value)} has no effect here", kernel=kernel, hint=hint
            )


def check_devices(kernel: str, context: Any, devices: Any) -> None:
    """Reject devices that a context does not have; a call runs on that of its arrays."""
    known = getattr(context, "devices", ())
    given = devices if isinstance(devices, list | tuple) else (devices,)
    unknown = [] if devices is None else [device for device in given if device not in known]
    if unknown:
        raise KernelError(
            f"devices= has {reprlib.repr(unknown[0])}, which is not a device of the context",
            kernel=kernel,
            hint="pass the context of these devices, or leave them out: a call runs on the "
            "device of its arrays",
        )


def read_arguments(arguments: Any, types: Mapping[str, Any] | None = None) -> tuple[CArgument, ...]:
    """Return declarations of arguments, given as C or as a list for kgen, pyopencl or pycuda.

    *types* are those that a preamble names; registered structures are known without them.

    >>> import kgen as lp
    >>> read_arguments("float *x") == read_arguments([lp.GlobalArg("x", "float32", shape="n")])
    True
    """
    if isinstance(arguments, str):
        return parse_arguments(arguments, types)
    if not isinstance(arguments, list | tuple):
        raise KernelError(
            f"'arguments' is of the type '{type(arguments).__name__}'",
            hint='declare arguments as in C: "float a, float *x"',
        )
    return tuple(_read_one(argument, types) for argument in arguments)


def _read_one(argument: Any, types: Mapping[str, Any] | None) -> CArgument:
    if isinstance(argument, CArgument):
        return argument
    if isinstance(argument, str):
        (one,) = parse_arguments(argument, types)
        return one
    name, dtype = getattr(argument, "name", None), getattr(argument, "dtype", None)
    kind = type(argument).__name__
    is_array = isinstance(argument, GlobalArg) or kind.startswith("Vector")
    is_number = isinstance(argument, ValueArg) or kind.startswith("Scalar")
    if not isinstance(name, str) or dtype is None or not (is_array or is_number):
        raise KernelError(
            f"'arguments' has an item of the type '{kind}', which does not declare an argument",
            hint='write C such as "float *x", or VectorArg(np.float32, "x")',
        )
    return CArgument(name, np.dtype(getattr(dtype, "numpy_dtype", dtype)), is_array)


def declare(
    arguments: Declared, shapes: Mapping[str, Any], index_dtype: Any, sizes: Sequence[str]
) -> list[Any]:
    """Return declarations of kgen; arrays that *shapes* does not name are of unknown length."""
    declared: list[Any] = [
        GlobalArg(one.name, one.dtype, shape=shapes.get(one.name, (None,)))
        if one.is_array
        else ValueArg(one.name, one.dtype)
        for one in arguments
    ]
    return [*declared, *(ValueArg(size, index_dtype) for size in sizes)]


def bind(kernel: str, arguments: Declared, given: Sequence[Any]) -> dict[str, Any]:
    """Return the arguments of a call by name."""
    if len(given) != len(arguments):
        names = ", ".join(one.name for one in arguments)
        raise InvocationError(
            f"a call passes {counted(len(given), 'argument')}, not {len(arguments)}",
            kernel=kernel,
            hint=f"pass one for each of: {names}",
        )
    return {one.name: value for one, value in zip(arguments, given, strict=True)}
