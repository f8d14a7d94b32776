"""Generated arguments of calls: random contents for every array."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import numpy as np
from pymbolic.mapper.evaluator import evaluate

from kgen.errors import InvocationError
from kgen.ir.types import kind_of
from kgen.targets.module import ArgumentInfo, Module

__all__ = ["evaluated", "random_data", "values_of"]


def random_data(module: Module, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Generate the value arguments of a call and random contents for every array, always the same.

    Real numbers are between -1 and 1, integers from 0 to 19; those that are subscripts, or bounds
    of loops, are subscripts of the shortest axis of all arrays. Raises :class:`InvocationError` if
    *parameters* lack a value argument.
    """
    data = values_of(module, parameters)
    rng = np.random.default_rng(17)
    arrays = [info for info in module.arguments if info.is_array]
    extents = (n for info in arrays for n in evaluated(info.shape or (), parameters))
    shortest = max(1, min(_INTEGERS, *extents, _INTEGERS))
    for info in arrays:
        if not info.is_temporary:
            integers = shortest if info.is_index else _INTEGERS
            data[info.name] = _random_array(info, parameters, rng, integers)
    return data


_INTEGERS: Final = 20


def values_of(module: Module, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the value arguments of a kernel; rejects *parameters* that lack one."""
    known = [a.name for a in module.arguments if not (a.is_array or a.is_temporary)]
    for name in sorted(set(known).difference(parameters)):
        raise InvocationError(
            f"no value for argument '{name}'",
            kernel=module.name,
            hint=f"give one, such as 16: parameters={{'{name}': 16}}",
        )
    return {name: parameters[name] for name in known}


def evaluated(exprs: Iterable[Any], parameters: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the values of integers that depend on *parameters*."""
    return tuple(int(evaluate(expr, dict(parameters))) for expr in exprs)


def _random_array(
    info: ArgumentInfo, parameters: Mapping[str, Any], rng: np.random.Generator, integers: int
) -> np.ndarray[Any, Any]:
    if info.shape is None:
        raise InvocationError(f"the shape of argument '{info.name}' is not known")
    shape = evaluated(info.shape, parameters)
    if any(extent < 0 for extent in shape):
        declared = ", ".join(map(str, info.shape))
        raise InvocationError(
            f"argument '{info.name}' has the negative shape {shape}",
            because=f"its shape in the kernel is ({declared})",
            hint="pass sizes that are not negative",
        )
    kind = kind_of(info.dtype)
    if kind == "c":
        values: Any = rng.uniform(-1, 1, shape) + 1j * rng.uniform(-1, 1, shape)
    elif kind == "f":
        values = rng.uniform(-1, 1, shape)
    else:
        values = rng.integers(0, integers, shape)
    strides = evaluated(info.strides or (), parameters)
    is_fortran = len(strides) > 1 and strides[0] == 1 and strides[-1] != 1
    return np.array(values, dtype=info.dtype, order="F" if is_fortran else "C")
