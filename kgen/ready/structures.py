"""Structures of ready kernels: their names, their fields, and declarations of them in C."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import numpy as np

from kgen.errors import KernelError
from kgen.ir.target import TargetBase
from kgen.ir.types import NumpyType
from kgen.ir.vector_values import numbers_of
from kgen.ready.c_types import NAMED_TYPES, Dtype
from kgen.targets.base import CFamilyLanguage
from kgen.targets.opencl import PyOpenCLTarget
from kgen.targets.records import record_name, record_need

__all__ = [
    "NAMES",
    "as_in_c",
    "check_structure",
    "declarations",
    "fields_of",
    "is_structure",
    "leaf_types",
    "named_in",
    "type_text",
]

#: The structures that are registered with kgen, by name.
NAMES: Final[dict[str, Dtype]] = {}
_OPENCL: Final = PyOpenCLTarget()
_WORDS: Final = re.compile(r"[A-Za-z_]\w*")


def is_structure(dtype: Dtype) -> bool:
    """Tell whether values of a type have fields, and are not vectors such as ``float4``.

    >>> is_structure(np.dtype("f4,i4")), is_structure(np.dtype(np.complex64))
    (True, False)
    """
    return dtype.fields is not None and numbers_of(dtype) is None


def fields_of(dtype: Dtype) -> dict[str, Dtype]:
    """Return the types of the fields of a structure by name.

    >>> fields_of(np.dtype("f4,i4"))
    {'f0': dtype('float32'), 'f1': dtype('int32')}
    """
    assert dtype.fields is not None
    return {name: dtype.fields[name][0] for name in dtype.names or ()}


def as_in_c(dtype: Dtype) -> Dtype:
    """Return a structure with the fields of another one, where C places them.

    >>> as_in_c(np.dtype([("k", "i1"), ("x", "f4")])).fields["x"]
    (dtype('float32'), 4)
    """
    if not is_structure(dtype):
        return dtype
    fields = [(name, as_in_c(kind)) for name, kind in fields_of(dtype).items()]
    return np.dtype(fields, align=True)


def leaf_types(dtype: Dtype) -> tuple[Dtype, ...]:
    """Return the types of all numbers of a structure, also those of nested structures.

    >>> leaf_types(np.dtype([("pair", "f4,i4"), ("x", "f8")]))
    (dtype('float32'), dtype('int32'), dtype('float64'))
    """
    if not is_structure(dtype):
        return (dtype,)
    return tuple(leaf for kind in fields_of(dtype).values() for leaf in leaf_types(kind))


def type_text(dtype: Dtype) -> str:
    """Return what messages call a type: for a structure, its name or its fields.

    >>> type_text(np.dtype("f4,i4"))
    "structure with the fields 'f0', 'f1'"
    """
    if not is_structure(dtype):
        return str(dtype)
    name = next((name for name, known in NAMES.items() if known == dtype), None)
    fields = ", ".join(f"'{field}'" for field in fields_of(dtype))
    return f"structure with the fields {fields}" if name is None else f"structure '{name}'"


def check_structure(dtype: Dtype, where: str) -> Dtype:
    """Return a type; reject a structure with a field that kernels cannot have."""
    if is_structure(dtype):
        for name, kind in fields_of(dtype).items():
            if kind.subdtype is not None:
                raise KernelError(
                    f"field '{name}' of {where} is an array",
                    hint=f"declare its elements as fields: {name}_0, {name}_1",
                )
            check_structure(kind, where)
    return dtype


def named_in(*texts: str) -> dict[str, Dtype]:
    """Return the registered structures whose names occur in texts.

    The registries are kgen's, and pyopencl's if a program imports it.
    """
    words = {word for text in texts for word in _WORDS.findall(text)}
    found: dict[str, Dtype] = {}
    for word in sorted(words - NAMED_TYPES.keys()):
        dtype = NAMES.get(word)
        if dtype is None and "pyopencl.tools" in sys.modules:
            dtype = _OPENCL.load_runtime().structure_of_name(word)
        if dtype is not None:
            found[word] = check_structure(dtype, f"the structure '{word}'")
    return found


def declarations(target: TargetBase, dtypes: Sequence[Dtype]) -> list[tuple[str, str]]:
    """Return the preambles for structures to which a target gives names of other registries."""
    found: dict[str, str] = {}
    if not isinstance(target, CFamilyLanguage):
        return []
    for dtype in _all_structures(dtypes):
        name = target.structure_name(dtype)
        if name is not None and name != record_name(dtype):
            need = record_need(dtype, _namer(target), (), target.language, name=name)
            for inner in fields_of(dtype).values():
                found |= {one.key: one.text for one in target.needs_of(inner)}
            found[f"structure {name}"] = need.text
    return list(found.items())


def _namer(target: CFamilyLanguage) -> Callable[[Dtype], str]:
    return lambda dtype: target.type_name(NumpyType(dtype))


def _all_structures(dtypes: Sequence[Dtype]) -> Iterator[Dtype]:
    """Yield structures, each behind those that are its fields."""
    for dtype in dtypes:
        if is_structure(dtype):
            yield from _all_structures([*fields_of(dtype).values()])
            yield dtype
