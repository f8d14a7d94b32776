"""Fields of structures in memory: their types, and which accesses to an element overlap."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import pymbolic.primitives as p

from kgen.analysis.access import Access
from kgen.ir.expr import Expr
from kgen.ir.kernel import LoopKernel
from kgen.ir.types import NumpyType
from kgen.ir.vector_values import numbers_of

__all__ = ["are_apart", "separate_fields", "split_fields"]


def split_fields(expr: Expr) -> tuple[Expr, tuple[str, ...]]:
    """Return the expression of which *expr* is a part, and the fields that lead to it.

    >>> print(*split_fields(p.Lookup(p.Lookup(p.Variable("a"), "v"), "x")))
    a ('v', 'x')
    """
    fields: list[str] = []
    while isinstance(expr, p.Lookup):
        fields.append(expr.name)
        expr = expr.aggregate
    return expr, tuple(reversed(fields))


def separate_fields(dtype: np.dtype[Any]) -> Mapping[str, np.dtype[Any]]:
    """Return the types of the fields of a structure that share no bytes.

    There are none for numbers, vectors and unions.
    """
    if dtype.fields is None or dtype.names is None or numbers_of(dtype) is not None:
        return {}
    found = {name: dtype.fields[name][0] for name in dtype.names}
    spans = sorted((_bytes(dtype, (name,)) for name in found), key=lambda span: span.start)
    return {} if any(one.stop > other.start for one, other in pairwise(spans)) else found


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
