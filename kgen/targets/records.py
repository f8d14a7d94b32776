"""Structures as element types: their names, and definitions with numpy's layout."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from hashlib import sha256
from typing import Any

import numpy as np

from kgen.errors import CodegenError
from kgen.targets.preamble import Need, Rank

__all__ = ["record_name", "record_need"]

Dtype = np.dtype[Any]


def record_name(dtype: Dtype) -> str:
    """Return the name of a structure in generated code: the same for the same fields.

    >>> record_name(np.dtype("f4,i4"))
    'kgen_record_78747b'
    """
    fields = ((name, *map(str, field[:2])) for name, field in _fields(dtype))
    return f"kgen_record_{sha256(repr((*fields, dtype.itemsize)).encode()).hexdigest()[:6]}"


def record_need(
    dtype: Dtype,
    name_of: Callable[[Dtype], str],
    reserved: Collection[str],
    language: str,
    name: str | None = None,
) -> Need:
    """Return the definition of a structure, with padding between its fields.

    Its name is that of :func:`record_name` unless another one is given. It is packed if numpy's
    offsets of fields are not those of the language. Raises :class:`CodegenError` for fields with
    other types, and arrays.
    """
    name = record_name(dtype) if name is None else name
    members: list[str] = []
    position = 0
    for field, (kind, offset, *_) in _fields(dtype):
        _check_field(field, kind, dtype, reserved, language)
        members += _gap(position, offset)
        members.append(f"{name_of(kind)} {field};")
        position = offset + kind.itemsize
    members += _gap(position, dtype.itemsize)
    packed = "" if _is_natural(dtype) else " __attribute__((packed))"
    macro = name.upper()
    text = f"typedef struct{packed} {{ {' '.join(members)} }} {name};"
    key = f"record {_depth(dtype)} {name}"  # behind those that are its fields
    return Need(Rank.MACRO, key, f"#ifndef {macro}\n#define {macro}\n{text}\n#endif")


def _fields(dtype: Dtype) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Return the fields in the order of their offsets."""
    assert dtype.names is not None
    assert dtype.fields is not None
    fields = dtype.fields
    yield from sorted(((name, tuple(fields[name])) for name in dtype.names), key=lambda f: f[1][1])


def _depth(dtype: Dtype) -> int:
    if dtype.fields is None:
        return 0
    return 1 + max(_depth(kind) for _, (kind, *_) in _fields(dtype))


def _gap(position: int, offset: int) -> list[str]:
    """Return the declaration of padding bytes."""
    return [f"char pad{position}[{offset - position}];"] if offset > position else []


def _is_natural(dtype: Dtype) -> bool:
    """Tell whether C's offsets of fields, and of elements of arrays, are those of numpy."""
    kinds = [(kind, offset) for _, (kind, offset, *_) in _fields(dtype)]
    alignments = [_alignment(kind) for kind, _ in kinds]
    fit = all(offset % a == 0 for (_, offset), a in zip(kinds, alignments, strict=True))
    return fit and dtype.itemsize % max(alignments) == 0


def _alignment(dtype: Dtype) -> int:
    if dtype.fields is None:
        return dtype.alignment if dtype.kind != "c" else dtype.itemsize
    return max((_alignment(kind) for _, (kind, *_) in _fields(dtype)), default=1)


def _check_field(
    field: str, kind: Dtype, dtype: Dtype, reserved: Collection[str], language: str
) -> None:
    if not field.isidentifier() or not field.isascii() or field in reserved:
        raise CodegenError(
            f"{language} has no field '{field}', which the structure {dtype} has",
            hint="rename it: numpy.lib.recfunctions.rename_fields",
        )
    if kind.subdtype is not None:
        raise CodegenError(
            f"field '{field}' of the structure {dtype} is an array",
            hint="make it several fields, or pass it as a separate array",
        )
