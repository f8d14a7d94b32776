"""The vector types of each target: names, lanes, and what can be computed with them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np

from kgen.targets.preamble import Need, Rank

__all__ = ["CudaVectors", "OpenCLVectors", "VectorType", "Vectors"]

Dtype = np.dtype[Any]


@dataclass(frozen=True)
class VectorType:
    """A type for several numbers: its name, the names of its lanes, how it must be aligned."""

    name: str
    lanes: tuple[str, ...]
    alignment: int
    needs: tuple[Need, ...] = ()


class Vectors:
    """The vector types of one language."""

    #: Operators on whole vectors exist; numbers beside them count for every lane.
    has_operators: ClassVar[bool] = False

    def type_of(self, dtype: Dtype, type_name: str, count: int) -> VectorType | None:
        """Return the type of *count* numbers, of which the language calls one *type_name*."""
        raise NotImplementedError


class OpenCLVectors(Vectors):
    """``float4`` and its kin, with operators."""

    has_operators: ClassVar[bool] = True

    def type_of(self, dtype: Dtype, type_name: str, count: int) -> VectorType | None:
        if dtype.kind not in "iuf" or count not in (2, 4, 8, 16):
            return None
        lanes = tuple(f"s{k:x}" for k in range(count))
        return VectorType(f"{type_name}{count}", lanes, count * dtype.itemsize)


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
#: The bytes of the longest access that a thread makes in one instruction.
_LONGEST: Final = 16


class CudaVectors(Vectors):
    """``float4`` and its kin where they exist, else structures that are aligned like them."""

    def type_of(self, dtype: Dtype, type_name: str, count: int) -> VectorType | None:
        if dtype.kind not in "iuf" or count not in (2, 4, 8, 16):
            return None
        size = count * dtype.itemsize
        if count <= 4 and size <= _LONGEST:
            return VectorType(f"{_CUDA_NAMES[dtype.name]}{count}", tuple("xyzw"[:count]), size)
        alignment = min(size, _LONGEST)
        name = f"kgen_{dtype.name}x{count}"
        text = f"struct __align__({alignment}) {name} {{ {type_name} s[{count}]; }};"
        lanes = tuple(f"s[{k}]" for k in range(count))
        return VectorType(name, lanes, alignment, (Need(Rank.MACRO, name, text),))
