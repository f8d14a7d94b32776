"""The arguments of a problem, and the expected results, computed once by a reference."""

from __future__ import annotations

import inspect
import io
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from kgen.errors import KgenError, near_names
from kgen.ir.unit import TranslationUnit
from kgen.runtime.autotest import TOLERANCES
from kgen.runtime.cache import content_key, process_caches
from kgen.runtime.samples import random_data
from kgen.targets.c import ExecutableCTarget
from kgen.targets.module import Module
from kgen.tuning.compiling import module_of
from kgen.tuning.task import Task, load_task

__all__ = ["Expected", "difference", "expected_of"]

Array = np.ndarray[Any, Any]
#: The maximum bytes of references that are kept on disk for other processes.
_KEPT_BYTES = 1 << 27
#: The bytes of arrays that are compared at once.
_PIECE_BYTES = 1 << 18
#: The value of integers that a kernel does not write.
_POISON = 0x5A
_RETURNED = "return a dict of the outputs by name, or a tuple of them in their order"


@dataclass(frozen=True, eq=False)
class Expected:
    """The arguments of a call, with poisoned outputs, and the expected outputs after it."""

    module: Module
    parameters: Mapping[str, Any]
    data: Mapping[str, Any]
    outputs: Mapping[str, Array]


@lru_cache(maxsize=2)
def expected_of(content: bytes) -> Expected:
    """Return the arguments of a task's problem, and the results of its reference.

    Arrays that the user does not give are generated; outputs that are not read are poisoned: real
    numbers with NaN.
    """
    task = load_task(content)
    written = task.written
    assert written is not None
    module = module_of(written)
    given = task.given_arguments()
    _check_arrays(module, given)
    parameters = {**given, **task.problem.sizes}
    for arg in module.arguments:
        if not (arg.is_array or arg.is_temporary or arg.name in parameters):
            raise KgenError(
                f"no value for argument '{arg.name}'",
                kernel=module.name,
                hint=f"tune(..., sizes={{'{arg.name}': 1024}})",
            )
    made_up = random_data(module, parameters)
    data = {**made_up, **{name: given[name] for name in made_up if name in given}}
    outputs = [arg for arg in module.arguments if arg.is_array and arg.is_output]
    for arg in outputs:
        if not arg.is_input and not arg.is_temporary:
            data[arg.name] = _poisoned(data[arg.name])
    names = [arg.name for arg in outputs if not arg.is_temporary]
    found = _reference_results(task, written, data, names) if task.is_checked else {}
    return Expected(module, parameters, data, found)


def _check_arrays(module: Module, given: Mapping[str, Any]) -> None:
    """Reject arrays that the kernel does not have; a reference may use other numbers."""
    known = [arg.name for arg in module.arguments]
    for name, value in given.items():
        if name not in known and getattr(value, "shape", None):
            raise KgenError(
                f"arguments= has an array '{name}', which is no argument of the kernel",
                kernel=module.name,
                hint=near_names(name, known),
            )


def _poisoned(value: Array) -> Array:
    if value.dtype.kind in "fc":
        return np.full_like(value, np.nan)
    return np.full_like(value, _POISON) if value.dtype.kind in "iub" else np.zeros_like(value)


def _reference_results(
    task: Task, written: TranslationUnit, data: Mapping[str, Any], names: list[str]
) -> dict[str, Array]:
    if callable(task.reference) and not isinstance(task.reference, TranslationUnit):
        return _called(task.reference, data, names)
    key = _key(written, data)
    kept = process_caches.disk.load(key)
    if kept is not None:
        with np.load(io.BytesIO(kept)) as file:
            return {name: file[name] for name in names}
    found = _run(written, data, names)
    if sum(value.nbytes for value in found.values()) <= _KEPT_BYTES:
        file = io.BytesIO()
        np.savez(file, **found)  # type: ignore[arg-type]
        process_caches.disk.store(key, file.getvalue())
    return found


