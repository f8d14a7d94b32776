"""loopy.expression: the context in which an expression is typed."""

from __future__ import annotations

from typing import Any

from kgen.ir.types import NumpyType

__all__ = ["dtype_to_type_context"]

_CONTEXTS = {"b": "b", "i": "i", "u": "i"}


def dtype_to_type_context(target: Any, dtype: Any) -> str | None:
    """Return the letter of numbers of a type: ``"b"``, ``"i"``, ``"f"`` or ``"d"``, else none.

    kgen's mappers to code take it where loopy's do, and go by the type itself.

    >>> import numpy as np
    >>> dtype_to_type_context(None, NumpyType(np.dtype(np.uint8)))
    'i'
    """
    if not isinstance(dtype, NumpyType):
        return None
    kind = dtype.numpy_dtype
    if kind.kind in "fc":
        return {4: "f", 8: "d"}.get(kind.itemsize // (2 if kind.kind == "c" else 1))
    return _CONTEXTS.get(kind.kind)
