"""The kinds of serializable values, and the fields of frozen ones."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from enum import Enum
from functools import lru_cache
from types import MappingProxyType, NoneType
from typing import Any, Final, Self, TypeVar

import numpy as np

from kgen.ir.ordered_set import OrderedSet
from kgen.ir.sets.dims import BasicSet, Set

__all__ = [
    "OF_THIS_PROCESS",
    "Copyable",
    "Kind",
    "compared_fields",
    "kind_of",
    "replace",
    "stored_fields",
    "stored_values",
]

ValueT = TypeVar("ValueT")


class Copyable:
    """A frozen dataclass, copies of which have other values of some fields."""

    def copy(self, **changes: Any) -> Self:
        """Return this with some fields changed."""
        changed: Self = dataclasses.replace(self, **changes)  # type: ignore[type-var]
        return changed


class Kind(Enum):
    """The kinds of values, by type, which determine their form in digests, JSON and Python.

    The first match counts: numpy's float64 is a float, and an enumeration may be an int.
    """

    ENUM = (Enum,)
    NUMPY = (np.generic, np.dtype, np.ndarray)
    LITERAL = (NoneType, bool, int, float, complex, str, bytes)
    SEQUENCE = (tuple, list)
    ORDERED_SET = (OrderedSet,)
    UNORDERED = (frozenset, set)
    MAPPING = (Mapping,)
    ISL = (BasicSet, Set)
    CLASS = (type,)
    FIELDS = "a dataclass"
    OTHER = "functions, for example"


@lru_cache(maxsize=1024)
def kind_of(of: Any) -> Kind:
    """Return the kind of the values of a type."""
    for kind in Kind:
        if isinstance(kind.value, tuple) and issubclass(of, kind.value):
            return kind
    return Kind.FIELDS if dataclasses.is_dataclass(of) else Kind.OTHER


#: Metadata of a field with a handle of this process, such as a device. Facts about it that affect
#: behaviour are in another field.
OF_THIS_PROCESS: Final[Mapping[str, bool]] = MappingProxyType({"of_this_process": True})


def compared_fields(kind: type) -> tuple[str, ...]:
    """Return the fields of the dataclass *kind* by which its values differ.

    They determine equality, digests and programs as Python.
    """
    return _fields_of(kind)[0]


def stored_fields(kind: type) -> tuple[str, ...]:
    """Return the fields of the dataclass *kind* that another process gets: in JSON, by pickle.

    In addition to the compared ones, these are fields that only messages need, such as sources.
    """
    return _fields_of(kind)[1]


def stored_values(value: Any) -> dict[str, Any]:
    """Return the values of the :func:`stored_fields` of a dataclass."""
    return {name: getattr(value, name) for name in stored_fields(type(value))}


@lru_cache(maxsize=1024)
def _fields_of(kind: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    fields = dataclasses.fields(kind)
    compared = tuple(field.name for field in fields if field.compare)
    stored = (f for f in fields if f.init and not f.metadata.keys() & OF_THIS_PROCESS.keys())
    return compared, tuple(field.name for field in stored)


def replace(value: ValueT, /, **changes: Any) -> ValueT:
    """Return a copy of a dataclass with some fields changed, as :func:`dataclasses.replace`.

    It is created without calling ``__init__``, unless its class has a ``__post_init__``.
    """
    kind: Any = type(value)
    names = _plain_fields(kind)
    if names is None:
        return dataclasses.replace(value, **changes)  # type: ignore[type-var]
    copied: ValueT = object.__new__(kind)
    state = copied.__dict__
    state |= value.__dict__
    state |= changes
    if len(state) > len(names):
        for name in state.keys() - names:  # what has been found out about the other value
            del state[name]
        if not names.issuperset(changes):
            raise TypeError(f"{kind.__name__} has no field '{min(changes.keys() - names)}'")
    return copied


@lru_cache(maxsize=1024)
def _plain_fields(kind: Any) -> frozenset[str] | None:
    """Return the fields of a dataclass whose values consist of these only, else ``None``."""
    fields = dataclasses.fields(kind)
    is_plain = not hasattr(kind, "__post_init__") and not hasattr(kind, "__slots__")
    return frozenset(f.name for f in fields) if is_plain and all(f.init for f in fields) else None