def _key(written: TranslationUnit, data: Mapping[str, Any]) -> str:
    values = (np.ascontiguousarray(value).tobytes() for _, value in sorted(data.items()))
    return content_key("results of a reference", written.code_digest(), *values)


def _called(function: Any, data: Mapping[str, Any], names: list[str]) -> dict[str, Array]:
    """Return the results of a user's function: a dict, or the outputs in their order."""
    parameters = inspect.signature(function).parameters
    takes_all = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    result = function(**{n: v for n, v in data.items() if takes_all or n in parameters})
    if result is None and names:
        raise KgenError("the reference returned None", hint=_RETURNED)
    if isinstance(result, Mapping):
        found = dict(result)
    else:
        several = result if isinstance(result, tuple | list) else (result,)
        found = dict(zip(names, several, strict=False))
    if missing := [name for name in names if name not in found]:
        raise KgenError(f"the reference returned no '{missing[0]}'", hint=_RETURNED)
    arrays = {name: np.asarray(found[name], data[name].dtype) for name in names}
    for name, array in arrays.items():
        if array.shape != data[name].shape:
            raise KgenError(
                f"the reference returned '{name}' of shape {array.shape}, not {data[name].shape}",
                hint=_RETURNED,
            )
    return arrays


def _run(unit: TranslationUnit, data: Mapping[str, Any], names: list[str]) -> dict[str, Array]:
    """Run a kernel on the host, on copies of its arguments."""
    copies = {n: v.copy(order="K") if isinstance(v, np.ndarray) else v for n, v in data.items()}
    unit.copy(target=ExecutableCTarget())(**copies)
    return {name: copies[name] for name in names}


def difference(result: Array, expected: Array, tolerance: float | None = None) -> str | None:
    """Describe where a result differs from the expected one, if it does.

    NaN must be where it is expected; other numbers must agree within the precision of their type,
    relative to the largest one.

    >>> difference(np.array([1.0, 2.5]), np.array([1.0, 2.0]))
    'relative difference 0.25, at [1]: 2.5 instead of 2.0'
    """
    if result.shape != expected.shape:
        return f"the shape is {result.shape} instead of {expected.shape}"
    if expected.dtype.kind not in "fc":
        wrong = result != expected
        return f"it differs {_where(wrong, result, expected)}" if wrong.any() else None
    limit = TOLERANCES[np.finfo(expected.dtype).dtype.itemsize] if tolerance is None else tolerance
    with np.errstate(invalid="ignore", over="ignore"):
        widest, largest = _largest(result, expected)
        if widest <= limit * largest:  # false for NaN
            return None
        gap = np.abs(result - expected)
        both = (result == expected) | (np.isnan(result) & np.isnan(expected))
        known = np.abs(expected[np.isfinite(expected)])
        scale = float(known.max(initial=0)) or 1.0
        gap = np.where(both, 0, np.where(np.isfinite(gap), gap / scale, np.inf))
    worst = float(gap.max(initial=0))
    if worst <= limit:
        return None
    return f"relative difference {worst:.3g}, {_where(gap == worst, result, expected)}"


def _largest(result: Array, expected: Array) -> tuple[float, float]:
    """Return the largest difference and the largest number; NaN if there is one.

    Arrays are compared in pieces, so that caches hold the differences.
    """
    if expected.flags.f_contiguous:
        result, expected = result.T, expected.T
    result, expected = np.atleast_1d(result, expected)
    length = max(1, _PIECE_BYTES * len(expected) // max(1, expected.nbytes))
    gaps, scales = [0.0], [0.0]
    for start in range(0, len(expected), length):
        part, other = (array[start : start + length] for array in (result, expected))
        gaps.append(np.abs(part - other).max(initial=0))
        scales.append(np.abs(other).max(initial=0))
    return float(np.max(gaps)), float(np.max(scales))


def _where(wrong: Array, result: Array, expected: Array) -> str:
    place = tuple(int(axis) for axis in np.argwhere(wrong)[0])
    shown = ", ".join(map(str, place))
    return f"at [{shown}]: {result[place]} instead of {expected[place]}"
