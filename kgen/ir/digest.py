"""A digest of any IR value that is the same in every process."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import inspect
from collections.abc import Mapping
from enum import Enum
from types import CodeType, FunctionType, MethodType
from typing import Any

import numpy as np

from kgen.ir.fields import compared_fields
from kgen.ir.reductions import ReductionOperation


def digest(value: Any) -> str:
    """Return the SHA-256 of a canonical text of *value*.

    Sets and maps are sorted by the text of their elements, so hash seeds do not matter.
    """
    is_content = dataclasses.is_dataclass(value) and not isinstance(value, type)
    text = _canonical_fields(value) if is_content else canonical(value)
    return hashlib.sha256(text.encode()).hexdigest()


def canonical(value: Any) -> str:
    """Write *value* as text: equal values give equal texts, in every process.

    Numbers of different types give different texts. Kernels and programs within *value* are
    represented by their digests, which they keep.
    """
    match value:
        case None | bool() | int() | float() | complex() | str() | bytes() if not isinstance(
            value, Enum | np.generic
        ):
            return repr(value)
        case Enum():
            return f"{_type_name(value)}.{value.name}"
        case np.dtype() | np.ndarray() | np.generic():
            return _canonical_numpy(value)
        case tuple() | list():
            return "(" + ",".join(map(canonical, value)) + ")"
        case frozenset() | set():
            return "{" + ",".join(sorted(map(canonical, value))) + "}"
        case Mapping():
            items = sorted((canonical(k), canonical(v)) for k, v in value.items())
            return "{" + ",".join(f"{k}:{v}" for k, v in items) + "}"
    if isinstance(value, type):
        return f"{value.__module__}.{value.__qualname__}"
    if dataclasses.is_dataclass(value):
        own = getattr(value, "digest", None)
        return f"{_type_name(value)}#{own()}" if callable(own) else _canonical_fields(value)
    if callable(value):
        return _canonical_callable(value)
    return f"{_type_name(value)}({value})"


def _canonical_fields(value: Any) -> str:
    kind = type(value)
    fields = ",".join(f"{n}={canonical(getattr(value, n))}" for n in compared_fields(kind))
    return f"{_type_name(value)}({fields})"


def _type_name(value: Any) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"


def _canonical_numpy(value: Any) -> str:
    if isinstance(value, np.dtype):
        return f"dtype({_canonical_dtype(value)})"
    if isinstance(value, np.generic):
        return f"{value.dtype.str}({value!r})"
    content = hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()
    return f"array({_canonical_dtype(value.dtype)},{value.shape},{content})"


def _canonical_dtype(dtype: np.dtype[Any]) -> str:
    """Write a type with the offsets and titles of its fields."""
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        return f"{_canonical_dtype(base)}{shape}"
    if dtype.fields is None:
        return dtype.str
    fields = ((name, *dtype.fields[name]) for name in dtype.names or ())
    texts = (f"{name!r}:{_canonical_dtype(of)}@{rest!r}" for name, of, *rest in fields)
    return f"{{{','.join(texts)}}}/{dtype.itemsize}"


def _canonical_callable(value: Any) -> str:
    """Write a function by its name and what it does; another callable by its attributes."""
    match value:
        case FunctionType():
            around = inspect.getclosurevars(value).nonlocals.values()
            inside = map(_shallow, (*around, value.__defaults__, value.__kwdefaults__))
            return f"{_shallow(value)}({','.join(inside)})"
        case MethodType():
            return f"{canonical(value.__self__)}.{_canonical_callable(value.__func__)}"
        case functools.partial():
            return f"partial{canonical((value.func, value.args, value.keywords))}"
    name = getattr(value, "__qualname__", None)
    if name is not None:
        return f"{value.__module__}.{name}"
    content = value.content() if isinstance(value, ReductionOperation) else vars(value)
    return f"{_type_name(value)}({value!s},{canonical(content)})"


def _shallow(value: Any) -> str:
    """Write a function without what it takes from around it, which may be itself."""
    if not isinstance(value, FunctionType):
        return canonical(value)
    return f"{value.__module__}.{value.__qualname__}:{canonical(_code_parts(value.__code__))}"


def _code_parts(code: CodeType) -> tuple[Any, ...]:
    constants = (_code_parts(c) if isinstance(c, CodeType) else c for c in code.co_consts)
    return code.co_code, code.co_names, code.co_varnames, tuple(constants)
