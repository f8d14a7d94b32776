"""IR values as JSON and back, for caches that must not execute code when they are read."""

from __future__ import annotations

import base64
import dataclasses
import functools
import json
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import numpy as np
from constantdict import constantdict

from kgen.errors import KgenError
from kgen.ir.fields import Kind, kind_of, stored_values
from kgen.ir.ordered_set import OrderedSet
from kgen.ir.reductions import (
    KnownOperation,
    ReductionOperation,
    find_reduction_op,
    parse_reduction_op,
)
from kgen.ir.sets.dims import BasicSet, Set
from kgen.ir.sets.domain import ConstraintRows, is_read_back
from kgen.ir.types import Optional
from kgen.ir.vector_values import layout_of, numbers_of, vector_type

__all__ = ["CodecError", "decode", "encode"]

#: The key of a JSON object that names its kind.
_KIND: Final = "kind"


class CodecError(KgenError):
    """A value without a JSON form, or JSON with contents unknown to this program."""


def encode(value: Any) -> str:
    """Write *value* as JSON: dataclasses, expressions, isl sets, containers, numpy data.

    Values with the same content give equal texts, in every process. Raises :class:`CodecError`
    for others.
    """
    try:
        return json.dumps(_pack(value), separators=(",", ":"), allow_nan=False)
    except (RecursionError, ValueError) as error:
        raise CodecError(f"this value has no JSON form: {error}") from None


def decode(text: str) -> Any:
    """Read the result of :func:`encode`.

    Classes and functions are looked up in imported modules; nothing else is
    called or imported. Raises :class:`CodecError` if one is missing.
    """
    try:
        return _unpack(json.loads(text))
    except CodecError:
        raise
    except (KgenError, TypeError, ValueError, KeyError, RecursionError) as error:
        raise CodecError(f"this is not the JSON of a value: {error!r}") from None


def _pack(value: Any) -> Any:
    if value is None or type(value) in (bool, str):
        return value
    kind: Any = type(value)
    return _PACKERS.get(kind_of(kind), _pack_exactly)(value)


def _pack_exactly(value: Any) -> Any:
    """Write a number, text or container; a subclass may have more content than its items."""
    pack = _PACKERS_OF_EXACTLY.get(type(value))
    if pack is not None:
        return pack(value)
    base = _base_of(type(value))
    if base is None:
        raise CodecError(f"a {type(value).__name__} may be more than its items")
    return {_KIND: "like", "class": _name_of(type(value)), "content": _pack(base(value))}


def _pack_object(value: Any) -> Any:
    if isinstance(value, ReductionOperation):
        return _pack_reduction(value)
    if isinstance(value, Optional):
        return {_KIND: "optional", "items": [_pack(value.value)] if value.has_value else []}
    if dataclasses.is_dataclass(value):
        packed = {name: _pack(one) for name, one in stored_values(value).items()}
        return {_KIND: "object", "class": _name_of(type(value)), "fields": packed}
    if callable(value):
        return {_KIND: "name", "value": _name_of(value)}
    raise CodecError(f"a {type(value).__name__} has no JSON form")


def _pack_numpy(value: Any) -> Any:
    if isinstance(value, np.dtype):
        return _pack_dtype(value)
    packed = {
        "type": _pack_dtype(value.dtype),
        "value": _bytes(np.ascontiguousarray(value).tobytes()),
    }
    if isinstance(value, np.generic):
        return {_KIND: "number", **packed}
    return {_KIND: "array", **packed, "shape": list(value.shape)}


def _pack_dtype(value: np.dtype[Any]) -> Any:
    numbers = numbers_of(value)
    if numbers is not None:
        return {_KIND: "vector", "number": numbers[0].str, "count": numbers[1]}
    if value.hasobject:
        raise CodecError(f"the type {value} has no JSON form")
    if value.subdtype is not None:
        base, shape = value.subdtype
        return {_KIND: "subarray", "base": _pack_dtype(base), "shape": list(shape)}
    if value.fields is not None:
        layout = layout_of(value)
        return {
            _KIND: "structure",
            **layout,
            "formats": [_pack_dtype(f) for f in layout["formats"]],
        }
    return {_KIND: "dtype", "value": value.str}


def _pairs(value: Mapping[Any, Any]) -> list[Any]:
    return [[_pack(key), _pack(item)] for key, item in value.items()]


def _pack_set(value: Iterable[Any]) -> Any:
    items = sorted((_pack(item) for item in value), key=json.dumps)
    return {_KIND: type(value).__name__, "items": items}


def _pack_isl(value: BasicSet | Set) -> Any:
    """Write a set as its text, or as its constraints if isl reads a different set from the text."""
    if is_read_back(value):
        return {_KIND: type(value).__name__, "text": str(value)}
    if isinstance(value, Set):
        pieces = [_pack(ConstraintRows.of(piece)) for piece in value.get_basic_sets()]
        return {_KIND: "pieces", "items": pieces}
    return {_KIND: "constraints", "rows": _pack(ConstraintRows.of(value))}


def _unpack_pieces(data: Mapping[str, Any]) -> Set:
    sets = (Set.from_basic_set(_unpack(rows).make()) for rows in data["items"])
    return functools.reduce(Set.union, sets)


def _pack_reduction(value: ReductionOperation) -> Any:
    if not isinstance(value, KnownOperation) or find_reduction_op(value.name) != value:
        raise CodecError(f"the reduction {value.name} is not one of kgen's own")
    return {_KIND: "reduction", "name": value.name}


