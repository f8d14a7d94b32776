"""Vector values such as ``uint4``: their types, and the names of their components."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

import numpy as np

from kgen.ir.types import NumpyType

__all__ = [
    "COUNTS",
    "NUMBER_NAMES",
    "VECTOR_MAKERS",
    "lane_of",
    "layout_of",
    "numbers_of",
    "vector_type",
]

#: The possible numbers of components of a vector.
COUNTS: Final = (2, 3, 4, 8, 16)

#: OpenCL C's names of scalar types in functions, and the types.
NUMBER_NAMES: Final = {
    "char": "int8",
    "uchar": "uint8",
    "short": "int16",
    "ushort": "uint16",
    "int": "int32",
    "uint": "uint32",
    "long": "int64",
    "ulong": "uint64",
    "half": "float16",
    "float": "float32",
    "double": "float64",
}


@lru_cache(maxsize=256)
def vector_type(dtype: np.dtype[Any], count: int) -> NumpyType:
    """Return the type of a vector of *count* numbers: a structure, equal to pyopencl's.

    Its components are ``s0``, ``s1``...; the first four are also ``x``, ``y``, ``z`` and ``w``.

    >>> sorted(vector_type(np.dtype("uint32"), 2).dtype.fields)
    ['s0', 's1', 'x', 'y']
    """
    titles = [*"xyzw"[:count], *(None for _ in range(4, count))]
    names = [f"s{k}" for k in range(count)]
    layout: Any = {"names": names, "formats": [dtype] * count, "titles": titles}
    return NumpyType(np.dtype(layout))


@lru_cache(maxsize=256)
def numbers_of(dtype: np.dtype[Any]) -> tuple[np.dtype[Any], int] | None:
    """Return the type and number of a vector's components, ``None`` for another type.

    >>> numbers_of(vector_type(np.dtype("float32"), 4).dtype)
    (dtype('float32'), 4)
    >>> numbers_of(np.dtype("float32")) is None
    True
    """
    if dtype.fields is None or dtype.names is None or len(dtype.names) not in COUNTS:
        return None
    number: np.dtype[Any] = dtype.fields[dtype.names[0]][0]
    count = len(dtype.names)
    return (number, count) if dtype == vector_type(number, count).dtype else None


def layout_of(dtype: np.dtype[Any]) -> dict[str, Any]:
    """Return the names, types, offsets and titles of a structure, for :class:`numpy.dtype`.

    >>> layout_of(np.dtype("u1,f4"))["offsets"]
    [0, 1]
    """
    assert dtype.names is not None
    assert dtype.fields is not None
    names = list(dtype.names)
    fields = [dtype.fields[name] for name in names]
    return {
        "names": names,
        "formats": [field[0] for field in fields],
        "offsets": [field[1] for field in fields],
        "titles": [field[2] if len(field) > 2 else None for field in fields],
        "itemsize": dtype.itemsize,
    }


def lane_of(dtype: np.dtype[Any], name: str) -> int:
    """Return the index of the component *name* of a vector of type *dtype*.

    >>> lane_of(vector_type(np.dtype("float32"), 4).dtype, "z")
    2
    """
    assert dtype.fields is not None
    number, offset = dtype.fields[name][:2]
    return int(offset) // int(number.itemsize)


#: The result types of functions such as ``make_uint4``, by function name.
VECTOR_MAKERS: Final = {
    f"make_{name}{count}": vector_type(np.dtype(dtype), count)
    for name, dtype in NUMBER_NAMES.items()
    for count in COUNTS
}
