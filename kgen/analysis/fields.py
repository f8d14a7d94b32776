"""Fields of structures in memory: which accesses to an element overlap."""

from __future__ import annotations

from typing import Any

import numpy as np

from kgen.analysis.access import Access
from kgen.ir.kernel import LoopKernel
from kgen.ir.types import NumpyType
from kgen.ir.vector_values import numbers_of

__all__ = ["are_apart"]


def are_apart(kernel: LoopKernel, one: Access, other: Access) -> bool:
    """Tell whether two accesses are to different fields of structures, which share no bytes.

    Components of a vector are not apart: compilers may write all of them to change one.
    """
    if one.array != other.array or not (one.fields and other.fields):
        return False
    dtype = kernel.array_vars[one.array].dtype
    if not isinstance(dtype, NumpyType):
        return False
    first, second = (_bytes(dtype.numpy_dtype, access.fields) for access in (one, other))
    return first.stop <= second.start or second.stop <= first.start


def _bytes(dtype: np.dtype[Any], fields: tuple[str, ...]) -> range:
    """Return the bytes of a structure that hold a field of a field..."""
    start = 0
    for name in fields:
        if dtype.fields is None or name not in dtype.fields or numbers_of(dtype) is not None:
            break
        dtype, offset = dtype.fields[name][:2]
        start += offset
    return range(start, start + dtype.itemsize)