def _base_of(of: type) -> type | None:
    """Return ``tuple`` or ``constantdict`` for a subclass that consists only of its items."""
    base = tuple if issubclass(of, tuple) else constantdict
    is_plain = of.__new__ is base.__new__ and of.__init__ is base.__init__  # type: ignore[misc]
    return base if issubclass(of, base) and is_plain else None


_PACKERS: Final[Mapping[Kind, Callable[[Any], Any]]] = {
    Kind.ENUM: lambda v: {_KIND: "enum", "class": _name_of(type(v)), "name": v.name},
    Kind.NUMPY: _pack_numpy,
    Kind.ISL: _pack_isl,
    Kind.ORDERED_SET: lambda v: {_KIND: "ordered set", "items": [_pack(item) for item in v]},
    Kind.CLASS: lambda v: {_KIND: "name", "value": _name_of(v)},
    Kind.FIELDS: _pack_object,
    Kind.OTHER: _pack_object,
}


#: Subclasses of these may have more content: named tuples, ordered or counting dictionaries.
_PACKERS_OF_EXACTLY: Final[Mapping[type, Callable[[Any], Any]]] = {
    int: int,
    float: lambda v: {_KIND: "float", "value": v.hex()},
    complex: lambda v: {_KIND: "complex", "value": [v.real.hex(), v.imag.hex()]},
    bytes: lambda v: {_KIND: "bytes", "value": _bytes(v)},
    str: str,
    list: lambda v: [_pack(item) for item in v],
    tuple: lambda v: {_KIND: "tuple", "items": [_pack(item) for item in v]},
    frozenset: _pack_set,
    set: _pack_set,
    constantdict: lambda v: {_KIND: "constantdict", "items": sorted(_pairs(v), key=json.dumps)},
    dict: lambda v: {_KIND: "dict", "items": _pairs(v)},
}


def _unpack(data: Any) -> Any:
    if isinstance(data, list):
        return [_unpack(item) for item in data]
    return _UNPACKERS[data[_KIND]](data) if isinstance(data, dict) else data


def _unpack_structure(data: Mapping[str, Any]) -> np.dtype[Any]:
    layout: Any = {key: item for key, item in data.items() if key != _KIND}
    layout["formats"] = _unpack(data["formats"])
    dtype: np.dtype[Any] = np.dtype(layout)
    return dtype


def _unpack_number(data: Mapping[str, Any]) -> Any:
    return np.frombuffer(base64.b64decode(data["value"]), _unpack(data["type"]))[0]


def _unpack_array(data: Mapping[str, Any]) -> Any:
    content = np.frombuffer(base64.b64decode(data["value"]), _unpack(data["type"]))
    return content.reshape(data["shape"]).copy()


def _unpack_map(data: Mapping[str, Any]) -> dict[Any, Any]:
    return {_unpack(key): _unpack(item) for key, item in data["items"]}


def _unpack_like_built_in(data: Mapping[str, Any]) -> Any:
    of = _named(data["class"])
    if not (isinstance(of, type) and issubclass(of, tuple | constantdict) and _base_of(of)):
        raise CodecError(f"{data['class']} is not made of items as they are")
    return of(_unpack(data["content"]))


def _unpack_object(data: Mapping[str, Any]) -> Any:
    of = _named(data["class"])
    if not (isinstance(of, type) and dataclasses.is_dataclass(of)):
        raise CodecError(f"{data['class']} is not a dataclass")
    return of(**{name: _unpack(value) for name, value in data["fields"].items()})


_UNPACKERS: Final[Mapping[str, Callable[[Mapping[str, Any]], Any]]] = {
    "enum": lambda d: _named(d["class"])[d["name"]],
    "number": _unpack_number,
    "float": lambda d: float.fromhex(d["value"]),
    "complex": lambda d: complex(*map(float.fromhex, d["value"])),
    "bytes": lambda d: base64.b64decode(d["value"]),
    "optional": lambda d: Optional(*map(_unpack, d["items"])),
    "dtype": lambda d: np.dtype(d["value"]),
    "vector": lambda d: vector_type(np.dtype(d["number"]), d["count"]).dtype,
    "structure": _unpack_structure,
    "subarray": lambda d: np.dtype((_unpack(d["base"]), tuple(d["shape"]))),
    "array": _unpack_array,
    "like": _unpack_like_built_in,
    "tuple": lambda d: tuple(map(_unpack, d["items"])),
    "ordered set": lambda d: OrderedSet(map(_unpack, d["items"])),
    "frozenset": lambda d: frozenset(map(_unpack, d["items"])),
    "set": lambda d: set(map(_unpack, d["items"])),
    "constantdict": lambda d: constantdict(_unpack_map(d)),
    "dict": _unpack_map,
    "name": lambda d: _named(d["value"]),
    "reduction": lambda d: parse_reduction_op(d["name"]),
    "BasicSet": lambda d: BasicSet(d["text"]),
    "constraints": lambda d: _unpack(d["rows"]).make(),
    "pieces": _unpack_pieces,
    "Set": lambda d: Set(d["text"]),
    "object": _unpack_object,
}


def _bytes(value: bytes) -> str:
    return base64.b64encode(value).decode("ascii")


def _name_of(value: Any) -> str:
    """Return ``module:name`` of a class or function that can be found by that name."""
    name = f"{getattr(value, '__module__', None)}:{getattr(value, '__qualname__', None)}"
    if _named(name) is not value:
        raise CodecError(f"{value!r} cannot be found by its name")
    return name


def _named(name: str) -> Any:
    module_name, _, path = name.partition(":")
    found: Any = sys.modules.get(module_name)
    for part in path.split("."):
        found = getattr(found, part, None)
    if found is None:
        raise CodecError(f"there is no {name} in this program")
    return found
