"""The vector types of each target: names, lanes, values, and supported operations."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np

from kgen.ir.types import kind_of
from kgen.targets.preamble import Need, Rank

__all__ = [
    "CVectors",
    "CudaVectorValues",
    "CudaVectors",
    "OpenCLVectorValues",
    "OpenCLVectors",
    "VectorType",
    "Vectors",
]

Dtype = np.dtype[Any]


@dataclass(frozen=True)
class VectorType:
    """A vector type: its name, the names of its lanes, its alignment.

    ``constructor`` is the text before and after the components of a value. ``functions`` load and
    store a vector at any element, for a type that is larger than its components.
    """

    name: str
    lanes: tuple[str, ...]
    alignment: int
    constructor: tuple[str, str]
    needs: tuple[Need, ...] = ()
    functions: tuple[str, str] | None = None

    def value(self, numbers: Iterable[str]) -> str:
        """Return the text of a value with these components.

        >>> OpenCLVectors().type_of(np.dtype("uint32"), "uint", 2).value(["1", "i"])
        '(uint2)(1, i)'
        """
        before, behind = self.constructor
        return f"{before}{', '.join(numbers)}{behind}"


class Vectors:
    """The vector types of one language."""

    #: Operators work on whole vectors; a scalar operand applies to every lane.
    has_operators: ClassVar[bool] = False
    #: The possible numbers of components of a vector.
    counts: ClassVar[tuple[int, ...]] = (2, 4, 8, 16)

    def type_of(self, dtype: Dtype, type_name: str, count: int) -> VectorType | None:
        """Return the vector type of *count* numbers of the language's type *type_name*."""
        has_type = kind_of(dtype) in "iuf" and count in self.counts
        return self._make_type(dtype, type_name, count) if has_type else None

    def _make_type(self, dtype: Dtype, type_name: str, count: int) -> VectorType:
        raise NotImplementedError


class OpenCLVectors(Vectors):
    """Types such as ``float4``, with operators; ``float3`` by ``vload3`` and ``vstore3``."""

    has_operators: ClassVar[bool] = True
    counts: ClassVar[tuple[int, ...]] = (2, 3, 4, 8, 16)

    def _make_type(self, dtype: Dtype, type_name: str, count: int) -> VectorType:
        lanes = tuple(f"s{k:x}" for k in range(count))
        name = f"{type_name}{count}"
        constructor = (f"({name})(", ")")
        if count == 3:
            functions = ("vload3", "vstore3")
            return VectorType(name, lanes, dtype.itemsize, constructor, functions=functions)
        return VectorType(name, lanes, count * dtype.itemsize, constructor)


class CVectors(Vectors):
    """Structures, since C has no vector types."""

    counts: ClassVar[tuple[int, ...]] = (2, 3, 4, 8, 16)

    def _make_type(self, dtype: Dtype, type_name: str, count: int) -> VectorType:
        name = _structure_name(dtype, count)
        lanes = tuple(f"s[{k}]" for k in range(count))
        needs = (_definition(name, f"typedef struct {{ {type_name} s[{count}]; }} {name};"),)
        return VectorType(name, lanes, dtype.itemsize, (f"({name}) {{{{", "}}"), needs)


class OpenCLVectorValues(OpenCLVectors):
    """Values of the same types; three components are a structure, as ``float3`` has four."""

    def _make_type(self, dtype: Dtype, type_name: str, count: int) -> VectorType:
        if count == 3:
            return CVectors()._make_type(dtype, type_name, count)
        return super()._make_type(dtype, type_name, count)


def _structure_name(dtype: Dtype, count: int) -> str:
    return f"kgen_{dtype.name}x{count}"


def _definition(name: str, text: str) -> Need:
    """Return the definition of a type, which headers and code in one file may repeat."""
    macro = name.upper()
    return Need(Rank.MACRO, name, f"#ifndef {macro}\n#define {macro}\n{text}\n#endif")


#: The names of CUDA's own vector types, before the number of lanes.
_CUDA_NAMES: Final = {
    "int8": "char",
    "int16": "short",
    "int32": "int",
    "int64": "longlong",
    "uint8": "uchar",
    "uint16": "ushort",
    "uint32": "uint",
    "uint64": "ulonglong",
    "float32": "float",
    "float64": "double",
}
#: Those that exist only with two components.
_CUDA_PAIRS: Final = {"float16": "half2", "bfloat16": "__nv_bfloat162"}
#: The bytes of the longest access of a thread in one instruction.
_LONGEST: Final = 16


class CudaVectors(Vectors):
    """Types such as ``float4``, or else structures with the same alignment."""

    def _make_type(self, dtype: Dtype, type_name: str, count: int) -> VectorType:
        size = count * dtype.itemsize
        pair = _CUDA_PAIRS.get(dtype.name)
        if count == 2 and pair is not None:
            return VectorType(pair, ("x", "y"), size, (f"{pair}(", ")"))
        if count <= 4 and size <= _LONGEST and pair is None:
            name = f"{_CUDA_NAMES[dtype.name]}{count}"
            return VectorType(name, tuple("xyzw"[:count]), size, (f"make_{name}(", ")"))
        alignment = min(size, _LONGEST)
        name = _structure_name(dtype, count)
        text = f"struct __align__({alignment}) {name} {{ {type_name} s[{count}]; }};"
        lanes = tuple(f"s[{k}]" for k in range(count))
        needs = (_definition(name, text),)
        return VectorType(name, lanes, alignment, (f"{name}{{{{", "}}"), needs)


class CudaVectorValues(CudaVectors):
    """Values of the same types, and types such as ``float3``."""

    counts: ClassVar[tuple[int, ...]] = (2, 3, 4, 8, 16)

    def _make_type(self, dtype: Dtype, type_name: str, count: int) -> VectorType:
        if count != 3:
            return super()._make_type(dtype, type_name, count)
        known = _CUDA_NAMES.get(dtype.name)
        if known is None:
            return CVectors()._make_type(dtype, type_name, count)
        return VectorType(f"{known}3", tuple("xyz"), dtype.itemsize, (f"make_{known}3(", ")"))
