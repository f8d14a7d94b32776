"""A digest of any IR value that is the same in every process."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import inspect
from collections.abc import Callable, Mapping
from functools import cached_property
from types import CodeType, FunctionType, MethodType
from typing import Any, Final

import numpy as np

from kgen.ir.fields import Kind, compared_fields, kind_of
from kgen.ir.reductions import ReductionOperation
from kgen.ir.sets.domain import irredundant_text


def digest(value: Any, *, without: tuple[str, ...] = ()) -> str:
    """Return the SHA-256 of a canonical text of *value*: of its fields, *without* some of them.

    Sets and maps are sorted by the text of their elements, so hash seeds do not matter.
    """
    is_content = dataclasses.is_dataclass(value) and not isinstance(value, type)
    text = _canonical_fields(value, without) if is_content else canonical(value)
    return hashlib.sha256(text.encode()).hexdigest()


def canonical(value: Any) -> str:
    """Write *value* as text: equal values give equal texts, in every process.

    Numbers of different types give different texts. Kernels and programs within *value* are
    represented by their digests, which they cache.
    """
    kind: Any = type(value)
    return _writer_of(kind)(value)


@functools.lru_cache(maxsize=1024)
def _writer_of(of: Any) -> Callable[[Any], str]:
    """Return the writer of values of a type; finding it takes longer than writing most values."""
    kind = kind_of(of)
    if kind is Kind.FIELDS and callable(getattr(of, "digest", None)):
        return lambda value: f"{_type_name(value)}#{value.digest()}"
    if kind is Kind.OTHER and not any("__call__" in vars(base) for base in of.__mro__):
        return lambda value: f"{_type_name(value)}({value})"
    return _WRITERS[kind]


def _canonical_map(value: Mapping[Any, Any]) -> str:
    items = sorted((canonical(k), canonical(v)) for k, v in value.items())
    return "{" + ",".join(f"{k}:{v}" for k, v in items) + "}"


def _canonical_fields(value: Any, without: tuple[str, ...] = ()) -> str:
    names = (name for name in compared_fields(type(value)) if name not in without)
    fields = ",".join([f"{name}={canonical(getattr(value, name))}" for name in names])
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
    """Write a function by its name and code; another callable by its attributes."""
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
    """Write a function without its closure, which may contain itself."""
    if not isinstance(value, FunctionType):
        return canonical(value)
    return f"{value.__module__}.{value.__qualname__}:{canonical(_code_parts(value.__code__))}"


def _code_parts(code: CodeType) -> tuple[Any, ...]:
    constants = (_code_parts(c) if isinstance(c, CodeType) else c for c in code.co_consts)
    return code.co_code, code.co_names, code.co_varnames, tuple(constants)


_WRITERS: Final[Mapping[Kind, Callable[[Any], str]]] = {
    Kind.ENUM: lambda value: f"{_type_name(value)}.{value.name}",
    Kind.NUMPY: _canonical_numpy,
    Kind.LITERAL: repr,
    Kind.SEQUENCE: lambda value: "(" + ",".join(map(canonical, value)) + ")",
    Kind.ORDERED_SET: lambda value: "<" + ",".join(map(canonical, value)) + ">",
    Kind.UNORDERED: lambda value: "{" + ",".join(sorted(map(canonical, value))) + "}",
    Kind.MAPPING: _canonical_map,
    Kind.ISL: lambda value: f"{_type_name(value)}({irredundant_text(value)})",
    Kind.CLASS: lambda value: f"{value.__module__}.{value.__qualname__}",
    Kind.FIELDS: _canonical_fields,
    Kind.OTHER: _canonical_callable,
}


class Digested:
    """A value with a digest; those with equal digests are equal.

    >>> import kgen as lp
    >>> one, other = (lp.make_kernel("{ [i]: 0<=i<n }", "a[i] = 1") for _ in range(2))
    >>> one == other, one.digest() == other.digest(), one is other
    (True, True, False)
    """

    def digest(self) -> str:
        """Return the SHA-256 of the content: the same in every process."""
        return self._digest

    def update_persistent_hash(self, key_hash: Any, key_builder: Any) -> None:
        """Make this a key of pytools' persistent dictionaries: the key is the digest."""
        key_builder.rec(key_hash, self._digest)

    @cached_property
    def _digest(self) -> str:
        return digest(self)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Digested):
            return NotImplemented
        return self is other or self._digest == other._digest

    def __hash__(self) -> int:
        return hash(self._digest)
